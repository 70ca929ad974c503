//! Waits for runs with a live display, and handles the terminal's signals and the runs' questions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use domain::id::RunId;
use domain::run::CancelRequest;
use tokio::time::MissedTickBehavior;

use super::error::CommandError;
use super::event_follower::EventFollower;
use super::live_display::{LiveDisplay, REDRAW_EVERY};
use super::output::Out;
use super::signals::{SignalResponse, Signals, respond};
use super::terminal_questions::{OpenQuestion, TerminalUser};
use crate::report::LiveRow;
use engine::{CancelRunsRequest, CancelTarget, EngineHandle, Progress, WaitRequest, WaitResult};

/// The beginning of the activity of a run that waits for an answer.
const ASKING_PREFIX: &str = "asks: ";

/// How a wait ended.
pub(crate) enum WatchOutcome {
    Waited {
        waited: WaitResult,
        interrupted: bool,
    },
    /// A signal made the command leave before the end.
    Left(SignalResponse),
}

/// The latest progress of each run.
#[derive(Clone, Default)]
struct LatestProgress(Arc<Mutex<ProgressState>>);

#[derive(Default)]
struct ProgressState {
    by_run: BTreeMap<RunId, (Progress, Instant)>,
    /// The questions that were printed, by run.
    shown_questions: BTreeMap<RunId, String>,
    /// Progress has arrived since `has_changed` was called.
    changed: bool,
    /// Progress has arrived since `has_news` was called.
    news: bool,
}

/// The run that a command started itself, and the user who answers its questions if the command has a terminal.
pub(crate) struct OwnRun {
    pub(crate) run: RunId,
    pub(crate) user_name: String,
}

/// Waits for runs. Signals cancel `own`, the run that this command started, and only its questions are asked here.
pub(crate) async fn watch(
    app: &EngineHandle,
    request: WaitRequest,
    own: Option<OwnRun>,
    (signals, follower): (&mut Signals, &mut EventFollower),
    out: &mut Out,
) -> Result<WatchOutcome, CommandError> {
    let (own, user) = own.map(|own| (own.run, own.user_name)).unzip();
    let mut user = user.and_then(TerminalUser::attached);
    let latest = LatestProgress::default();
    let sink = latest.clone();
    let mut progress = move |progress: Progress| sink.record(progress);
    let mut waiting = std::pin::pin!(app.ask_with_progress(request, &mut progress));
    let mut redraw = tokio::time::interval(REDRAW_EVERY);
    redraw.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut live = LiveDisplay::new();
    let mut interrupts = 0;
    let watched = loop {
        tokio::select! {
            waited = &mut waiting => {
                break waited.map(|waited| WatchOutcome::Waited { waited, interrupted: interrupts > 0 });
            }
            _ = redraw.tick() => {
                if let Some(user) = &mut user {
                    // The question may have been answered elsewhere, but only if there was progress.
                    if let Some(run) = own.filter(|_| user.has_open_question() && latest.has_changed()) {
                        let now = OpenQuestion::fetch(app, run).await;
                        user.withdraw(now.as_ref(), app, out).await;
                    }
                    if user.has_open_question() {
                        // A frame would overwrite the line that the user types.
                        continue;
                    }
                }
                let here = own.filter(|run| user.is_some() && latest.waits_for_answer(*run));
                for run in latest.new_questions().into_iter().filter(|run| here != Some(*run)).chain(here) {
                    let Some(question) = OpenQuestion::fetch(app, run).await else { continue };
                    match &mut user {
                        Some(user) if own == Some(run) => {
                            if !user.has_seen(&question) {
                                live.erase(out);
                                user.ask(question, out);
                            }
                        }
                        Some(_) | None => {
                            live.erase(out);
                            out.note(&question.sentence());
                            out.note(&question.commands());
                        }
                    }
                }
                if latest.has_news() {
                    follower.print_new(app, &mut live, out).await;
                }
                if !user.as_ref().is_some_and(TerminalUser::has_open_question) {
                    live.draw(&latest.rows(), out);
                }
            }
            line = next_typed_line(&mut user) => {
                if let Some(user) = &mut user {
                    user.answer(line, app, out).await;
                }
            }
            received = signals.next() => {
                let response = respond(received, interrupts);
                live.erase(out);
                match (response, own) {
                    (SignalResponse::Cancel, Some(run)) => {
                        out.note("stopping; Ctrl-C again kills it now");
                        cancel(app, run, CancelPace::Ask, out).await;
                    }
                    (SignalResponse::CancelNow, Some(run)) => {
                        out.note("killing it now");
                        cancel(app, run, CancelPace::Now, out).await;
                    }
                    (left, _) => break Ok(WatchOutcome::Left(left)),
                }
                interrupts += 1;
            }
        }
    };
    live.erase(out);
    if matches!(watched, Ok(WatchOutcome::Waited { .. })) {
        follower.print_new(app, &mut live, out).await;
    }
    Ok(watched?)
}

