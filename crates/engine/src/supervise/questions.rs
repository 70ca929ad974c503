//! Questions of a run to a person: recorded in the journal, answered through the inbox, denied when the time is up.

use backends::contract::PermissionRequest;
use domain::Timestamp;
use domain::id::QuestionId;
use domain::run::{Event, RunSpec};
use journal::RunDir;
use journal::inbox::{self, InboxAnswer, InboxMessage};

use crate::clock;

/// What a question comes from.
#[derive(Debug, Clone)]
pub(super) enum QuestionSource {
    /// A call of a loop.
    Call(u32),
    /// The agent's process.
    Agent(PermissionRequest),
}

/// A question without an answer yet.
#[derive(Debug, Clone)]
pub(super) struct OpenQuestion {
    pub(super) source: QuestionSource,
    pub(super) id: QuestionId,
    pub(super) until: Timestamp,
    /// On the monotonic clock.
    pub(super) until_ms: u64,
    /// The answer when the time is up, and its author.
    denial: (String, &'static str),
}

impl OpenQuestion {
    /// Creates a question. The maximum bounds the wait even if the run's own limit is longer.
    pub(super) fn new(
        spec: &RunSpec,
        source: QuestionSource,
        number: usize,
        wait_ms_max: Option<u64>,
    ) -> Self {
        let (wait_ms, denial) = match &spec.unattended {
            Some(reason) => (0, (format!("denied: nobody can answer: {reason}"), "the unattended run")),
            None => {
                let wait_ms = spec.limits.answer_timeout_ms.min(wait_ms_max.unwrap_or(u64::MAX));
                (wait_ms, ("denied: nobody answered in time".to_owned(), "the answer time-out"))
            }
        };
        let now = clock::now();
        let signed = i64::try_from(wait_ms).unwrap_or(i64::MAX);
        let until = Timestamp::from_millisecond(now.as_millisecond().saturating_add(signed))
            .unwrap_or(Timestamp::MAX);
        let id = match &source {
            // The same call asks the same question after an interruption, and takes an answer that arrived meanwhile.
            QuestionSource::Call(call) => format!("q{call}"),
            QuestionSource::Agent(ask) if ask.question().is_some() => format!("w{number}"),
            QuestionSource::Agent(_) => format!("a{number}"),
        };
        Self {
            source,
            id: id.parse().expect("a letter and digits"),
            until,
            until_ms: clock::monotonic_ms().saturating_add(wait_ms),
            denial,
        }
    }

    /// Returns the answer of a person, or the denial if the time is up.
    pub(super) fn answer(&self, dir: &RunDir) -> Option<Event> {
        if let InboxMessage::Valid(InboxAnswer { allow, text, by, .. }) = inbox::read_answer(dir, &self.id) {
            let default_text = if allow { "yes" } else { "no" };
            let text = if text.is_empty() { default_text.to_owned() } else { text };
            return Some(Event::QuestionAnswered { question: self.id.clone(), allowed: allow, text, by });
        }
        (clock::monotonic_ms() >= self.until_ms).then(|| Event::QuestionAnswered {
            question: self.id.clone(),
            allowed: false,
            text: self.denial.0.clone(),
            by: self.denial.1.to_owned(),
        })
    }
}
