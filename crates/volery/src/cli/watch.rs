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
use super::watched_questions::{OwnRun, WatchedQuestions};
use crate::report::LiveRow;
use engine::{
    CancelRunsRequest, CancelTarget, EngineHandle, Progress, QuestionView, WaitRequest, WaitResult,
};

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
    /// Progress has arrived since `has_changed` was called.
    changed: bool,
    /// Progress has arrived since `has_news` was called.
    news: bool,
}

/// Waits for runs. Signals cancel only `own`, the run that this command started. The user at this terminal answers only the
/// questions of `own` and of the runs below it.
pub(crate) async fn watch(
    app: &EngineHandle,
    request: WaitRequest,
    own: Option<OwnRun>,
    (signals, follower): (&mut Signals, &mut EventFollower),
    out: &mut Out,
) -> Result<WatchOutcome, CommandError> {
    let mut questions = WatchedQuestions::new(own);
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
                // If somebody answers the question elsewhere, the run sends progress.
                if questions.wait_for_line() && latest.has_changed() {
                    questions.withdraw_closed(app, out).await;
                }
                if questions.wait_for_line() {
                    // A frame would overwrite the line that the user types.
                    continue;
                }
                if latest.has_news() {
                    follower.print_new(app, &mut live, out).await;
                }
                questions.show_new(latest.open_questions(), app, &mut live, out).await;
                if !questions.wait_for_line() {
                    live.draw(&latest.rows(), out);
                }
            }
            line = questions.next_line() => questions.answer(line, app, out).await,
            received = signals.next() => {
                let response = respond(received, interrupts);
                live.erase(out);
                match (response, questions.own()) {
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
        // The run may end before the next frame would have explained why its question is closed.
        questions.withdraw_closed(app, out).await;
        follower.print_rest(app, &mut live, out).await;
    }
    Ok(watched?)
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

    /// Returns whether progress has arrived since the last call. A run also sends progress with each new event.
    fn has_news(&self) -> bool {
        let mut state = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::take(&mut state.news)
    }

    /// Returns whether progress has arrived since the last call.
    fn has_changed(&self) -> bool {
        let mut state = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::take(&mut state.changed)
    }

    /// Returns the runs that have an open question, or have one in a run below them.
    fn open_questions(&self) -> Vec<(RunId, QuestionView)> {
        let state = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let question = |(run, (progress, _)): (&RunId, &(Progress, Instant))| {
            Some((*run, progress.needs_answer.as_deref()?.clone()))
        };
        state.by_run.iter().filter_map(question).collect()
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
