//! `list_runs`: lists the runs of a project, the newest first, page by page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::tool_call::ToolCall;
use super::catalog::{Hints, NativeTool, ToolReply};
use super::run_report::{DenialReport, QuestionBelow, fit};
use engine::{EngineError, ListScope, RunSummary};

const LIMIT_DEFAULT: usize = 20;
const PROMPT_BYTES: usize = 160;
/// Denials of each run. A model reads the list, so it is short.
const DENIALS_PER_RUN: usize = 3;

pub(super) struct ListRuns;

/// List runs, the newest first: those that are going, and those of the last 7 days. Use it to find a run whose run_id
/// you no longer have, for example after a restart.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Input {
    /// The absolute path of a directory; the runs of its project are listed. Left out: the project that this server
    /// was started in.
    directory: Option<String>,
    /// Runs of all projects.
    all_projects: Option<bool>,
    /// Only runs in one of these states: accepted, running, waiting, stopping, succeeded, partial, failed, timed_out,
    /// cancelled, over_budget, refused, interrupted.
    states: Option<Vec<RunState>>,
    /// Only runs of this agent.
    agent: Option<String>,
    /// Only runs of this session.
    session_id: Option<String>,
    /// Only runs that were started at most this many seconds ago.
    max_age_s: Option<u64>,
    /// Only runs that were started before this run: the cursor of the next page.
    before: Option<String>,
    /// How many at most. Left out: 20.
    #[schemars(range(min = 1, max = 100))]
    limit: Option<usize>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RunState {
    Accepted,
    Running,
    Waiting,
    Stopping,
    Succeeded,
    Partial,
    Failed,
    TimedOut,
    Cancelled,
    OverBudget,
    Refused,
    Interrupted,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    runs: Vec<RunEntry>,
    /// Give it as before for the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    /// What to do next, where something is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RunEntry {
    run_id: String,
    agent: String,
    status: String,
    /// What the agent was denied first, so that its answer may be incomplete. get_run returns more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    denials: Vec<DenialReport>,
    /// How often the agent was denied something.
    #[serde(skip_serializing_if = "Option::is_none")]
    denials_count: Option<u64>,
    /// Open questions of runs below this one. A person answers them, not you.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needs_answer: Vec<QuestionBelow>,
    created_at: String,
    duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_run_id: Option<String>,
    /// The beginning of the prompt.
    prompt: String,
    project: String,
    caller: String,
}

impl NativeTool for ListRuns {
    const NAME: &'static str = "list_runs";
    const TITLE: &'static str = "List runs";
    const HINTS: Hints = Hints::READ_ONLY;
    const SEARCH_HINT: &'static str = "find earlier or running sub-agent runs";

    type Input = Input;
    type Output = Output;

    async fn call(call: &ToolCall<'_>, input: Input) -> Result<ToolReply<Output>, EngineError> {
        let states = input.states.unwrap_or_default();
        let request = engine::ListRuns {
            directory: input.directory,
            scope: if input.all_projects == Some(true) { ListScope::All } else { ListScope::Project },
            states: states.into_iter().map(state_name).collect(),
            agent: input.agent,
            session: input.session_id,
            max_age_ms: input.max_age_s.map(|seconds| seconds.saturating_mul(1_000)),
            before: input.before,
            limit: input.limit.unwrap_or(LIMIT_DEFAULT),
            denials_per_run: DENIALS_PER_RUN,
        };
        let list = call.handler.engine.ask(request).await?;
        let before = list.before.map(|run| run.to_string());
        let next = next_step(&list.runs, before.as_deref());
        Ok(ToolReply::Done(Output {
            runs: list.runs.into_iter().map(RunEntry::from).collect(),
            before,
            next,
        }))
    }
}

/// Returns what a caller can do with a list.
fn next_step(runs: &[RunSummary], before: Option<&str>) -> Option<String> {
    let active: Vec<String> =
        runs.iter().filter(|run| !run.ended).map(|run| run.run_id.to_string()).collect();
    let steps = [
        runs.is_empty().then(|| {
            "No run matches. Leave out filters, or list all_projects; run_agent starts one.".to_owned()
        }),
        (!active.is_empty()).then(|| {
            format!("wait_runs with run_ids {} waits for the active runs.", serde_json::json!(active))
        }),
        before.map(|before| format!("list_runs with before {before:?} returns the next page.")),
    ];
    let steps: Vec<String> = steps.into_iter().flatten().collect();
    (!steps.is_empty()).then(|| steps.join(" "))
}

fn state_name(state: RunState) -> String {
    let name = match state {
        RunState::Accepted => "accepted",
        RunState::Running => "running",
        RunState::Waiting => "waiting",
        RunState::Stopping => "stopping",
        RunState::Succeeded => "succeeded",
        RunState::Partial => "partial",
        RunState::Failed => "failed",
        RunState::TimedOut => "timed_out",
        RunState::Cancelled => "cancelled",
        RunState::OverBudget => "over_budget",
        RunState::Refused => "refused",
        RunState::Interrupted => "interrupted",
    };
    name.to_owned()
}

impl From<RunSummary> for RunEntry {
    fn from(line: RunSummary) -> Self {
        Self {
            run_id: line.run_id.to_string(),
            agent: line.agent,
            status: line.status,
            denials: line.denials.into_iter().map(DenialReport::from).collect(),
            denials_count: Some(line.denials_count).filter(|count| *count > 0),
            needs_answer: QuestionBelow::list(&line.needs_answer),
            created_at: line.created_at,
            duration_ms: line.duration_ms,
            session_id: line.session,
            parent_run_id: line.parent.map(|parent| parent.to_string()),
            prompt: fit(&line.prompt, PROMPT_BYTES).to_owned(),
            project: line.project,
            caller: line.caller,
        }
    }
}
