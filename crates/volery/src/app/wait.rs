//! Waits for runs to end: by the leash where this door started them, by their sockets otherwise, and by looking
//! at the journal now and then in any case.

use std::sync::Arc;
use std::time::Duration;

use domain::id::RunId;
use domain::run::{OutcomeKind, Phase, RunSpec, WaitReason};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use journal::RunDir;
use tokio::sync::{mpsc, watch};

use super::engine::{Engine, store_error};
use super::leashes::{self, Heard};
use super::{AppError, Progress, Wait, WaitUntil, Waited};
use crate::sockets;
use crate::wire::{self, Word};

/// How often the journal is looked at, whatever was heard.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a run that this door has just started may be silent before the journal is looked at.
const FIRST_LOOK: Duration = Duration::from_millis(50);
/// The most runs in one wait.
const RUNS_MAX: usize = 200;
/// How much of a result is told inline.
pub(super) const RESULT_INLINE_BYTES: u64 = 32 << 10;

impl Engine {
    pub(super) async fn wait(
        self: &Arc<Self>,
        ask: Wait,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Waited, AppError> {
        if ask.runs.is_empty() || ask.runs.len() > RUNS_MAX {
            return Err(AppError::usage(format!("name between 1 and {RUNS_MAX} runs to wait for")));
        }
        let dirs =
            ask.runs.iter().map(|typed| self.find(typed)).collect::<Result<Vec<RunDir>, AppError>>()?;
        // What this door wrote itself need not be read.
        let specs: Vec<_> = dirs.iter().map(|dir| self.leashes.spec(dir.id())).collect();
        let deadline = ask.timeout_ms.map(|ms| tokio::time::Instant::now() + Duration::from_millis(ms));
        let (signs, mut heard) = mpsc::channel::<Progress>(64);
        let mut waits: FuturesUnordered<_> =
            dirs.iter().map(|dir| self.until_ended(dir.clone(), signs.clone())).collect();
        drop(signs);
        let mut timed_out = false;
        while !waits.is_empty() {
            tokio::select! {
                biased;
                Some(result) = waits.next() => {
                    result?;
                    if ask.until == WaitUntil::Any {
                        break;
                    }
                }
                Some(sign) = heard.recv() => progress(sign),
                () = until(deadline) => {
                    timed_out = true;
                    break;
                }
            }
        }
        drop(waits);
        let view = |(dir, spec): (&RunDir, &Option<Arc<RunSpec>>)| match spec {
            Some(spec) => self.view_of(dir, spec, (0, RESULT_INLINE_BYTES)),
            None => self.view(dir, 0, RESULT_INLINE_BYTES),
        };
        let runs = dirs.iter().zip(&specs).map(view).collect::<Result<_, _>>()?;
        Ok(Waited { runs, timed_out })
    }

    /// Waits for a run and returns how it ended and what it said.
    pub async fn result_of(self: &Arc<Self>, run: RunId) -> (OutcomeKind, String) {
        let dir = self.home.run_dir(run);
        let (signs, _heard) = mpsc::channel(1);
        let ended = self.until_ended(dir.clone(), signs).await;
        let view = ended.and_then(|()| self.view(&dir, 0, 256 << 10));
        match (view, dir.ending()) {
            (Ok(view), Ok(Some(ending))) => (ending.outcome.kind(), view.result.unwrap_or(view.explanation)),
            (Err(error), _) => (OutcomeKind::Failed, error.to_string()),
            (Ok(view), _) => (OutcomeKind::Failed, view.explanation),
        }
    }

    async fn until_ended(
        self: &Arc<Self>,
        dir: RunDir,
        signs: mpsc::Sender<Progress>,
    ) -> Result<(), AppError> {
        // A run that this door has just started need not be looked at before it was heard of.
        let mut following = self.leashes.heard(dir.id());
        if following.is_some() {
            // Nothing heard in this time means that it is queued, and only the journal tells of that.
            let heard = tokio::time::timeout(FIRST_LOOK, hear(&mut following, &signs)).await;
            if heard == Ok(Sign::Ended) {
                return Ok(());
            }
        }
        let mut first = true;
        loop {
            if dir.ending().map_err(store_error)?.is_some() {
                return Ok(());
            }
            self.look(&dir).map_err(|error| not_ended(&dir, error))?;
            if dir.ending().map_err(store_error)?.is_some() {
                return Ok(());
            }
            if std::mem::take(&mut first) {
                send(&signs, self.sign_of(&dir)?);
            }
            if following.is_none() {
                following = self.leashes.heard(dir.id()).or_else(|| self.watch(&dir));
            }
            let queued = following.is_none();
            match hear(&mut following, &signs).await {
                // The end is on disk before it is told.
                Sign::Ended => return Ok(()),
                Sign::Life => continue,
                Sign::Nothing => {}
            }
            if queued {
                send(&signs, self.sign_of(&dir)?);
            }
        }
    }

    /// Connects to the run's socket as a watcher.
    fn watch(&self, dir: &RunDir) -> Option<watch::Receiver<Heard>> {
        use std::io::Write;
        let tag = dir.read_spec().ok()?.tag;
        let mut stream = sockets::connect(&sockets::path(&self.home, tag)).ok()?;
        stream.write_all(&wire::line(&Word::Watch)).ok()?;
        stream.set_nonblocking(true).ok()?;
        let stream = tokio::net::UnixStream::from_std(stream).ok()?;
        let (told, heard) = watch::channel(Heard::Nothing);
        tokio::spawn(leashes::listen(stream, told));
        Some(heard)
    }

    /// Returns a sign of life from the journal, for runs that nobody speaks for.
    fn sign_of(&self, dir: &RunDir) -> Result<Progress, AppError> {
        let view = self.view(dir, 0, 0)?;
        let (state, _) = journal::read_state(dir).map_err(store_error)?;
        let activity = match &state.phase {
            Phase::Waiting(reason @ WaitReason::Answer { .. }) => reason.activity(),
            Phase::Waiting(_) => view.explanation,
            Phase::Accepted | Phase::Running | Phase::Stopping | Phase::Ended(_) => view.status.clone(),
        };
        Ok(Progress {
            run_id: dir.id(),
            agent: view.agent,
            status: view.status,
            elapsed_ms: view.duration_ms,
            activity,
            text_tail: view.partial.unwrap_or_default(),
        })
    }
}

/// Nobody is left who could end the run, and this door cannot write its end either.
fn not_ended(dir: &RunDir, error: AppError) -> AppError {
    let short = dir.id().short();
    let message = format!("the end of the run {short} could not be recorded: {}", error.message);
    let kept = format!("what it has said so far is kept: volery show {short}");
    let hint = error.hint.map_or_else(|| kept.clone(), |hint| format!("{kept}; {hint}"));
    AppError::new(error.kind, message).hint(hint)
}

/// What was heard of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Nothing,
    Life,
    Ended,
}

/// Passes on one thing heard, or comes back when it is time to look.
async fn hear(following: &mut Option<watch::Receiver<Heard>>, signs: &mpsc::Sender<Progress>) -> Sign {
    let Some(heard) = following else {
        tokio::time::sleep(LOOK_EVERY / 2).await;
        return Sign::Nothing;
    };
    let changed = tokio::time::timeout(LOOK_EVERY, heard.changed()).await;
    match changed {
        Err(_) => Sign::Nothing,
        Ok(Err(_)) => {
            *following = None;
            Sign::Nothing
        }
        Ok(Ok(())) => {
            let news = heard.borrow_and_update().clone();
            match news {
                Heard::Progress(progress) => send(signs, progress),
                Heard::Nothing => {}
                Heard::Ended => return Sign::Ended,
                Heard::Closed => {
                    *following = None;
                    return Sign::Nothing;
                }
            }
            Sign::Life
        }
    }
}

fn send(signs: &mpsc::Sender<Progress>, progress: Progress) {
    // Whoever waits is slow: a later sign says more.
    let _ = signs.try_send(progress);
}

async fn until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
