//! Questions of a run to a person: recorded in the journal, answered through the inbox, denied when the time is up.

use backends::contract::PermissionRequest;
use domain::Timestamp;
use domain::id::QuestionId;
use domain::run::{AnswerOrigin, DenialCause, Event, RunSpec};
use journal::RunDir;
use journal::inbox::{self, InboxAnswer, InboxMessage};

use super::denials::DeniedUse;
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
    /// The answer if nobody answers in time.
    denial: Answer,
}

/// The answer to a question.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    pub(super) text: String,
    pub(super) by: String,
    origin: Option<AnswerOrigin>,
    /// Rules that hold for the rest of the run.
    granted_rules: Vec<String>,
    /// The denial, if no person gave this answer.
    default: Option<DeniedUse>,
}

impl Answer {
    fn denial(reason: String, by: &str, cause: DenialCause) -> Self {
        let (text, by) = (format!("denied: {reason}"), by.to_owned());
        let origin = match cause {
            DenialCause::Unattended => Some(AnswerOrigin::Unattended),
            DenialCause::Unanswered => Some(AnswerOrigin::Expired),
            // No question is open for these.
            DenialCause::Rule
            | DenialCause::Level
            | DenialCause::Person
            | DenialCause::Program
            | DenialCause::NoSuchTool => None,
        };
        let default = Some(DeniedUse::because(cause, reason));
        Self { allowed: false, text, by, origin, granted_rules: Vec::new(), default }
    }

    /// Describes the denial that this answer causes.
    pub(super) fn denied_use(&self) -> DeniedUse {
        let by_person = || DeniedUse::by_person(self.by.clone(), self.text.clone());
        self.default.clone().unwrap_or_else(by_person)
    }

    pub(super) fn into_event(self, question: QuestionId) -> Event {
        let Self { allowed, text, by, origin, granted_rules, default: _ } = self;
        Event::QuestionAnswered { question, allowed, text, by, origin, granted_rules }
    }
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
            Some(reason) => {
                let text = format!("nobody can answer: {reason}");
                (0, Answer::denial(text, "Volery, because the run is unattended", DenialCause::Unattended))
            }
            None => {
                let wait_ms = spec.limits.answer_timeout_ms.min(wait_ms_max.unwrap_or(u64::MAX));
                let text = "nobody answered in time".to_owned();
                (
                    wait_ms,
                    Answer::denial(text, "Volery, because nobody answered in time", DenialCause::Unanswered),
                )
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
    pub(super) fn answer(&self, dir: &RunDir) -> Option<Answer> {
        if let InboxMessage::Valid(answer) = inbox::read_answer(dir, &self.id) {
            let InboxAnswer { allow: allowed, text, by, origin, at: _, granted_rules } = answer;
            let default_text = if allowed { "yes" } else { "no" };
            let text = if text.is_empty() { default_text.to_owned() } else { text };
            let granted_rules = if allowed { granted_rules } else { Vec::new() };
            return Some(Answer { allowed, text, by, origin, granted_rules, default: None });
        }
        (clock::monotonic_ms() >= self.until_ms).then(|| self.denial.clone())
    }
}
