//! Waits for runs on behalf of one call: sends progress, and stops when the runs end, one of them has a question, the
//! client is about to time out, the client cancels, or the server stops.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::duration::display_ms;
use domain::id::RunId;
use domain::invisible_text::strip_invisible;
use futures::FutureExt;
use futures::future::{BoxFuture, OptionFuture};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::time::{Instant, MissedTickBehavior};

use super::client_profiles::CancelMeaning;
use super::elicit;
use super::tool_call::ToolCall;
use engine::{EngineError, GetRun, Progress, QuestionView, RunView, WaitRequest, WaitResult, WaitUntil};

/// How long a progress notification may delay the answer.
const LAST_PROGRESS: Duration = Duration::from_secs(1);
/// How much of a run's last line a progress message shows.
const TAIL_CHARS: usize = 120;

/// Why a wait ended.
#[derive(Debug)]
pub(super) enum WaitEnd {
    /// The runs ended, or the wait timed out; the value says which.
    Waited(WaitResult),
    /// A run asks the caller's model, or the caller's user if the client supports that. A question of a run below it goes only to
    /// the user.
    Question(Box<RunView>),
    Cancelled(CancelMeaning),
    /// The server stops: there is no time to query the runs.
    Leaving,
}

/// Waits for the runs, at most for this time.
pub(super) async fn wait(
    call: &ToolCall<'_>,
    runs: Vec<String>,
    until: WaitUntil,
    at_most: Duration,
) -> Result<WaitEnd, EngineError> {
    let timeout_ms = u64::try_from(at_most.as_millis()).unwrap_or(u64::MAX);
    let tracker = ProgressTracker::default();
    let mut record = |progress| tracker.record(progress);
    let request = WaitRequest { runs, until, timeout_ms: Some(timeout_ms) };
    let mut waiting = pin!(call.handler.engine.ask_with_progress(request, &mut record));
    let mut reporter = Reporter::new(call);
    // Immediately: some clients give up on a server that is silent in the first seconds.
    reporter.send(&tracker);
    let every = call.handler.options.timing.progress;
    let mut tick = tokio::time::interval_at(Instant::now() + every, every);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut elicitation: Option<BoxFuture<'_, Option<Box<RunView>>>> = None;
    let end = loop {
        tokio::select! {
            biased;
            waited = &mut waiting => break waited.map(WaitEnd::Waited),
            () = call.handler.leaving.cancelled() => break Ok(WaitEnd::Leaving),
            () = call.context.ct.cancelled() => break Ok(reporter.cancelled()),
            unanswered = question_result(&mut elicitation), if elicitation.is_some() => {
                elicitation = None;
                if let Some(run) = unanswered {
                    break Ok(WaitEnd::Question(run));
                }
            }
            (run, question) = tracker.next_question(call), if elicitation.is_none() => {
                match elicit::elicitation_mode(call) {
                    Some(elicit::ElicitationMode::Request) => {
                        elicitation = Some(put_question(call, run, question).boxed());
                    }
                    Some(elicit::ElicitationMode::Answer) => break Ok(WaitEnd::Question(run)),
                    None if question.is_own() => break Ok(WaitEnd::Question(run)),
                    // A person answers the question with a command. Progress shows it until then.
                    None => {}
                }
            }
            () = reporter.sent(), if reporter.is_sending() => {}
            _ = tick.tick(), if reporter.is_idle() => reporter.send(&tracker),
        }
    };
    reporter.finish().await;
    end
}

/// Asks the client's user a question. Returns the run if the user did not answer and the caller's model may answer.
async fn put_question(
    call: &ToolCall<'_>,
    run: Box<RunView>,
    question: QuestionView,
) -> Option<Box<RunView>> {
    let answered = elicit::ask(call, &question).await;
    (!answered && question.is_own()).then_some(run)
}

/// Waits for the result of an elicitation, if there is one.
async fn question_result<T>(elicitation: &mut Option<BoxFuture<'_, T>>) -> T {
    match elicitation {
        Some(elicitation) => elicitation.await,
        None => std::future::pending().await,
    }
}

/// The latest progress of each run.
#[derive(Debug, Default)]
struct ProgressTracker {
    runs: Mutex<BTreeMap<RunId, ProgressSample>>,
    /// Runs with a new open question that the tracker has not queried yet.
    candidates: Mutex<Vec<(RunId, QuestionView)>>,
    candidates_changed: tokio::sync::Notify,
}

/// Progress of a run, and when it arrived.
#[derive(Debug)]
struct ProgressSample {
    progress: Progress,
    at: Instant,
}

