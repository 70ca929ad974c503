//! Waits for runs on behalf of one call: shows progress, and stops when the runs end, when one of them asks
//! something, before the client gives up, when the client cancels, or when the door leaves.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::duration::display_ms;
use domain::harmless::harmless;
use domain::id::RunId;
use futures::FutureExt;
use futures::future::{BoxFuture, OptionFuture};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::time::{Instant, MissedTickBehavior};

use super::call::Call;
use super::clients::CancelMeaning;
use super::elicit;
use crate::app::{AppError, GetRun, Progress, RunView, Wait, WaitUntil, Waited, WaitingView};

/// How long a progress notification may take before the answer is sent all the same.
const LAST_PROGRESS: Duration = Duration::from_secs(1);
/// How much of a run's last words a progress message shows.
const TAIL_CHARS: usize = 120;

/// Why a wait ended.
#[derive(Debug)]
pub(super) enum WaitEnd {
    /// The runs ended, or the time is up; the value says which.
    Waited(Waited),
    /// A run asks something that the caller can answer: its model, or its user where the protocol has a way.
    Asked(Box<RunView>),
    Cancelled(CancelMeaning),
    /// The door leaves: there is no time left to look.
    Leaving,
}

/// Waits for the runs, at most this long.
pub(super) async fn wait(
    call: &Call<'_>,
    runs: Vec<String>,
    until: WaitUntil,
    at_most: Duration,
) -> Result<WaitEnd, AppError> {
    let timeout_ms = u64::try_from(at_most.as_millis()).unwrap_or(u64::MAX);
    let seen = Seen::default();
    let mut note = |progress| seen.note(progress);
    let ask = Wait { runs, until, timeout_ms: Some(timeout_ms) };
    let mut waiting = pin!(call.door.app.wait(ask, &mut note));
    let mut reporter = Reporter::new(call);
    // At once: some clients give up on a server that says nothing in the first seconds.
    reporter.send(&seen);
    let every = call.door.options.pace.progress;
    let mut tick = tokio::time::interval_at(Instant::now() + every, every);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut asking: Option<BoxFuture<'_, Option<Box<RunView>>>> = None;
    let end = loop {
        tokio::select! {
            biased;
            waited = &mut waiting => break waited.map(WaitEnd::Waited),
            () = call.door.leaving.cancelled() => break Ok(WaitEnd::Leaving),
            () = call.context.ct.cancelled() => break Ok(reporter.cancelled()),
            unanswered = heard(&mut asking), if asking.is_some() => {
                asking = None;
                if let Some(run) = unanswered {
                    break Ok(WaitEnd::Asked(run));
                }
            }
            run = seen.asked(call), if asking.is_none() => match elicit::way(call) {
                Some(elicit::Way::Request) => asking = Some(put(call, run).boxed()),
                Some(elicit::Way::Answer) | None => break Ok(WaitEnd::Asked(run)),
            },
            () = reporter.sent(), if reporter.is_sending() => {}
            _ = tick.tick(), if reporter.is_idle() => reporter.send(&seen),
        }
    };
    reporter.finish().await;
    end
}

/// Puts a run's question to the client's user; returns the run if nobody answered.
async fn put(call: &Call<'_>, run: Box<RunView>) -> Option<Box<RunView>> {
    let answered = elicit::ask(call, &run).await;
    (!answered).then_some(run)
}

/// Waits for what becomes of a question, if one is put.
async fn heard<T>(asking: &mut Option<BoxFuture<'_, T>>) -> T {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}

/// The latest that is known of each run.
#[derive(Debug, Default)]
struct Seen {
    runs: Mutex<BTreeMap<RunId, Sign>>,
    /// Runs that began to wait and were not yet looked at.
    suspects: Mutex<Vec<RunId>>,
    suspected: tokio::sync::Notify,
}

/// A sign of life, and when it came.
#[derive(Debug)]
struct Sign {
    progress: Progress,
    at: Instant,
}

impl Seen {
    fn note(&self, progress: Progress) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let began_to_wait = progress.status == "waiting"
            && runs.get(&progress.run_id).is_none_or(|before| before.progress.activity != progress.activity);
        if began_to_wait {
            self.suspects.lock().unwrap_or_else(PoisonError::into_inner).push(progress.run_id);
            self.suspected.notify_one();
        }
        runs.insert(progress.run_id, Sign { progress, at: Instant::now() });
    }

    /// Waits until a run waits for an answer, and not just for a slot.
    async fn asked(&self, call: &Call<'_>) -> Box<RunView> {
        loop {
            let suspect = self.suspects.lock().unwrap_or_else(PoisonError::into_inner).first().copied();
            let Some(run) = suspect else {
                self.suspected.notified().await;
                continue;
            };
            let ask = GetRun { run: run.to_string(), ..GetRun::default() };
            let detail = call.door.app.get_run(ask).await;
            // Taken off only now, so that being dropped in between loses nothing.
            self.suspects.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| *other != run);
            if let Ok(detail) = detail
                && matches!(detail.run.waiting, Some(WaitingView::Answer { .. }))
            {
                return Box::new(detail.run);
            }
        }
    }

    /// Says in a line how things stand.
    fn describe(&self) -> String {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut going = runs.values().filter(|sign| is_going(&sign.progress.status));
        match (runs.len(), going.next()) {
            (0, _) => "started".into(),
            (_, None) => "ended".into(),
            (1, Some(sign)) => describe_one(sign),
            (all, Some(sign)) => {
                let ended = all - 1 - going.count();
                format!("{ended} of {all} ended; {}", describe_one(sign))
            }
        }
    }
}

