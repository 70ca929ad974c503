//! Questions of a run to a person: asked in the journal, answered through the inbox, denied when time is up.

use domain::Timestamp;
use domain::id::QuestionId;
use domain::run::{Event, RunSpec};
use journal::RunDir;
use journal::inbox::{self, InboxAnswer, Letter};

use crate::clock;

/// A question that has not been answered yet, and the call that waits for it.
#[derive(Debug, Clone)]
pub(super) struct OpenQuestion {
    pub(super) call: u32,
    pub(super) id: QuestionId,
    pub(super) until: Timestamp,
    /// On the clock that only goes forward.
    pub(super) until_ms: u64,
}

impl OpenQuestion {
    pub(super) fn new(spec: &RunSpec, call: u32) -> Self {
        let wait_ms = spec.limits.answer_timeout_ms;
        let now = clock::now();
        let signed = i64::try_from(wait_ms).unwrap_or(i64::MAX);
        let until = Timestamp::from_millisecond(now.as_millisecond().saturating_add(signed))
            .unwrap_or(Timestamp::MAX);
        Self {
            call,
            id: format!("q{call}").parse().expect("a letter and digits"),
            until,
            until_ms: clock::monotonic_ms().saturating_add(wait_ms),
        }
    }

    /// Returns the answer, if somebody gave one or the time is up.
    pub(super) fn answer(&self, dir: &RunDir) -> Option<Event> {
        if let Letter::Valid(InboxAnswer { allow, text, by, .. }) = inbox::read_answer(dir, &self.id) {
            let said = if allow { "yes" } else { "no" };
            let text = if text.is_empty() { said.to_owned() } else { text };
            return Some(Event::Answered { question: self.id.clone(), allowed: allow, text, by });
        }
        (clock::monotonic_ms() >= self.until_ms).then(|| Event::Answered {
            question: self.id.clone(),
            allowed: false,
            text: "denied: nobody answered in time".to_owned(),
            by: "the answer time-out".to_owned(),
        })
    }
}
