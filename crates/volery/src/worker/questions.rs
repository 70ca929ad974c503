//! Questions of a run to a person: asked in the journal, answered through the inbox, denied when time is up.

use domain::Timestamp;
use domain::id::QuestionId;
use domain::run::{Event, RunSpec};
use journal::RunDir;

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
        let until = Timestamp::from_millisecond(now.as_millisecond().saturating_add(signed)).unwrap_or(Timestamp::MAX);
        Self {
            call,
            id: format!("q{call}").parse().expect("a letter and digits"),
            until,
            until_ms: clock::monotonic_ms().saturating_add(wait_ms),
        }
    }

    /// Returns the answer, if somebody gave one or the time is up.
    pub(super) fn answer(&self, dir: &RunDir) -> Option<Event> {
        if let Ok(Some(answer)) = dir.read_answer(&self.id) {
            let text = answer.text.unwrap_or_else(|| if answer.allow { "yes" } else { "no" }.to_owned());
            return Some(Event::Answered { question: self.id.clone(), allowed: answer.allow, text, by: answer.by });
        }
        (clock::monotonic_ms() >= self.until_ms).then(|| Event::Answered {
            question: self.id.clone(),
            allowed: false,
            text: "denied: nobody answered in time".to_owned(),
            by: "the answer time-out".to_owned(),
        })
    }
}
