//! Waits for runs to end: by the leash where this door started them, by their sockets otherwise, and by looking
//! at the journal now and then in any case.

use std::collections::HashMap;
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
use super::{AppError, Progress, RunView, Wait, WaitUntil, Waited};
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
            dirs.iter().map(|dir| async { (dir.id(), self.until_ended(dir, signs.clone()).await) }).collect();
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
                Some(sign) = heard.recv() => progress(sign),
                () = until(deadline) => {
                    timed_out = true;
                    break;
                }
            }
        }
        drop(waits);
        let view = |(dir, spec): (&RunDir, &Option<Arc<RunSpec>>)| match (final_views.get(&dir.id()), spec) {
            // The worker sends it after the record is durable.
            (Some(view), _) => Ok(RunView::clone(view)),
            (None, Some(spec)) => self.view_of(dir, spec, (0, RESULT_INLINE_BYTES)),
            (None, None) => self.view(dir, 0, RESULT_INLINE_BYTES),
        };
        let runs = dirs.iter().zip(&specs).map(view).collect::<Result<_, _>>()?;
        Ok(Waited { runs, timed_out })
    }

    /// Waits for a run and returns how it ended and what it said.
    pub async fn result_of(self: &Arc<Self>, run: RunId) -> (OutcomeKind, String) {
        let dir = self.home.run_dir(run);
        let (signs, _heard) = mpsc::channel(1);
        let ended = self.until_ended(&dir, signs).await;
        let view = ended.and_then(|_| self.view(&dir, 0, 256 << 10));
        match (view, dir.ending()) {
            (Ok(view), Ok(Some(ending))) => (ending.outcome.kind(), view.result.unwrap_or(view.explanation)),
            (Err(error), _) => (OutcomeKind::Failed, error.to_string()),
            (Ok(view), _) => (OutcomeKind::Failed, view.explanation),
        }
    }

    /// Waits until a run has ended. Returns the view that its worker sent, if it sent one.
    async fn until_ended(
        self: &Arc<Self>,
        dir: &RunDir,
        signs: mpsc::Sender<Progress>,
    ) -> Result<Option<Arc<RunView>>, AppError> {
        // A run that this door has just started need not be looked at before it was heard of.
        let mut following = self.leashes.heard(dir.id());
        let mut sign = match following {
            // Nothing heard in this time means that it is queued, and only the journal tells of that.
            Some(_) => {
                let heard = tokio::time::timeout(FIRST_LOOK, hear(&mut following, &signs)).await;
                heard.unwrap_or(Sign::Nothing)
            }
            None => Sign::Nothing,
        };
        let mut is_known = false;
        loop {
            match sign {
                // The end is on disk before it is told.
                Sign::Ended(view) => return Ok(view),
                // Its worker is alive and reports the end, so the journal need not be read.
                Sign::Life => is_known = true,
                Sign::Nothing => {
                    if self.look_for_end(dir).map_err(|error| not_ended(dir, error))?.is_some() {
                        return Ok(None);
                    }
                    if !std::mem::replace(&mut is_known, true) || following.is_none() {
                        send(&signs, self.sign_of(dir)?);
                    }
                    if following.is_none() {
                        following = self.leashes.heard(dir.id()).or_else(|| self.watch(dir));
                    }
                }
            }
            sign = hear(&mut following, &signs).await;
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
        let spec = dir.read_spec().map_err(store_error)?;
        let (state, _) = journal::read_state(dir).map_err(store_error)?;
        let view = self.view_in(dir, &spec, &state, (0, 0))?;
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
#[derive(Debug, Clone)]
enum Sign {
    Nothing,
    Life,
    Ended(Option<Arc<RunView>>),
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
                Heard::Ended(view) => return Sign::Ended(view),
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
