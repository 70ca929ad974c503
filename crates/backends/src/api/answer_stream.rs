//! Parses the body of a successful response into an answer, whatever pieces it arrives in.

use domain::run::ModelError;
use serde_json::Value;

use super::answer::AnswerBuilder;
use super::failure::{self, ServiceError};
use super::sse::{BodyPart, SseBody};
use super::wire::Wire;

/// A body that is being received.
pub(super) struct AnswerStream {
    wire: Wire,
    body: SseBody,
    pub(super) answer: AnswerBuilder,
}

impl AnswerStream {
    pub(super) fn new(wire: Wire) -> Self {
        Self { wire, body: SseBody::default(), answer: AnswerBuilder::default() }
    }

    /// Adds a piece of the body.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(), ServiceError> {
        let parts = self.body.feed(bytes);
        parts.into_iter().try_for_each(|part| self.handle_part(part))
    }

    /// Handles the end of the body. `lost` says why the connection was lost before.
    pub(super) fn finish(&mut self, lost: Option<&str>) -> Result<(), ServiceError> {
        let (last, document) = self.body.finish();
        // An incomplete event from a broken connection does not count.
        if let (Some(part), None) = (last, lost) {
            self.handle_part(part)?;
        }
        if let Some(document) = document {
            self.handle_document(&document)?;
        }
        if self.answer.stop.is_some() || self.answer.is_over {
            return Ok(());
        }
        let why = lost.map(|error| format!(": {error}")).unwrap_or_default();
        let message = format!("the stream ended before the answer did{why}");
        Err(ServiceError::new(ModelError::Other, message))
    }

    fn handle_part(&mut self, part: BodyPart) -> Result<(), ServiceError> {
        if self.answer.is_over {
            return Ok(());
        }
        let event = match part {
            BodyPart::Event(event) => event,
            BodyPart::TooLong => {
                return Err(ServiceError::new(ModelError::Other, "an event of the stream is too long"));
            }
        };
        if event == b"[DONE]" {
            self.answer.is_over = true;
            return Ok(());
        }
        let Ok(event) = serde_json::from_slice::<Value>(&event) else {
            return Err(ServiceError::new(ModelError::Other, "an event of the stream is no JSON"));
        };
        self.wire.handle_event(&event, &mut self.answer)
    }

    fn handle_document(&mut self, document: &[u8]) -> Result<(), ServiceError> {
        let Ok(document) = serde_json::from_slice::<Value>(document) else {
            let begins = String::from_utf8_lossy(document);
            let begins = domain::size::head(begins.trim(), 200);
            let message = format!("the service answered with no stream and no JSON: {begins}");
            return Err(ServiceError::new(ModelError::Other, message));
        };
        if failure::is_error(&document) {
            return Err(failure::from_document(&document));
        }
        self.wire.handle_document(&document, &mut self.answer)
    }
}
