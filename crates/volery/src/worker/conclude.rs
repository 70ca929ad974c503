//! The last word about a run: by its worker, by a keeper whose worker was lost, or by whoever looks later.

use backend::contract::Answer;
use backend::process;
use domain::id::BackendName;
use domain::run::{Ending, Event, Failure, Outcome, OutcomeKind, ResultText, RunSpec, State, Stream, Usage};
use journal::inbox::{self, Letter};
use journal::result::{ResultSource, store_result};
use journal::{LogWriter, RunDir, RunLock, SpoolReader, StoreError};

use crate::causes::explain;
use crate::clock;

/// How much of the error stream is told with a run that did not succeed.
const STDERR_TAIL_BYTES: usize = 4 << 10;
/// How much of an answer is kept for which there is no room on the disk.
const FITTING_BYTES: usize = 16 << 10;

/// What the worker knows at the end.
pub(super) struct Facts {
    pub(super) outcome: Outcome,
    pub(super) answer: Answer,
    pub(super) structured: Option<serde_json::Value>,
    pub(super) repaired: bool,
    pub(super) duration_ms: u64,
    pub(super) exit_code: Option<i32>,
    pub(super) killed: u32,
    pub(super) usage: Usage,
    /// As in [`Ending`].
    pub(super) waited_for: String,
}

/// Puts together what is told about the end of a run, and stores its answer.
pub(super) fn ending(dir: &RunDir, state: &State, facts: Facts) -> Result<Ending, StoreError> {
    let Facts { outcome, answer, structured, repaired, duration_ms, exit_code, killed, usage, waited_for } =
        facts;
    let stored = match &answer {
        Answer::Stdout => store_result(dir, ResultSource::Spool(Stream::Stdout)),
        Answer::Text(text) => store_result(dir, ResultSource::Bytes(text.as_bytes())),
        Answer::Nothing => Ok(ResultText::Nothing),
    };
    let (outcome, result) = match stored {
        Ok(result) => (outcome, result),
        Err(error) if error.is_full() => (unstored(outcome, &error), what_fits(dir, &answer)?),
        Err(error) => return Err(error),
    };
    let stderr_tail = match outcome.kind() {
        OutcomeKind::Succeeded => String::new(),
        OutcomeKind::Partial
        | OutcomeKind::Failed
        | OutcomeKind::TimedOut
        | OutcomeKind::Cancelled
        | OutcomeKind::OverBudget
        | OutcomeKind::Refused
        | OutcomeKind::Interrupted => tail(dir, Stream::Stderr, STDERR_TAIL_BYTES)?,
    };
    Ok(Ending {
        outcome,
        result,
        repaired: repaired && structured.is_some(),
        structured,
        backend: fallback_of(state),
        duration_ms,
        usage,
        exit_code,
        stderr_tail,
        waited_for,
        killed,
    })
}

/// Returns the backend of a run that was not carried out by its agent's own.
fn fallback_of(state: &State) -> Option<BackendName> {
    let last = state.attempts.last().filter(|attempt| attempt.choice > 0)?;
    last.backend.parse().ok()
}

/// Returns what a run has come to whose answer found no room.
fn unstored(outcome: Outcome, error: &StoreError) -> Outcome {
    match outcome.kind() {
        OutcomeKind::Succeeded => {
            let reason = format!("the whole answer could not be kept: could not {}", explain(error));
            Outcome::Failed { failure: Failure::Storage { reason } }
        }
        OutcomeKind::Partial
        | OutcomeKind::Failed
        | OutcomeKind::TimedOut
        | OutcomeKind::Cancelled
        | OutcomeKind::OverBudget
        | OutcomeKind::Refused
        | OutcomeKind::Interrupted => outcome,
    }
}

/// Returns as much of the end of an answer as may find room in the ending itself.
fn what_fits(dir: &RunDir, answer: &Answer) -> Result<ResultText, StoreError> {
    let text = match answer {
        Answer::Stdout => tail(dir, Stream::Stdout, FITTING_BYTES)?,
        Answer::Text(text) => domain::size::tail(text, FITTING_BYTES).to_owned(),
        Answer::Nothing => String::new(),
    };
    Ok(if text.is_empty() { ResultText::Nothing } else { ResultText::Inline(text) })
}