/// Waits for the line that answers the open question.
async fn next_typed_line(user: &mut Option<TerminalUser>) -> Option<String> {
    match user.as_mut().filter(|user| user.has_open_question()) {
        Some(user) => user.line().await,
        None => std::future::pending().await,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CancelPace {
    Ask,
    Now,
}

async fn cancel(app: &EngineHandle, run: RunId, pace: CancelPace, out: &mut Out) {
    let order = CancelRequest {
        by: "the terminal".to_owned(),
        reason: "Ctrl-C".to_owned(),
        now: pace == CancelPace::Now,
    };
    let request = CancelRunsRequest { target: CancelTarget::Run(run.to_string()), order };
    if let Err(error) = app.ask(request).await {
        out.error(&error);
    }
}

impl LatestProgress {
    fn record(&self, progress: Progress) {
        let mut state = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        state.by_run.insert(progress.run_id, (progress, Instant::now()));
        (state.changed, state.news) = (true, true);
    }

    /// Returns whether progress has arrived since the last call; a run also sends some with each new event.
    fn has_news(&self) -> bool {
        let mut state = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::take(&mut state.news)
    }

    /// Returns whether progress has arrived since the last call.
    fn has_changed(&self) -> bool {
        let mut state = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::take(&mut state.changed)
    }

    /// Returns the runs that have a new question. They are printed, because a run that waits for an answer looks as if it hung.
    fn new_questions(&self) -> Vec<RunId> {
        let mut state = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let ProgressState { by_run, shown_questions, changed: _, news: _ } = &mut *state;
        let mut asking = Vec::new();
        for (run, (progress, _)) in by_run {
            match Some(&progress.activity).filter(|activity| activity.starts_with(ASKING_PREFIX)) {
                Some(activity) if shown_questions.get(run) != Some(activity) => {
                    asking.push(*run);
                    shown_questions.insert(*run, activity.clone());
                }
                Some(_) => {}
                None => _ = shown_questions.remove(run),
            }
        }
        asking
    }

    /// Returns whether a run waits for an answer.
    fn waits_for_answer(&self, run: RunId) -> bool {
        let state = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        state.by_run.get(&run).is_some_and(|(progress, _)| progress.activity.starts_with(ASKING_PREFIX))
    }

    fn rows(&self) -> Vec<LiveRow> {
        let state = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let several = state.by_run.len() > 1;
        state.by_run.values().map(|(progress, at)| row(progress, *at, several)).collect()
    }
}

fn row(progress: &Progress, at: Instant, several: bool) -> LiveRow {
    let ended = domain::run::OutcomeKind::ALL.iter().any(|kind| kind.as_str() == progress.status);
    let since = if ended { 0 } else { u64::try_from(at.elapsed().as_millis()).unwrap_or(0) };
    let id = progress.run_id.short();
    LiveRow {
        name: if several { format!("{} {id}", progress.agent) } else { progress.agent.clone() },
        status: progress.status.clone(),
        elapsed_ms: progress.elapsed_ms.saturating_add(since),
        activity: progress.activity.clone(),
        activity_is_text: progress.activity_is_text,
        text_tail: progress.text_tail.clone(),
        ended,
    }
}
