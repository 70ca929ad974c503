//! `wait_runs`: waits for runs that this or another client started before.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::client_profiles::ClientProfile;
use super::super::elicit;
use super::super::tool_call::ToolCall;
use super::super::wait_for_runs::{self, WaitEnd};
use super::catalog::{Hints, NativeTool, ToolReply};
use super::run_report::RunReport;
use engine::{EngineError, WaitRequest, WaitResult, WaitUntil};

const RESULT_BYTES_MIN: usize = 1 << 10;

pub(super) struct WaitRuns;

/// Wait for runs that are still going, and get their results.
///
/// Returns when all of them have ended, when the first has ended (until "any"), when one of them asks something, or
/// when the time is up; then it shows how they stand, and you can call it again. Runs that had already ended are
/// returned at once. One call that waits is better than many that look: do not poll.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Input {
    /// The run_ids, or the last digits of them that people are shown.
    #[schemars(length(min = 1, max = 200))]
    run_ids: Vec<String>,
    /// "all" waits until every run has ended, "any" until one has. Left out: all.
    until: Option<Until>,
    /// How many seconds to wait at most. 0 only looks. Left out: as long as your client allows.
    wait_s: Option<u64>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Until {
    All,
    Any,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    runs: Vec<RunReport>,
    /// What you waited for has not happened yet.
    timed_out: bool,
}

impl NativeTool for WaitRuns {
    const NAME: &'static str = "wait_runs";
    const TITLE: &'static str = "Wait for runs";
    const HINTS: Hints = Hints::READ_ONLY;
    const SEARCH_HINT: &'static str = "wait for running sub-agents and collect their results";

    type Input = Input;
    type Output = Output;

    fn cut_short(output: &Output) -> Vec<String> {
        output.runs.iter().filter_map(RunReport::cut_short).collect()
    }

    async fn call(call: &ToolCall<'_>, input: Input) -> Result<ToolReply<Output>, EngineError> {
        let until = match input.until {
            Some(Until::Any) => WaitUntil::Any,
            Some(Until::All) | None => WaitUntil::All,
        };
        let runs = input.run_ids;
        let waited =
            match wait_for_runs::wait(call, runs.clone(), until, call.remaining_wait(input.wait_s)).await? {
                WaitEnd::Waited(waited) => waited,
                WaitEnd::Question(view) => {
                    if let Some(ask) = elicit::input_required(call, &view) {
                        return Ok(ToolReply::Ask(Box::new(ask)));
                    }
                    let request = WaitRequest { runs, until, timeout_ms: Some(0) };
                    call.handler.engine.ask(request).await?
                }
                // Another call started these runs, so cancelling the wait does not cancel them.
                WaitEnd::Cancelled(_) | WaitEnd::Leaving => WaitResult { runs: Vec::new(), timed_out: true },
            };
        let share = call.client.result_bytes / waited.runs.len().max(1);
        let client = ClientProfile { result_bytes: share.max(RESULT_BYTES_MIN), ..call.client.clone() };
        let runs = waited.runs.into_iter().map(|run| RunReport::for_client(run, &client)).collect();
        Ok(ToolReply::Done(Output { runs, timed_out: waited.timed_out }))
    }
}
