//! Starts one run for one call and waits as long as the client allows. If the client gives up before the answer, the same
//! call finds the run again. For systems without run ids.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use domain::id::RunId;
use domain::size::display_bytes;
use rmcp::model::InputRequiredResult;
use sha2::{Digest, Sha256};

use super::super::client_profiles::CancelMeaning;
use super::super::elicit;
use super::super::tool_call::ToolCall;
use super::super::tools::apply_cancel;
use super::super::wait_for_runs::{self, WaitEnd};
use engine::{EngineError, ErrorKind, GetRun, RunView, StartRequest, WaitUntil};

/// The size limit of an answer.
const RESULT_BYTES_MAX: u64 = 1 << 20;
/// How many unanswered runs are remembered.
const UNANSWERED_MAX: usize = 1_000;

/// The result of a delegated call.
#[derive(Debug)]
pub(super) enum Delegated {
    Ended(Box<RunView>),
    /// The run is still active when the client's wait ends. The same call finds it again.
    Running(Box<RunView>),
    /// The run has a question, which the client's user must answer first.
    NeedsInput(RunId, Box<InputRequiredResult>),
    /// The client gave up or cancelled, or the server stops: nobody reads the answer.
    Abandoned(RunId),
}

impl Delegated {
    pub(super) fn run_id(&self) -> RunId {
        match self {
            Self::Ended(view) | Self::Running(view) => view.run_id,
            Self::NeedsInput(run, _) | Self::Abandoned(run) => *run,
        }
    }
}

/// The runs whose callers have not received the answer, by the fingerprint of the call.
#[derive(Debug, Default)]
pub(super) struct UnansweredRuns(Mutex<HashMap<[u8; 32], RunId>>);

/// Identifies a call: equal calls mean the same run until it was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallFingerprint([u8; 32]);

impl CallFingerprint {
    pub(super) fn new(call: &impl serde::Serialize) -> Self {
        // Arguments from the wire are always valid JSON.
        let text = serde_json::to_vec(call).unwrap_or_default();
        Self(Sha256::digest(&text).into())
    }

    /// Makes equal calls of different tokens distinct.
    fn for_token(self, token: Option<&str>) -> Self {
        match token {
            Some(token) => Self(Sha256::new().chain_update(self.0).chain_update(token).finalize().into()),
            None => self,
        }
    }
}

impl UnansweredRuns {
    fn find(&self, fingerprint: CallFingerprint) -> Option<RunId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&fingerprint.0).copied()
    }

    fn remember(&self, fingerprint: CallFingerprint, run: RunId) {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.len() >= UNANSWERED_MAX {
            // Remove the oldest: the ids of runs sort by time.
            let oldest = runs.iter().min_by_key(|(_, run)| **run).map(|(fingerprint, _)| *fingerprint);
            oldest.map(|fingerprint| runs.remove(&fingerprint));
        }
        runs.insert(fingerprint.0, run);
    }

    fn forget(&self, fingerprint: CallFingerprint) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&fingerprint.0);
    }
}

/// Returns the run that the same call started, unless it was deleted.
async fn find_live_run(
    call: &ToolCall<'_>,
    unanswered: &UnansweredRuns,
    fingerprint: CallFingerprint,
) -> Result<Option<RunId>, EngineError> {
    let Some(run) = unanswered.find(fingerprint) else { return Ok(None) };
    let request = GetRun { run: run.to_string(), result_max: 0, ..GetRun::default() };
    match call.handler.engine.ask(request).await {
        Ok(_) => Ok(Some(run)),
        Err(error) if error.kind == ErrorKind::NotFound => {
            unanswered.forget(fingerprint);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Adds a note to a truncated answer, because its caller cannot request the rest.
fn note_truncation(view: &mut RunView) {
    let Some(shown_bytes) = view.result_next_offset else { return };
    let note = format!(
        "\n\n[This is the beginning of the answer, {}. The whole of it is printed by: volery wait {}]",
        display_bytes(shown_bytes),
        view.short_id
    );
    view.result.get_or_insert_default().push_str(&note);
}

/// Starts a run, or finds the one that the same call started, and waits for it.
pub(super) async fn delegate(
    call: &ToolCall<'_>,
    unanswered: &UnansweredRuns,
    fingerprint: CallFingerprint,
    start: StartRequest,
) -> Result<Delegated, EngineError> {
    let fingerprint =
        fingerprint.for_token(call.handler.engine.caller().and_then(|caller| caller.token).as_deref());
    let known = match call.resumed {
        Some(run) => Some(run),
        None => find_live_run(call, unanswered, fingerprint).await?,
    };
    let run = match known {
        Some(run) => run,
        None => {
            call.handler.engine.ask(StartRequest { unattended: call.unattended(), ..start }).await?.run_id
        }
    };
    let waited =
        wait_for_runs::wait(call, vec![run.to_string()], WaitUntil::All, call.remaining_wait(None)).await?;
    match waited {
        WaitEnd::Waited(_) | WaitEnd::Question(_) => {
            let request = GetRun { run: run.to_string(), result_max: RESULT_BYTES_MAX, ..GetRun::default() };
            let mut view = Box::new(call.handler.engine.ask(request).await?.run);
            view.clean();
            note_truncation(&mut view);
            if view.ended {
                unanswered.forget(fingerprint);
                return Ok(Delegated::Ended(view));
            }
            // Not earlier: two equal calls at the same time are two runs.
            unanswered.remember(fingerprint, run);
            call.handler.engine.detach(run);
            Ok(match elicit::input_required(call, &view) {
                Some(ask) => Delegated::NeedsInput(run, Box::new(ask)),
                None => Delegated::Running(view),
            })
        }
        WaitEnd::Cancelled(meaning) => {
            match meaning {
                CancelMeaning::StopWaiting => unanswered.remember(fingerprint, run),
                CancelMeaning::CancelRun => unanswered.forget(fingerprint),
            }
            apply_cancel(call, run, meaning).await;
            Ok(Delegated::Abandoned(run))
        }
        WaitEnd::Leaving => Ok(Delegated::Abandoned(run)),
    }
}
