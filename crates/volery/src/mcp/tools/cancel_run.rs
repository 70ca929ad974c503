//! `cancel_run`: cancels a run with its descendants, or all runs of a session.

use domain::run::CancelRequest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::tool_call::ToolCall;
use super::catalog::{Hints, NativeTool, ToolReply};
use engine::{CancelRunsRequest, CancelTarget, CancelledRun, EngineError};

pub(super) struct CancelRun;

/// Stop a run and everything that it started, or all runs of a session. Give run_id or session_id.
///
/// The agent is asked to stop and killed if it does not. What it had said by then is kept: get_run shows it. A run
/// that has already ended is left as it is.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Input {
    /// The run_id, or the last digits of it that people are shown.
    run_id: Option<String>,
    /// Stops every run of this session that has not ended.
    session_id: Option<String>,
    /// Why, for the record.
    reason: Option<String>,
    /// Kill at once instead of asking first.
    now: Option<bool>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    runs: Vec<CancelEffect>,
    /// What to do next, where something is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CancelEffect {
    run_id: String,
    /// asked, already_asked or already_ended.
    effect: String,
}

impl NativeTool for CancelRun {
    const NAME: &'static str = "cancel_run";
    const TITLE: &'static str = "Cancel a run";
    const HINTS: Hints = Hints { read_only: false, destructive: true, idempotent: true, open_world: false };
    const SEARCH_HINT: &'static str = "stop a running sub-agent";

    type Input = Input;
    type Output = Output;

    async fn call(call: &ToolCall<'_>, input: Input) -> Result<ToolReply<Output>, EngineError> {
        let target = match (input.run_id, input.session_id) {
            (Some(run), None) => CancelTarget::Run(run),
            (None, Some(session)) => CancelTarget::Session(session),
            (Some(_), Some(_)) | (None, None) => {
                return Err(EngineError::usage("give either run_id or session_id")
                    .hint("list_runs with states [\"running\", \"waiting\"] shows what can be cancelled"));
            }
        };
        let order = CancelRequest {
            by: call.client.caller_name(),
            reason: input.reason.unwrap_or_default(),
            now: input.now.unwrap_or(false),
        };
        let cancelled = call.handler.engine.ask(CancelRunsRequest { target, order }).await?;
        let next = next_step(&cancelled.runs);
        Ok(ToolReply::Done(Output {
            runs: cancelled.runs.into_iter().map(CancelEffect::from).collect(),
            next,
        }))
    }
}

fn next_step(runs: &[CancelledRun]) -> Option<String> {
    if runs.is_empty() {
        return Some(
            "The session has no active run. list_runs with session_id lists those that ended.".to_owned(),
        );
    }
    let stopping = runs.iter().filter(|run| run.effect != "already_ended");
    let stopping: Vec<String> = stopping.map(|run| run.run_id.to_string()).collect();
    (!stopping.is_empty()).then(|| {
        let stopping = serde_json::json!(stopping);
        format!("Call wait_runs with run_ids {stopping} to see how they end, with their output so far.")
    })
}

impl From<CancelledRun> for CancelEffect {
    fn from(run: CancelledRun) -> Self {
        Self { run_id: run.run_id.to_string(), effect: run.effect }
    }
}
