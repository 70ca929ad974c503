//! Waits for runs with a live picture, and answers the signals of the terminal meanwhile.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use domain::id::RunId;
use domain::run::CancelOrder;
use tokio::time::MissedTickBehavior;

use super::error::CommandError;
use super::live::{Live, REDRAW_EVERY};
use super::out::Out;
use super::signals::{Response, Signals, respond};
use crate::app::{App, Cancel, CancelTarget, Progress, Wait, Waited};
use crate::report::LiveRow;

/// How a wait came to its end.
pub(crate) enum Watched {
    Waited {
        waited: Waited,
        interrupted: bool,
    },
    /// A signal told the command to leave before the end.
    Left(Response),
}

/// The last sign of life of each run.
#[derive(Clone, Default)]
struct Latest(Arc<Mutex<Signs>>);

#[derive(Default)]
struct Signs {
    by_run: BTreeMap<RunId, (Progress, Instant)>,
    /// The questions that were shown, by run.
    shown: BTreeMap<RunId, String>,
}

/// Waits for runs. Signals concern `own`, the run that this command started.
pub(crate) async fn watch(
    app: &App,
    ask: Wait,
    own: Option<RunId>,
    signals: &mut Signals,
    out: &mut Out,
) -> Result<Watched, CommandError> {
    let latest = Latest::default();
    let sink = latest.clone();
    let mut progress = move |progress: Progress| sink.put(progress);
    let mut waiting = std::pin::pin!(app.wait(ask, &mut progress));
    let mut redraw = tokio::time::interval(REDRAW_EVERY);
    redraw.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut live = Live::new();
    let mut interrupts = 0;
    let watched = loop {
        tokio::select! {
            waited = &mut waiting => {
                break waited.map(|waited| Watched::Waited { waited, interrupted: interrupts > 0 });
            }
            _ = redraw.tick() => {
                let questions = latest.new_questions();
                if !questions.is_empty() {
                    live.erase(out);
                    questions.iter().for_each(|question| out.note(question));
                }
                live.draw(&latest.rows(), out);
            }
            received = signals.next() => {
                let response = respond(received, interrupts);
                live.erase(out);
                match (response, own) {
                    (Response::Cancel, Some(run)) => {
                        out.note("stopping; Ctrl-C again kills it now");
                        cancel(app, run, CancelPace::Ask, out).await;
                    }
                    (Response::CancelNow, Some(run)) => {
                        out.note("killing it now");
                        cancel(app, run, CancelPace::Now, out).await;
                    }
                    (left, _) => break Ok(Watched::Left(left)),
                }
                interrupts += 1;
            }
        }
    };
    live.erase(out);
    Ok(watched?)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CancelPace {
    Ask,
    Now,
}

async fn cancel(app: &App, run: RunId, pace: CancelPace, out: &mut Out) {
    let order = CancelOrder {
        by: "the terminal".to_owned(),
        reason: "Ctrl-C".to_owned(),
        now: pace == CancelPace::Now,
    };
    let ask = Cancel { target: CancelTarget::Run(run.to_string()), order };
    if let Err(error) = app.cancel(ask).await {
        out.error(&error);
    }
}

impl Latest {
    fn put(&self, progress: Progress) {
        let mut seen = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        seen.by_run.insert(progress.run_id, (progress, Instant::now()));
    }

    /// Returns what runs have begun to ask, and how it is answered: a run that waits for a word should not look as if
    /// it hung.
    fn new_questions(&self) -> Vec<String> {
        let mut seen = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Signs { by_run, shown } = &mut *seen;
        let mut questions = Vec::new();
        for (run, (progress, _)) in by_run {
            let asks = Some(progress.activity.clone()).filter(|activity| activity.starts_with("asks: "));
            match asks {
                Some(activity) if shown.get(run) != Some(&activity) => {
                    let (agent, short) = (&progress.agent, run.short());
                    questions.push(format!("{agent} {activity}"));
                    questions.push(format!(
                        "from another terminal: volery approve {short}, volery deny {short}, or, where it asks for words, volery answer {short} TEXT"
                    ));
                    shown.insert(*run, activity);
                }
                Some(_) => {}
                None => _ = shown.remove(run),
            }
        }
        questions
    }

    fn rows(&self) -> Vec<LiveRow> {
        let seen = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let several = seen.by_run.len() > 1;
        seen.by_run.values().map(|(progress, at)| row(progress, *at, several)).collect()
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
        text_tail: progress.text_tail.clone(),
        ended,
    }
}