/// Ends a run that never started.
pub fn finish_unstarted(log: &mut LogWriter, outcome: Outcome) -> Result<(), StoreError> {
    log.finish(clock::now(), Ending::bare(outcome))?;
    Ok(())
}

/// Ends a run whose worker was lost, keeping what it had said so far.
pub fn end_lost(
    dir: &RunDir,
    lock: &RunLock,
    spec: &RunSpec,
    outcome: Outcome,
    killed: u32,
) -> Result<(), StoreError> {
    let mut log = LogWriter::open(dir, lock)?;
    if log.state().ending().is_some() {
        return Ok(());
    }
    remove_group(spec, log.state());
    super::contained::remove(spec);
    super::agent::remove_secrets(dir);
    super::temporary::remove(dir, spec);
    super::leftovers::remove(dir);
    let claimed = Event::Claimed {
        keeper_pid: std::process::id(),
        worker_pid: 0,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    match log.append(clock::now(), claimed) {
        // There is room for the end, which matters more than who wrote it.
        Err(error) if error.is_full() => {}
        appended => {
            appended?;
        }
    }
    super::changes::tell_of_lost(dir, spec, &mut log, &outcome)?;
    super::isolation::settle(spec, &mut log)?;
    let state = log.state().clone();
    cancel_children(dir, spec, &state);
    let answer = if let Some(submitted) = &state.submitted {
        Answer::Text(submitted.clone())
    } else if !state.said.trim().is_empty() {
        Answer::Text(state.answer())
    } else if writes_for_people(spec, &state) && !tail(dir, Stream::Stdout, 4 << 10)?.trim().is_empty() {
        Answer::Stdout
    } else {
        Answer::Nothing
    };
    let outcome = match inbox::read_cancel(dir) {
        // Somebody wanted the end anyway.
        Letter::Valid(order) => Outcome::Cancelled { by: order.by },
        Letter::Nothing | Letter::Ignored { .. } => outcome,
    };
    let outcome = outcome.with_output(answer != Answer::Nothing);
    let last = state.last_event_at.unwrap_or(spec.created_at);
    let started = state.started_at.unwrap_or(last);
    let duration_ms = u64::try_from(last.as_millisecond() - started.as_millisecond()).unwrap_or(0);
    let (structured, repaired, exit_code) = (None, false, None);
    let usage = state.usage;
    let waited_for = String::new();
    let facts =
        Facts { outcome, answer, structured, repaired, duration_ms, exit_code, killed, usage, waited_for };
    let ending = ending(dir, &state, facts)?;
    log.finish(clock::now(), ending)?;
    crate::iac::ended(dir.home(), spec);
    Ok(())
}

/// Tells whether what the agent writes may be taken as its answer: a protocol between programs is none.
pub fn writes_for_people(spec: &RunSpec, state: &State) -> bool {
    let choice = state.attempts.last().map_or(0, |attempt| attempt.choice as usize);
    let (backend, _) = super::attempts::chosen(spec, choice);
    super::attempts::capabilities(backend).writes_text
}

/// Removes the control group that the lost worker may have made for its agent.
fn remove_group(spec: &RunSpec, state: &State) {
    let had_worker = state.worker_pid.is_some_and(|pid| pid != 0);
    let known_without = state.containment.as_ref().is_some_and(|known| known.cgroup.is_none());
    if had_worker && !known_without {
        // An empty group harms nobody; the run must end whether it can be removed or not.
        let _ = process::remove_cgroup(spec.tag);
    }
}

fn tail(dir: &RunDir, stream: Stream, max: usize) -> Result<String, StoreError> {
    Ok(String::from_utf8_lossy(&SpoolReader::new(dir, stream).tail(max)?).into_owned())
}

/// Orders the end of every child run that has not ended. They are runs of their own, with keepers of their own.
pub(super) fn cancel_children(dir: &RunDir, spec: &RunSpec, state: &State) {
    let home = dir.home();
    for (child, known) in &state.children {
        if known.outcome.is_none() {
            crate::app::order_cancel(home, *child, &format!("the end of its parent {}", spec.id.short()));
        }
    }
}
