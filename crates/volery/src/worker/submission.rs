//! An answer that the agent hands in by our tool `submit_result`, instead of writing a file.

use backend::contract::{Answer, Conclusion};
use domain::run::{AgentEnd, Event, Failure};
use journal::StoreError;
use tokio::sync::oneshot;

use super::desk::Desk;
use crate::app::AppError;
use crate::wire::Tell;

/// The longest answer. Written as JSON it may take six times as much, and a line of the journal holds 1 MiB.
const ANSWER_BYTES_MAX: usize = 128 << 10;

impl Desk {
    /// Takes an answer from the agent. It is on disk before the agent hears that it was taken.
    pub(super) fn take_submission(
        &mut self,
        text: String,
        reply: oneshot::Sender<Tell>,
    ) -> Result<(), StoreError> {
        let tell = match text.len() {
            // Whoever reaches the socket must not replace the answer of an agent that answers in another way.
            _ if self.spec.setup.submit_result.is_none() => Tell::Refused {
                error: AppError::denied("the agent of this run does not answer by submit_result"),
            },
            _ if text.trim().is_empty() => refused("the answer is empty"),
            0..=ANSWER_BYTES_MAX => {
                self.append(Event::ResultSubmitted { text })?;
                self.log.sync()?;
                Tell::Answer { value: serde_json::Value::Null }
            }
            bytes => refused(&format!("the answer has {bytes} bytes, and {ANSWER_BYTES_MAX} are taken")),
        };
        // Whoever asked may be gone; the answer counts nevertheless.
        let _ = reply.send(tell);
        Ok(())
    }

    /// Returns the answer that was handed in.
    pub(super) fn submission(&self) -> Answer {
        self.log.state().submitted.clone().map_or(Answer::Nothing, Answer::Text)
    }

    /// What was handed in is the answer, whatever else was written, and a program that wrote nothing has answered.
    pub(super) fn with_submission(&self, mut conclusion: Conclusion) -> Conclusion {
        if self.log.state().submitted.is_some() {
            conclusion.answer = self.submission();
            let unanswered = matches!(
                conclusion.end,
                AgentEnd::Unanswered
                    | AgentEnd::Failed(
                        Failure::Output { .. } | Failure::Schema { .. } | Failure::Model { .. }
                    )
            );
            if unanswered {
                conclusion.end = AgentEnd::Done;
            }
        }
        conclusion
    }
}

fn refused(message: &str) -> Tell {
    Tell::Refused { error: AppError::usage(message) }
}
