//! Ends a run: by its worker, by a keeper whose worker was lost, or by a later command that reconciles it.

use backends::contract::AgentAnswer;
use domain::id::BackendName;
use domain::run::{
    Ending, Event, Failure, Outcome, OutcomeKind, ResultText, RunSpec, RunState, StdStream, Usage,
};
use journal::inbox::{self, InboxMessage};
use journal::run_result::{ResultSource, store_result};
use journal::{LogWriter, RunDir, RunLock, SpoolReader, StoreError};

use crate::clock;
use crate::error_chain::explain;

/// How much of the error stream is recorded for a run that did not succeed.
const STDERR_TAIL_BYTES: usize = 4 << 10;
/// How much of an answer is recorded if the disk has no room for all of it.
const INLINE_ANSWER_BYTES: usize = 16 << 10;

/// The facts that the worker knows at the end of a run.
pub(super) struct EndFacts {
    pub(super) outcome: Outcome,
    pub(super) answer: AgentAnswer,
    pub(super) structured: Option<serde_json::Value>,
    pub(super) repaired: bool,
    pub(super) duration_ms: u64,
    pub(super) exit_code: Option<i32>,
    pub(super) killed: u32,
    pub(super) usage: Usage,
    /// As in [`Ending`].
    pub(super) waited_for: String,
}

/// Builds the record of a run's end, and stores its answer.
pub(super) fn build_ending(dir: &RunDir, state: &RunState, facts: EndFacts) -> Result<Ending, StoreError> {
    let EndFacts { outcome, answer, structured, repaired, duration_ms, exit_code, killed, usage, waited_for } =
        facts;
    let stored = match &answer {
        AgentAnswer::Stdout => store_result(dir, ResultSource::Spool(StdStream::Stdout)),
        AgentAnswer::Text(text) => store_result(dir, ResultSource::Bytes(text.as_bytes())),
        AgentAnswer::Nothing => Ok(ResultText::Nothing),
    };
    let (outcome, result) = match stored {
        Ok(result) => (outcome, result),
        Err(error) if error.is_full() => {
            (outcome_without_answer(outcome, &error), truncated_answer(dir, &answer)?)
        }
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
        | OutcomeKind::Interrupted => tail(dir, StdStream::Stderr, STDERR_TAIL_BYTES)?,
    };
    Ok(Ending {
        outcome,
        result,
        repaired: repaired && structured.is_some(),
        structured,
        backend: fallback_backend(state),
        duration_ms,
        usage,
        exit_code,
        stderr_tail,
        waited_for,
        killed,
        denials_count: state.denials_count,
        idle_timeout_ms: None,
    })
}

/// Returns the backend of a run that a fallback carried out.
fn fallback_backend(state: &RunState) -> Option<BackendName> {
    let last = state.attempts.last().filter(|attempt| attempt.choice > 0)?;
    last.backend.parse().ok()
}

/// Returns the outcome of a run whose answer found no room on the disk.
fn outcome_without_answer(outcome: Outcome, error: &StoreError) -> Outcome {
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

/// Returns the end of an answer, short enough for the record of the end itself.
fn truncated_answer(dir: &RunDir, answer: &AgentAnswer) -> Result<ResultText, StoreError> {
    let text = match answer {
        AgentAnswer::Stdout => tail(dir, StdStream::Stdout, INLINE_ANSWER_BYTES)?,
        AgentAnswer::Text(text) => domain::size::tail(text, INLINE_ANSWER_BYTES).to_owned(),
        AgentAnswer::Nothing => String::new(),
    };
    Ok(if text.is_empty() { ResultText::Nothing } else { ResultText::Inline(text) })
}

/// Ends a run that never started.
pub(crate) fn finish_unstarted(log: &mut LogWriter, outcome: Outcome) -> Result<(), StoreError> {
    log.finish(clock::now(), Ending::from_outcome(outcome))?;
    Ok(())
}

/// Ends a run whose worker was lost, with the text that it had produced so far.
pub(crate) fn end_lost_run(
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
    remove_run_cgroup(spec, log.state());
    super::container_cleanup::remove(spec);
    crate::launch::agent_process::remove_secrets(dir);
    crate::launch::temp_dir::remove(dir, spec);
    super::workspace_cleanup::remove_empty_dirs(dir);
    let claimed = Event::Claimed {
        keeper_pid: std::process::id(),
        worker_pid: 0,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    match log.append(clock::now(), claimed) {
        // There is room reserved for the end, which matters more than this event.
        Err(error) if error.is_full() => {}
        appended => {
            appended?;
        }
    }
    super::file_changes::record_changes_of_lost_run(dir, spec, &mut log, &outcome)?;
    super::worktree::settle(spec, &mut log)?;
    let state = log.state().clone();
    cancel_children(dir, spec, &state);
    let answer = if let Some(submitted) = &state.submitted {
        AgentAnswer::Text(submitted.clone())
    } else if !state.answer_text.trim().is_empty() {
        AgentAnswer::Text(state.answer())
    } else if crate::admission::attempt_backend::has_plain_output(spec, &state)
        && !tail(dir, StdStream::Stdout, 4 << 10)?.trim().is_empty()
    {
        AgentAnswer::Stdout
    } else {
        AgentAnswer::Nothing
    };
    let outcome = match inbox::read_cancel(dir) {
        // The run was cancelled anyway.
        InboxMessage::Valid(order) => Outcome::Cancelled { by: order.by },
        InboxMessage::Nothing | InboxMessage::Ignored { .. } => outcome,
    };
    let outcome = outcome.with_output(answer != AgentAnswer::Nothing);
    let last = state.last_event_at.unwrap_or(spec.created_at);
    let started = state.started_at.unwrap_or(last);
    let duration_ms = u64::try_from(last.as_millisecond() - started.as_millisecond()).unwrap_or(0);
    let (structured, repaired, exit_code) = (None, false, None);
    let usage = state.usage;
    let waited_for = String::new();
    let facts =
        EndFacts { outcome, answer, structured, repaired, duration_ms, exit_code, killed, usage, waited_for };
    let ending = build_ending(dir, &state, facts)?;
    log.finish(clock::now(), ending)?;
    crate::iac::record_end(dir.home(), spec);
    Ok(())
}

/// Removes the control group that the lost worker may have made for its agent.
fn remove_run_cgroup(spec: &RunSpec, state: &RunState) {
    let had_worker = state.worker_pid.is_some_and(|pid| pid != 0);
    let known_without = state.containment.as_ref().is_some_and(|known| known.cgroup.is_none());
    if had_worker && !known_without {
        // An empty group harms nobody; the run must end even if it cannot be removed.
        let _ = process::remove_cgroup(spec.tag);
    }
}

fn tail(dir: &RunDir, stream: StdStream, max: usize) -> Result<String, StoreError> {
    Ok(String::from_utf8_lossy(&SpoolReader::new(dir, stream).tail(max)?).into_owned())
}

/// Cancels every child run that has not ended. Children have their own keepers, which end them.
pub(super) fn cancel_children(dir: &RunDir, spec: &RunSpec, state: &RunState) {
    let home = dir.home();
    for (child, known) in &state.children {
        if known.outcome.is_none() {
            crate::ipc::order_cancel(home, *child, &format!("the end of its parent {}", spec.id.short()));
        }
    }
}
