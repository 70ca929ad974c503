//! Waits for runs with a live picture, and answers the signals of the terminal meanwhile.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use domain::id::RunId;
use domain::run::CancelOrder;
use tokio::time::MissedTickBehavior;

use super::ask_here::{Person, Question};
use super::error::CommandError;
use super::live::{Live, REDRAW_EVERY};
use super::out::Out;
use super::signals::{Response, Signals, respond};
use crate::app::{App, Cancel, CancelTarget, Progress, Wait, Waited};
use crate::report::LiveRow;

/// How the activity of a run begins that waits for an answer.
const ASKS: &str = "asks: ";

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
    /// There were signs since somebody asked for that.
    changed: bool,
}

/// The run that a command started itself, and who answers its questions where the command has a terminal.
pub(crate) struct Own {
    pub(crate) run: RunId,
    pub(crate) person: String,
}

/// Waits for runs. Signals concern `own`, the run that this command started, and only its questions are put here.
pub(crate) async fn watch(
    app: &App,
    ask: Wait,
    own: Option<Own>,
    signals: &mut Signals,
    out: &mut Out,
) -> Result<Watched, CommandError> {
    let (own, person) = own.map(|own| (own.run, own.person)).unzip();
    let mut person = person.and_then(Person::here);
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
                if let Some(person) = &mut person {
                    // Only a change can mean that the question was answered elsewhere.
                    if let Some(run) = own.filter(|_| person.is_asked() && latest.has_changed()) {
                        let now = Question::of_run(app, run).await;
                        person.withdraw(now.as_ref(), out);
                    }
                    if person.is_asked() {
                        // A picture would be drawn over what is being typed.
                        continue;
                    }
                }
                let here = own.filter(|run| person.is_some() && latest.is_asking(*run));
                for run in latest.new_questions().into_iter().filter(|run| here != Some(*run)).chain(here) {
                    let Some(question) = Question::of_run(app, run).await else { continue };
                    match &mut person {
                        Some(person) if own == Some(run) => {
                            if !person.knows(&question) {
                                live.erase(out);
                                person.ask(question, out);
                            }
                        }
                        Some(_) | None => {
                            live.erase(out);
                            out.note(&question.sentence());
                            out.note(&question.commands());
                        }
                    }
                }
                if !person.as_ref().is_some_and(Person::is_asked) {
                    live.draw(&latest.rows(), out);
                }
            }
            line = typed(&mut person) => {
                if let Some(person) = &mut person {
                    person.answer(line, app, out).await;
                }
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

/// Waits for a line that answers a question.
async fn typed(person: &mut Option<Person>) -> Option<String> {
    match person.as_mut().filter(|person| person.is_asked()) {
        Some(person) => person.line().await,
        None => std::future::pending().await,
    }
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
        seen.changed = true;
    }

    /// Tells whether there were signs since the last question for them.
    fn has_changed(&self) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::take(&mut seen.changed)
    }

    /// Returns the runs that have begun to ask something: a run that waits for a word should not look as if it hung.
    fn new_questions(&self) -> Vec<RunId> {
        let mut seen = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Signs { by_run, shown, changed: _ } = &mut *seen;
        let mut asking = Vec::new();
        for (run, (progress, _)) in by_run {
            match Some(&progress.activity).filter(|activity| activity.starts_with(ASKS)) {
                Some(activity) if shown.get(run) != Some(activity) => {
                    asking.push(*run);
                    shown.insert(*run, activity.clone());
                }
                Some(_) => {}
                None => _ = shown.remove(run),
            }
        }
        asking
    }

    /// Tells whether a run waits for an answer.
    fn is_asking(&self, run: RunId) -> bool {
        let seen = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        seen.by_run.get(&run).is_some_and(|(progress, _)| progress.activity.starts_with(ASKS))
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