fn is_going(status: &str) -> bool {
    matches!(status, "accepted" | "running" | "waiting" | "stopping")
}

fn describe_one(sign: &Sign) -> String {
    let Progress { agent, activity, elapsed_ms, text_tail, .. } = &sign.progress;
    // A run that is silent gets older all the same.
    let since_ms = u64::try_from(sign.at.elapsed().as_millis()).unwrap_or(u64::MAX);
    let elapsed = display_ms(elapsed_ms.saturating_add(since_ms));
    let mut line = format!("{agent}: {activity} ({elapsed})");
    let last_words = text_tail.lines().rev().find(|line| !line.trim().is_empty());
    if let Some(words) = last_words {
        let skipped = words.chars().count().saturating_sub(TAIL_CHARS);
        line.push_str(" … ");
        line.push_str(&words.chars().skip(skipped).collect::<String>());
    }
    harmless(&line).into_owned()
}

/// Sends progress notifications, one at a time and always increasing.
struct Reporter<'a> {
    call: &'a Call<'a>,
    token: Option<ProgressToken>,
    last: f64,
    last_sent_at: Option<Instant>,
    sending: Option<BoxFuture<'a, ()>>,
}

impl<'a> Reporter<'a> {
    fn new(call: &'a Call<'a>) -> Self {
        let token = call.context.meta.get_progress_token();
        Self { call, token, last: -1.0, last_sent_at: None, sending: None }
    }

    fn is_sending(&self) -> bool {
        self.sending.is_some()
    }

    /// Tells whether a notification is wanted and none is on its way: a client that does not read is not sent more.
    fn is_idle(&self) -> bool {
        (self.token.is_some() || self.call.events.is_some()) && self.sending.is_none()
    }

    fn send(&mut self, seen: &Seen) {
        if self.token.is_none() && self.call.events.is_none() {
            return;
        }
        let described = seen.describe();
        let context = &self.call.context;
        let event = self.call.events.map(|form| form(&context.id, &described));
        let event = event.map(|event| context.peer.send_notification(event.into()));
        let progress = self.next_progress(described).map(|progress| context.peer.notify_progress(progress));
        // It cannot be sent when the door is leaving or the client is gone; both are noticed elsewhere.
        self.sending = Some(
            async {
                let _ = futures::join!(OptionFuture::from(event), OptionFuture::from(progress));
            }
            .boxed(),
        );
    }

    fn next_progress(&mut self, message: String) -> Option<ProgressNotificationParam> {
        let token = self.token.clone()?;
        let elapsed = (self.call.age().as_secs_f64() * 1_000.0).round() / 1_000.0;
        self.last = if elapsed > self.last { elapsed } else { self.last + 0.001 };
        Some(ProgressNotificationParam::new(token, self.last).with_message(message))
    }

    async fn sent(&mut self) {
        if let Some(sending) = &mut self.sending {
            sending.await;
            self.sending = None;
            self.last_sent_at = Some(Instant::now());
        }
    }

    /// Lets the last notification go out: none may follow the answer.
    async fn finish(mut self) {
        // An answer that waits for a client that does not read is not held up by this any further.
        let _ = tokio::time::timeout(LAST_PROGRESS, self.sent()).await;
    }

    fn cancelled(&self) -> WaitEnd {
        let by_client = self.call.ticket.as_ref().is_none_or(|ticket| ticket.is_cancelled());
        // The library also cancels every call when it stops; no run may end because of that.
        if by_client { WaitEnd::Cancelled(self.meaning_of_cancel()) } else { WaitEnd::Leaving }
    }

    fn meaning_of_cancel(&self) -> CancelMeaning {
        let client = &self.call.client;
        let since = match self.last_sent_at {
            Some(at) if client.resets => at.elapsed(),
            Some(_) | None => self.call.age(),
        };
        let reason = self.call.ticket.as_ref().and_then(|ticket| ticket.cancel_reason());
        client.meaning_of_cancel(reason, since)
    }
}
