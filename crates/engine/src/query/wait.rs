//! Waits for runs to end: through their channels if this door started them, through their sockets otherwise, and by
//! polling the journal in any case.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use domain::id::RunId;
use domain::run::{OutcomeKind, Phase, RunSpec, WaitReason};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use journal::RunDir;
use tokio::sync::{mpsc, watch};

use crate::api::{EngineError, Progress, RunView, WaitRequest, WaitResult, WaitUntil};
use crate::ask::{Ask, OnProgress};
use crate::engine::{Engine, store_error};
use crate::ipc::relay::Relay;
use crate::ipc::run_channels::{self, RunUpdate};
use crate::ipc::run_socket;
use crate::ipc::wire::{self, DoorMessage};
use crate::relayed_requests;

/// How often the journal is polled.
const POLL_EVERY: Duration = Duration::from_millis(500);
/// How long a run that this door has just started may be silent before the journal is read.
const FIRST_POLL: Duration = Duration::from_millis(50);
/// The most runs in one wait.
const RUNS_MAX: usize = 200;
/// How much of a result is returned inline.
pub(crate) const RESULT_INLINE_BYTES: u64 = 32 << 10;

impl Ask for WaitRequest {
    type Answer = WaitResult;

    async fn answer(self, engine: &Arc<Engine>, progress: OnProgress<'_>) -> Result<WaitResult, EngineError> {
        engine.wait(self, progress).await
    }

    async fn relay(self, relay: &Relay, progress: OnProgress<'_>) -> Result<WaitResult, EngineError> {
        relayed_requests::relay(self, relay, progress).await
    }
}

