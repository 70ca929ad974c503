//! An answer that the agent submits with Volery's tool `submit_result`, instead of writing a file.

use std::sync::Arc;

use backends::contract::{AgentAnswer, Conclusion};
use domain::run::{AgentEnd, Event, Failure};
use journal::StoreError;
use tokio::sync::oneshot;

use super::supervisor::RunSupervisor;
use crate::api::{EngineError, SubmitResult};
use crate::ask::{Ask, OnProgress};
use crate::engine::Engine;
use crate::ipc::relay::Relay;
use crate::ipc::wire::RunMessage;
use crate::relayed_requests;

/// The longest answer. As JSON it may take six times as much, and a line of the journal holds 1 MiB.
const ANSWER_BYTES_MAX: usize = 128 << 10;

impl Ask for SubmitResult {
    type Answer = ();

    async fn answer(self, _engine: &Arc<Engine>, _progress: OnProgress<'_>) -> Result<(), EngineError> {
        Err(EngineError::usage("an answer is handed in from inside a run, and this is outside"))
    }

    async fn relay(self, relay: &Relay, progress: OnProgress<'_>) -> Result<(), EngineError> {
        relayed_requests::relay(self, relay, progress).await
    }
}

impl RunSupervisor {
    /// Accepts an answer from the agent. It is on disk before the agent gets the confirmation.
    pub(super) fn handle_submission(
        &mut self,
        text: String,
        reply: oneshot::Sender<RunMessage>,
    ) -> Result<(), StoreError> {
        let response = match text.len() {
            // A process that reaches the socket must not replace the answer of an agent that answers in another way.
            _ if self.spec.setup.submit_result.is_none() => RunMessage::Refused {
                error: EngineError::denied("the agent of this run does not answer by submit_result"),
            },
            _ if text.trim().is_empty() => refused("the answer is empty"),
            0..=ANSWER_BYTES_MAX => {
                self.append(Event::ResultSubmitted { text })?;
                self.log.sync()?;
                RunMessage::Answer { value: serde_json::Value::Null }
            }
            bytes => refused(&format!("the answer has {bytes} bytes, and {ANSWER_BYTES_MAX} are taken")),
        };
        // The client may be gone; the answer counts nevertheless.
        let _ = reply.send(response);
        Ok(())
    }

    pub(super) fn submission(&self) -> AgentAnswer {
        self.log.state().submitted.clone().map_or(AgentAnswer::Nothing, AgentAnswer::Text)
    }

    /// Makes a submitted answer the answer of the run, whatever else the agent wrote. A program that wrote nothing
    /// has then answered.
    pub(super) fn apply_submission(&self, mut conclusion: Conclusion) -> Conclusion {
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

fn refused(message: &str) -> RunMessage {
    RunMessage::Refused { error: EngineError::usage(message) }
}
