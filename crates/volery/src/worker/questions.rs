//! Questions of a run to a person: asked in the journal, answered through the inbox, denied when time is up.

use backend::contract::Ask;
use domain::Timestamp;
use domain::id::QuestionId;
use domain::run::{Event, RunSpec};
use journal::RunDir;
use journal::inbox::{self, InboxAnswer, Letter};

use crate::clock;

/// Who waits for an answer.
#[derive(Debug, Clone)]
pub(super) enum Asker {
    /// A call of a loop.
    Call(u32),
    /// The agent's process.
    Agent(Ask),
}

/// A question that has not been answered yet, and who waits for it.
#[derive(Debug, Clone)]
pub(super) struct OpenQuestion {
    pub(super) asker: Asker,
    pub(super) id: QuestionId,
    pub(super) until: Timestamp,
    /// On the clock that only goes forward.
    pub(super) until_ms: u64,
    /// What is answered when the time is up, and by whom.
    denial: (String, &'static str),
}

impl OpenQuestion {
    /// Makes a question that is open for so long at most, whatever the run's own limit is.
    pub(super) fn new(spec: &RunSpec, asker: Asker, number: usize, wait_ms_max: Option<u64>) -> Self {
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
        let id = match &asker {
            // The same call asks the same question after an interruption, and takes an answer given meanwhile.
            Asker::Call(call) => format!("q{call}"),
            Asker::Agent(ask) if ask.question().is_some() => format!("w{number}"),
            Asker::Agent(_) => format!("a{number}"),
        };
        Self {
            asker,
            id: id.parse().expect("a letter and digits"),
            until,
            until_ms: clock::monotonic_ms().saturating_add(wait_ms),
            denial,
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
            text: self.denial.0.clone(),
            by: self.denial.1.to_owned(),
        })
    }
}
