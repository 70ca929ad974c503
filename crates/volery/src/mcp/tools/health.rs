//! `health`: returns success rates, durations and costs of agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::tool_call::ToolCall;
use super::catalog::{Hints, NativeTool, ToolReply};
use super::run_report::fit;
use engine::{AgentHealthSummary, EngineError, ListScope};

const AGENTS_MAX: usize = 100;
const ERROR_BYTES: usize = 300;

pub(super) struct HealthTool;

/// How the agents have been doing: success rate, durations, last error and cost of each, and how busy the machine is.
/// Use it to choose between agents, or when runs fail for no clear reason.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Input {
    /// The absolute path of a directory; the runs of its project count. Left out: the project that this server was
    /// started in.
    directory: Option<String>,
    /// Count the runs of all projects.
    all_projects: Option<bool>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    /// Runs that are going now.
    running: u64,
    /// Runs that wait for a slot or an answer.
    waiting: u64,
    /// How many runs this machine takes at a time.
    slots: u64,
    agents: Vec<AgentHealth>,
    /// How many more agents there are than are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<u64>,
    /// What to do next, where something is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct AgentHealth {
    agent: String,
    backend: String,
    runs: u64,
    succeeded: u64,
    partial: u64,
    failed: u64,
    /// Between 0 and 1, of the runs that ended by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    success_rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_ms: Option<u64>,
    max_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    /// Absent when unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
}

impl NativeTool for HealthTool {
    const NAME: &'static str = "health";
    const TITLE: &'static str = "Health of agents";
    const HINTS: Hints = Hints::READ_ONLY;
    const SEARCH_HINT: &'static str = "success rate, errors and cost of sub-agents";

    type Input = Input;
    type Output = Output;

    async fn call(call: &ToolCall<'_>, input: Input) -> Result<ToolReply<Output>, EngineError> {
        let scope = if input.all_projects == Some(true) { ListScope::All } else { ListScope::Project };
        let report =
            call.handler.engine.ask(engine::HealthRequest { directory: input.directory, scope }).await?;
        let cut = report.agents.len().saturating_sub(AGENTS_MAX) as u64;
        let more = report.left_out.saturating_add(cut);
        Ok(ToolReply::Done(Output {
            more: (more > 0).then_some(more),
            next: (report.waiting > 0).then(|| {
                "Some runs wait: list_runs with states [\"waiting\"] lists them, and get_run shows what a run waits for."
                    .to_owned()
            }),
            running: report.running,
            waiting: report.waiting,
            slots: report.slots,
            agents: report.agents.into_iter().take(AGENTS_MAX).map(AgentHealth::from).collect(),
        }))
    }
}

impl From<AgentHealthSummary> for AgentHealth {
    fn from(line: AgentHealthSummary) -> Self {
        Self {
            agent: line.agent,
            backend: line.backend,
            runs: line.runs,
            succeeded: line.succeeded,
            partial: line.partial,
            failed: line.failed,
            success_rate: line.success_rate,
            mean_ms: line.mean_ms,
            max_ms: line.max_ms,
            last_ended_at: line.last_ended_at,
            last_error: line.last_error.map(|error| fit(&error, ERROR_BYTES).to_owned()),
            cost_usd: line.cost_microusd.map(|cost| cost as f64 / 1e6),
        }
    }
}