impl Engine {
    pub(crate) async fn wait(
        self: &Arc<Self>,
        ask: WaitRequest,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<WaitResult, EngineError> {
        if ask.runs.is_empty() || ask.runs.len() > RUNS_MAX {
            return Err(EngineError::usage(format!("name between 1 and {RUNS_MAX} runs to wait for")));
        }
        let dirs =
            ask.runs.iter().map(|typed| self.find(typed)).collect::<Result<Vec<RunDir>, EngineError>>()?;
        // The specs that this door wrote itself need not be read.
        let specs: Vec<_> = dirs.iter().map(|dir| self.channels.spec(dir.id())).collect();
        let deadline = ask.timeout_ms.map(|ms| tokio::time::Instant::now() + Duration::from_millis(ms));
        let (progress_tx, mut progress_rx) = mpsc::channel::<Progress>(64);
        let mut waits: FuturesUnordered<_> = dirs
            .iter()
            .map(|dir| async { (dir.id(), self.wait_until_ended(dir, progress_tx.clone()).await) })
            .collect();
        let mut final_views: HashMap<RunId, Arc<RunView>> = HashMap::new();
        let mut timed_out = false;
        while !waits.is_empty() {
            tokio::select! {
                biased;
                Some((run, result)) = waits.next() => {
                    final_views.extend(result?.map(|view| (run, view)));
                    if ask.until == WaitUntil::Any {
                        break;
                    }
                }
                Some(update) = progress_rx.recv() => progress(update),
                () = wait_until(deadline) => {
                    timed_out = true;
                    break;
                }
            }
        }
        drop(waits);
        let view = |(dir, spec): (&RunDir, &Option<Arc<RunSpec>>)| match (final_views.get(&dir.id()), spec) {
            // The worker sends the view after the record is durable.
            (Some(view), _) => Ok(RunView::clone(view)),
            (None, Some(spec)) => self.view_with_spec(dir, spec, (0, RESULT_INLINE_BYTES)),
            (None, None) => self.view(dir, 0, RESULT_INLINE_BYTES),
        };
        let runs = dirs.iter().zip(&specs).map(view).collect::<Result<_, _>>()?;
        Ok(WaitResult { runs, timed_out })
    }

    /// Waits for a run and returns its outcome and its answer.
    pub(crate) async fn wait_for_result(
        self: &Arc<Self>,
        run: RunId,
        progress_tx: mpsc::Sender<Progress>,
    ) -> (OutcomeKind, String) {
        let dir = self.home.run_dir(run);
        let ended = self.wait_until_ended(&dir, progress_tx).await;
        let view = ended.and_then(|_| self.view(&dir, 0, 256 << 10));
        match (view, dir.ending()) {
            (Ok(view), Ok(Some(ending))) => (ending.outcome.kind(), view.result.unwrap_or(view.explanation)),
            (Err(error), _) => (OutcomeKind::Failed, error.to_string()),
            (Ok(view), _) => (OutcomeKind::Failed, view.explanation),
        }
    }

    /// Waits until a run has ended. Returns the view that its worker sent, if it sent one.
    async fn wait_until_ended(
        self: &Arc<Self>,
        dir: &RunDir,
        progress_tx: mpsc::Sender<Progress>,
    ) -> Result<Option<Arc<RunView>>, EngineError> {
        // A run that this door has just started is not read from disk before its first update.
        let mut updates = self.channels.updates(dir.id());
        let mut signal = match updates {
            // Silence during this time means that the run is queued, which only the journal shows.
            Some(_) => {
                let first = tokio::time::timeout(FIRST_POLL, next_signal(&mut updates, &progress_tx)).await;
                first.unwrap_or(WaitSignal::Nothing)
            }
            None => WaitSignal::Nothing,
        };
        let mut is_known = false;
        loop {
            match signal {
                // The end is on disk before it is sent.
                WaitSignal::Ended(view) => return Ok(view),
                // The worker is alive and reports the end, so the journal need not be read.
                WaitSignal::Alive => is_known = true,
                WaitSignal::Nothing => {
                    if self.reconcile_ending(dir).map_err(|error| end_not_recorded(dir, error))?.is_some() {
                        return Ok(None);
                    }
                    if !std::mem::replace(&mut is_known, true) || updates.is_none() {
                        send(&progress_tx, self.progress_from_journal(dir)?);
                    }
                    if updates.is_none() {
                        updates = self.channels.updates(dir.id()).or_else(|| self.watch(dir));
                    }
                }
            }
            signal = next_signal(&mut updates, &progress_tx).await;
        }
    }

    /// Connects to the run's socket as a subscriber.
    fn watch(&self, dir: &RunDir) -> Option<watch::Receiver<RunUpdate>> {
        use std::io::Write;
        let tag = dir.read_spec().ok()?.tag;
        let mut stream = run_socket::connect(&run_socket::path(&self.home, tag)).ok()?;
        stream.write_all(&wire::encode_line(&DoorMessage::Watch)).ok()?;
        stream.set_nonblocking(true).ok()?;
        let stream = tokio::net::UnixStream::from_std(stream).ok()?;
        let (updates_tx, updates) = watch::channel(RunUpdate::Nothing);
        tokio::spawn(run_channels::forward_updates(stream, updates_tx));
        Some(updates)
    }

    /// Returns the progress of a run from the journal, if no worker reports it.
    fn progress_from_journal(&self, dir: &RunDir) -> Result<Progress, EngineError> {
        let spec = dir.read_spec().map_err(store_error)?;
        let (state, _) = journal::read_state(dir).map_err(store_error)?;
        let view = self.view_with_state(dir, &spec, &state, (0, 0))?;
        let needs_answer = view.needs_answer.first().cloned().map(Box::new);
        let activity = match (&state.phase, &needs_answer) {
            (Phase::Waiting(reason @ WaitReason::Answer { .. }), _) => reason.activity(),
            (Phase::Waiting(WaitReason::Slot | WaitReason::Session { .. }), _) => view.explanation,
            (Phase::Accepted | Phase::Running | Phase::Stopping | Phase::Ended(_), Some(question)) => {
                question.activity()
            }
            (Phase::Accepted | Phase::Running | Phase::Stopping | Phase::Ended(_), None) => {
                view.status.clone()
            }
        };
        Ok(Progress {
            run_id: dir.id(),
            agent: view.agent,
            status: view.status,
            elapsed_ms: view.duration_ms,
            activity,
            activity_is_text: false,
            text_tail: view.partial.unwrap_or_default(),
            needs_answer,
        })
    }
}

/// Turns the error into one about the end of a run: its processes are gone, and this door cannot record its end
/// either.
fn end_not_recorded(dir: &RunDir, error: EngineError) -> EngineError {
    let short = dir.id().short();
    let message = format!("the end of the run {short} could not be recorded: {}", error.message);
    let hint_text = format!("what it has said so far is kept: volery show {short}");
    let hint = error.hint.map_or_else(|| hint_text.clone(), |hint| format!("{hint_text}; {hint}"));
    EngineError::new(error.kind, message).hint(hint)
}

/// What happened while waiting for a run.
#[derive(Debug, Clone)]
enum WaitSignal {
    Nothing,
    Alive,
    Ended(Option<Arc<RunView>>),
}

/// Forwards the next update, or returns when it is time to poll.
async fn next_signal(
    updates: &mut Option<watch::Receiver<RunUpdate>>,
    progress_tx: &mpsc::Sender<Progress>,
) -> WaitSignal {
    let Some(receiver) = updates else {
        tokio::time::sleep(POLL_EVERY / 2).await;
        return WaitSignal::Nothing;
    };
    let changed = tokio::time::timeout(POLL_EVERY, receiver.changed()).await;
    match changed {
        Err(_) => WaitSignal::Nothing,
        Ok(Err(_)) => {
            *updates = None;
            WaitSignal::Nothing
        }
        Ok(Ok(())) => {
            let update = receiver.borrow_and_update().clone();
            match update {
                RunUpdate::Progress(progress) => send(progress_tx, progress),
                RunUpdate::Nothing => {}
                RunUpdate::Ended(view) => return WaitSignal::Ended(view),
                RunUpdate::Closed => {
                    *updates = None;
                    return WaitSignal::Nothing;
                }
            }
            WaitSignal::Alive
        }
    }
}

fn send(progress_tx: &mpsc::Sender<Progress>, progress: Progress) {
    // The receiver is slow: a later update says more.
    let _ = progress_tx.try_send(progress);
}

async fn wait_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
