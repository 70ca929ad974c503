//! `wait_runs`: waits for runs that this or another client started before.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::client_profiles::ClientProfile;
use super::super::elicit;
use super::super::tool_call::ToolCall;
use super::super::wait_for_runs::{self, WaitEnd};
use super::catalog::{Hints, NativeTool, ToolReply};
use super::run_report::RunReport;
use engine::{EngineError, RunView, WaitRequest, WaitResult, WaitUntil};

const RESULT_BYTES_MIN: usize = 1 << 10;

pub(super) struct WaitRuns;

/// Wait for runs that are still going, and get their results.
///
/// Returns when all of them have ended, when the next one ends (until "any"), when one of them asks something, or when the
/// time is up; then it shows how they stand, and you can call it again. A result that an earlier answer had whole is not
/// repeated: get_run returns it again. One call that waits is better than many that look: do not poll.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Input {
    /// The run_ids, or the last digits of them that people are shown.
    #[schemars(length(min = 1, max = 200))]
    run_ids: Vec<String>,
    /// "all" waits until every run has ended, "any" until one ends that is active now. Left out: all.
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

#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct Output {
    runs: Vec<RunReport>,
    /// With until "any": the run_ids of those that had ended before this call. Leave them out of the next call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    already_ended: Vec<String>,
    /// What you waited for has not happened yet.
    timed_out: bool,
    /// What to do next, where something is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
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
        let requested = Requested::separate(call, input.run_ids, until).await?;
        let waited = match requested.active.is_empty() {
            true => WaitResult { runs: Vec::new(), timed_out: false },
            false => {
                let at_most = call.remaining_wait(input.wait_s);
                match wait_for_runs::wait(call, requested.active.clone(), until, at_most).await? {
                    WaitEnd::Waited(waited) => waited,
                    WaitEnd::Question(view) => {
                        if let Some(ask) = elicit::input_required(call, &view) {
                            return Ok(ToolReply::Ask(Box::new(ask)));
                        }
                        call.handler.engine.ask(current_state_request(requested.active.clone())).await?
                    }
                    // Another call started these runs, so a cancelled wait does not cancel them.
                    WaitEnd::Cancelled(_) | WaitEnd::Leaving => {
                        return Ok(ToolReply::Done(Output { timed_out: true, ..Output::default() }));
                    }
                }
            }
        };
        Ok(ToolReply::Done(requested.output(call, waited)))
    }
}

/// The runs of a call.
struct Requested {
    /// The runs that ended before the call. Empty if the call waits for all runs.
    already_ended: Vec<RunView>,
    /// The runs to wait for.
    active: Vec<String>,
}

impl Requested {
    /// Separates the runs that have already ended, if the call waits for the next run that ends.
    async fn separate(call: &ToolCall<'_>, runs: Vec<String>, until: WaitUntil) -> Result<Self, EngineError> {
        if until == WaitUntil::All {
            return Ok(Self { already_ended: Vec::new(), active: runs });
        }
        let found = call.handler.engine.ask(current_state_request(runs)).await?.runs;
        let (already_ended, active): (Vec<RunView>, Vec<RunView>) =
            found.into_iter().partition(|run| run.ended);
        let active = active.iter().map(|run| run.run_id.to_string()).collect();
        Ok(Self { already_ended, active })
    }

    fn output(self, call: &ToolCall<'_>, waited: WaitResult) -> Output {
        let returned = &call.handler.returned_results;
        let already_ended = self.already_ended.iter().map(|run| run.run_id.to_string()).collect();
        let nothing_active = self.active.is_empty();
        let shown = |run: &RunView| nothing_active || !returned.contains(&run.run_id.to_string());
        let views: Vec<RunView> = self.already_ended.into_iter().filter(shown).chain(waited.runs).collect();
        let share = call.client.result_bytes / views.len().max(1);
        let client = ClientProfile { result_bytes: share.max(RESULT_BYTES_MIN), ..call.client.clone() };
        let report = |run: RunView| match run.ended && returned.contains(&run.run_id.to_string()) {
            true => RunReport::without_repeated_result(run, &client),
            false => RunReport::for_client(run, &client),
        };
        let runs: Vec<RunReport> = views.into_iter().map(report).collect();
        returned.record(&runs);
        let active: Vec<&str> = runs.iter().filter(|run| !run.ended).map(|run| run.run_id.as_str()).collect();
        let next = (!active.is_empty()).then(|| {
            let active = serde_json::json!(active);
            format!("Some runs go on. Do other work, then call wait_runs with run_ids {active}.")
        });
        Output { runs, already_ended, timed_out: waited.timed_out, next }
    }
}

/// Returns the request for the current state of runs.
fn current_state_request(runs: Vec<String>) -> WaitRequest {
    WaitRequest { runs, until: WaitUntil::All, timeout_ms: Some(0) }
}