impl ProgressTracker {
    fn record(&self, progress: Progress) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let known = runs.get(&progress.run_id).and_then(|sample| sample.progress.needs_answer.as_deref());
        if let Some(question) = &progress.needs_answer
            && known.is_none_or(|known| !known.is_same(question))
        {
            let candidate = (progress.run_id, QuestionView::clone(question));
            self.candidates.lock().unwrap_or_else(PoisonError::into_inner).push(candidate);
            self.candidates_changed.notify_one();
        }
        runs.insert(progress.run_id, ProgressSample { progress, at: Instant::now() });
    }

    /// Waits until a run, or a run below it, has a new question that is still open. Returns it with the run.
    async fn next_question(&self, call: &ToolCall<'_>) -> (Box<RunView>, QuestionView) {
        loop {
            let candidate = self.candidates.lock().unwrap_or_else(PoisonError::into_inner).first().cloned();
            let Some((run, question)) = candidate else {
                self.candidates_changed.notified().await;
                continue;
            };
            let request = GetRun { run: run.to_string(), ..GetRun::default() };
            let detail = call.handler.engine.ask(request).await;
            // Removed only now, so that dropping this future in between loses nothing.
            self.candidates
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .retain(|(other, later)| *other != run || !later.is_same(&question));
            if let Ok(detail) = detail
                && let Some(open) =
                    detail.run.needs_answer.iter().find(|open| open.is_same(&question)).cloned()
            {
                return (Box::new(detail.run), open);
            }
        }
    }

    /// Describes the progress of all runs in a line.
    fn describe(&self) -> String {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let active: Vec<_> = runs.values().filter(|sample| is_active(&sample.progress.status)).collect();
        // A run that needs a person is more important than the others.
        let shown = active.iter().find(|sample| sample.progress.needs_answer.is_some()).or(active.first());
        match (runs.len(), shown) {
            (0, _) => "started".into(),
            (_, None) => "ended".into(),
            (1, Some(sample)) => describe_one(sample),
            (all, Some(sample)) => {
                let ended = all - active.len();
                format!("{ended} of {all} ended; {}", describe_one(sample))
            }
        }
    }
}

fn is_active(status: &str) -> bool {
    matches!(status, "accepted" | "running" | "waiting" | "stopping")
}

fn describe_one(sample: &ProgressSample) -> String {
    let Progress { agent, activity, activity_is_text, elapsed_ms, text_tail, .. } = &sample.progress;
    // The time of a silent run advances too.
    let since_ms = u64::try_from(sample.at.elapsed().as_millis()).unwrap_or(u64::MAX);
    let elapsed = display_ms(elapsed_ms.saturating_add(since_ms));
    let below = sample.progress.needs_answer.as_ref().is_some_and(|question| !question.is_own());
    // The activity already names the agents.
    let mut line = match below {
        true => format!("{activity} ({elapsed})"),
        false => format!("{agent}: {activity} ({elapsed})"),
    };
    let last_line = text_tail.lines().rev().find(|line| !line.trim().is_empty());
    if let Some(text) = last_line.filter(|_| !activity_is_text) {
        let skipped = text.chars().count().saturating_sub(TAIL_CHARS);
        line.push_str(" … ");
        line.push_str(&text.chars().skip(skipped).collect::<String>());
    }
    strip_invisible(&line).into_owned()
}

/// Sends progress notifications, one at a time and with increasing values.
struct Reporter<'a> {
    call: &'a ToolCall<'a>,
    token: Option<ProgressToken>,
    last: f64,
    last_sent_at: Option<Instant>,
    sending: Option<BoxFuture<'a, ()>>,
}

impl<'a> Reporter<'a> {
    fn new(call: &'a ToolCall<'a>) -> Self {
        let token = call.context.meta.get_progress_token();
        Self { call, token, last: -1.0, last_sent_at: None, sending: None }
    }

    fn is_sending(&self) -> bool {
        self.sending.is_some()
    }

    /// Returns whether a notification may be sent: one is wanted, and none is being sent to a client that does not read.
    fn is_idle(&self) -> bool {
        (self.token.is_some() || self.call.events.is_some()) && self.sending.is_none()
    }

    fn send(&mut self, tracker: &ProgressTracker) {
        if self.token.is_none() && self.call.events.is_none() {
            return;
        }
        let described = tracker.describe();
        let context = &self.call.context;
        let event = self.call.events.map(|form| form(&context.id, &described));
        let event = event.map(|event| context.peer.send_notification(event.into()));
        let progress = self.next_progress(described).map(|progress| context.peer.notify_progress(progress));
        // Fails if the server stops or the client is gone; both are noticed elsewhere.
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

    /// Waits until the last notification is sent: none may follow the answer.
    async fn finish(mut self) {
        // A client that does not read must not delay the answer further.
        let _ = tokio::time::timeout(LAST_PROGRESS, self.sent()).await;
    }

    fn cancelled(&self) -> WaitEnd {
        let by_client = self.call.ticket.as_ref().is_none_or(|ticket| ticket.is_cancelled());
        // The library also cancels every call when it stops; that must not end runs.
        if by_client { WaitEnd::Cancelled(self.interpret_cancel()) } else { WaitEnd::Leaving }
    }

    fn interpret_cancel(&self) -> CancelMeaning {
        let client = &self.call.client;
        let since = match self.last_sent_at {
            Some(at) if client.progress_resets_limit => at.elapsed(),
            Some(_) | None => self.call.age(),
        };
        let reason = self.call.ticket.as_ref().and_then(|ticket| ticket.cancel_reason());
        client.interpret_cancel(reason, since)
    }
}
