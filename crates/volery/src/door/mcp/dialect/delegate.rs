//! One run for one call: started, waited for as long as the client has patience, and found again by the same call if the
//! client gave up before the answer. Systems that know no handles get their answers this way, whatever their client does.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use domain::id::RunId;
use domain::size::display_bytes;
use rmcp::model::InputRequiredResult;
use sha2::{Digest, Sha256};

use super::super::call::Call;
use super::super::clients::CancelMeaning;
use super::super::elicit;
use super::super::tools::obey_cancel;
use super::super::waiting::{self, WaitEnd};
use crate::app::{AppError, ErrorKind, GetRun, RunView, Start, WaitUntil};

/// The most of an answer that is given in one piece.
const RESULT_BYTES_MAX: u64 = 1 << 20;
/// How many runs that nobody heard the end of are remembered.
const UNANSWERED_MAX: usize = 1_000;

/// What became of the run of a call.
#[derive(Debug)]
pub(super) enum Delegated {
    Ended(Box<RunView>),
    /// It goes on, and the client would not wait any longer. The same call finds it again.
    Going(Box<RunView>),
    /// It asks something, and the client's user is asked first.
    Asks(RunId, Box<InputRequiredResult>),
    /// The client gave up or cancelled, or the server leaves: nobody hears what is answered.
    Unheard(RunId),
}

impl Delegated {
    pub(super) fn run_id(&self) -> RunId {
        match self {
            Self::Ended(view) | Self::Going(view) => view.run_id,
            Self::Asks(run, _) | Self::Unheard(run) => *run,
        }
    }
}

/// The runs that go on and whose callers have not heard of their end, by what was asked.
#[derive(Debug, Default)]
pub(super) struct Unanswered(Mutex<HashMap<[u8; 32], RunId>>);

/// Which call it is: the same words mean the same run until it was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Words([u8; 32]);

impl Words {
    pub(super) fn of(call: &impl serde::Serialize) -> Self {
        // What cannot be written as JSON never came over the wire.
        let text = serde_json::to_vec(call).unwrap_or_default();
        Self(Sha256::digest(&text).into())
    }

    /// The same words of somebody else are another call.
    fn said_by(self, token: Option<&str>) -> Self {
        match token {
            Some(token) => Self(Sha256::new().chain_update(self.0).chain_update(token).finalize().into()),
            None => self,
        }
    }
}

impl Unanswered {
    fn find(&self, words: Words) -> Option<RunId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&words.0).copied()
    }

    fn remember(&self, words: Words, run: RunId) {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.len() >= UNANSWERED_MAX {
            // The oldest: the ids of runs sort by time.
            let oldest = runs.iter().min_by_key(|(_, run)| **run).map(|(words, _)| *words);
            oldest.map(|words| runs.remove(&words));
        }
        runs.insert(words.0, run);
    }

    fn forget(&self, words: Words) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&words.0);
    }
}

/// Returns the run that the same call has started, unless its record is gone by now.
async fn still_there(
    call: &Call<'_>,
    unanswered: &Unanswered,
    words: Words,
) -> Result<Option<RunId>, AppError> {
    let Some(run) = unanswered.find(words) else { return Ok(None) };
    let look = GetRun { run: run.to_string(), result_max: 0, ..GetRun::default() };
    match call.door.app.get_run(look).await {
        Ok(_) => Ok(Some(run)),
        Err(error) if error.kind == ErrorKind::NotFound => {
            unanswered.forget(words);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// An answer that is longer than one piece says so: its caller has no way to ask for the next.
fn say_if_cut(view: &mut RunView) {
    let Some(given) = view.result_next_offset else { return };
    let note = format!(
        "\n\n[This is the beginning of the answer, {}. The whole of it is printed by: volery wait {}]",
        display_bytes(given),
        view.short_id
    );
    view.result.get_or_insert_default().push_str(&note);
}

/// Starts a run, or finds the one that the same call has started, and waits for it.
pub(super) async fn delegate(
    call: &Call<'_>,
    unanswered: &Unanswered,
    words: Words,
    start: Start,
) -> Result<Delegated, AppError> {
    let words = words.said_by(call.door.app.caller().and_then(|caller| caller.token).as_deref());
    let known = match call.resumed {
        Some(run) => Some(run),
        None => still_there(call, unanswered, words).await?,
    };
    let run = match known {
        Some(run) => run,
        None => call.door.app.start(Start { unattended: call.unattended(), ..start }).await?.run_id,
    };
    let waited = waiting::wait(call, vec![run.to_string()], WaitUntil::All, call.patience(None)).await?;
    match waited {
        WaitEnd::Waited(_) | WaitEnd::Asked(_) => {
            let ask = GetRun { run: run.to_string(), result_max: RESULT_BYTES_MAX, ..GetRun::default() };
            let mut view = Box::new(call.door.app.get_run(ask).await?.run);
            view.clean();
            say_if_cut(&mut view);
            if view.ended {
                unanswered.forget(words);
                return Ok(Delegated::Ended(view));
            }
            // Only from here on: the same words twice at once are two runs.
            unanswered.remember(words, run);
            call.door.app.detach(run);
            Ok(match elicit::input_required(call, &view) {
                Some(ask) => Delegated::Asks(run, Box::new(ask)),
                None => Delegated::Going(view),
            })
        }
        WaitEnd::Cancelled(meaning) => {
            match meaning {
                CancelMeaning::StopWaiting => unanswered.remember(words, run),
                CancelMeaning::CancelRun => unanswered.forget(words),
            }
            obey_cancel(call, run, meaning).await;
            Ok(Delegated::Unheard(run))
        }
        WaitEnd::Leaving => Ok(Delegated::Unheard(run)),
    }
}
