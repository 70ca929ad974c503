//! `wait_runs`: waits for runs that were started before, by this client or any other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::call::Call;
use super::super::clients::Client;
use super::super::elicit;
use super::super::waiting::{self, WaitEnd};
use super::catalogue::{Hints, NativeTool, Reply};
use super::report::RunReport;
use crate::app::{AppError, Wait, WaitUntil, Waited};

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
    const HINTS: Hints = Hints::LOOKS;
    const SEARCH_HINT: &'static str = "wait for running sub-agents and collect their results";

    type Input = Input;
    type Output = Output;

    fn cut_short(output: &Output) -> Vec<String> {
        output.runs.iter().filter_map(RunReport::cut_short).collect()
    }

    async fn call(call: &Call<'_>, input: Input) -> Result<Reply<Output>, AppError> {
        let until = match input.until {
            Some(Until::Any) => WaitUntil::Any,
            Some(Until::All) | None => WaitUntil::All,
        };
        let runs = input.run_ids;
        let waited = match waiting::wait(call, runs.clone(), until, call.patience(input.wait_s)).await? {
            WaitEnd::Waited(waited) => waited,
            WaitEnd::Asked(view) => {
                if let Some(ask) = elicit::input_required(call, &view) {
                    return Ok(Reply::Ask(Box::new(ask)));
                }
                let ask = Wait { runs, until, timeout_ms: Some(0) };
                call.door.app.wait(ask, &mut |_| {}).await?
            }
            // These runs were started by another call: to stop waiting for them is not to stop them.
            WaitEnd::Cancelled(_) | WaitEnd::Leaving => Waited { runs: Vec::new(), timed_out: true },
        };
        let share = call.client.result_bytes / waited.runs.len().max(1);
        let client = Client { result_bytes: share.max(RESULT_BYTES_MIN), ..call.client.clone() };
        let runs = waited.runs.into_iter().map(|run| RunReport::of(run, &client)).collect();
        Ok(Reply::Done(Output { runs, timed_out: waited.timed_out }))
    }
}
