//! Understands the one document that Grok writes at its end.

use domain::run::{AgentEnd, Failure, LimitName, ModelError, Stream as Pipe};
use serde_json::Value;

use crate::contract::{Answer, Conclusion, Exit, Reader, Report};
use crate::kept::{self, Kept};
use crate::worded_schema;

/// The longest document that is understood.
const DOCUMENT_BYTES_MAX: usize = 8 << 20;
/// How the program says that it does not know a session.
const UNKNOWN_SESSION: &str = "session not found";

/// The output of one run.
pub(super) struct Document {
    structured: bool,
    held: Vec<u8>,
    kept: Kept,
}

impl Document {
    pub(super) fn new(structured: bool) -> Self {
        Self { structured, held: Vec::new(), kept: Kept::default() }
    }
}

impl Reader for Document {
    fn feed(&mut self, pipe: Pipe, bytes: &[u8]) -> Vec<Report> {
        if !self.kept.is_complaint(pipe, bytes) {
            let room = DOCUMENT_BYTES_MAX.saturating_sub(self.held.len()).min(bytes.len());
            self.held.extend_from_slice(&bytes[..room]);
        }
        Vec::new()
    }

    fn conclude(&mut self, exit: Exit) -> Conclusion {
        let document = serde_json::from_slice::<Value>(&self.held).ok().filter(Value::is_object);
        let Some(document) = document else {
            return Conclusion::new(AgentEnd::Failed(self.without_document(exit)), Answer::Nothing);
        };
        let text = document["text"].as_str().unwrap_or_default();
        let end = match exit {
            Exit::Signal(signal) => AgentEnd::Failed(Failure::Signal { signal }),
            Exit::Code(code) => end(&document, code),
        };
        let answer = match (&end, text) {
            (AgentEnd::Done, text) => Answer::Text(text.to_owned()),
            (_, "") => Answer::Nothing,
            (_, text) => Answer::Text(text.to_owned()),
        };
        let mut conclusion = Conclusion::new(end, answer);
        conclusion.session = document["sessionId"].as_str().map(ToOwned::to_owned);
        if self.structured {
            worded_schema::read_value(&mut conclusion);
        }
        conclusion
    }
}

impl Document {
    fn without_document(&self, exit: Exit) -> Failure {
        let stderr = self.kept.stderr();
        match exit {
            _ if stderr.to_lowercase().contains(UNKNOWN_SESSION) => {
                Failure::Session { reason: kept::message(&stderr) }
            }
            Exit::Signal(signal) => Failure::Signal { signal },
            Exit::Code(0) => Failure::Output { reason: "the output is no document of JSON".to_owned() },
            Exit::Code(_) if !stderr.is_empty() => Failure::Agent { message: kept::message(&stderr) },
            Exit::Code(code) => Failure::Exit { code },
        }
    }
}

fn end(document: &Value, code: i32) -> AgentEnd {
    let error = document.get("error").filter(|error| !error.is_null());
    let told =
        error.map(|error| error["message"].as_str().or(error.as_str()).unwrap_or("it failed").to_owned());
    if let Some(message) = told {
        return AgentEnd::Failed(Failure::Agent { message: kept::message(&message) });
    }
    match (document["stopReason"].as_str(), code) {
        (Some("EndTurn"), 0) => AgentEnd::Done,
        (Some("Refusal"), _) => {
            let message = kept::message(document["text"].as_str().unwrap_or_default());
            AgentEnd::Failed(Failure::Model { error: ModelError::Refusal, message })
        }
        (Some("MaxTurnRequests"), _) => AgentEnd::OverBudget(LimitName::Turns),
        (_, code) if code != 0 => AgentEnd::Failed(Failure::Exit { code }),
        (Some(reason), _) => AgentEnd::Failed(Failure::Output { reason: format!("it stopped as {reason}") }),
        (None, _) => {
            AgentEnd::Failed(Failure::Output { reason: "the document has no stopReason".to_owned() })
        }
    }
}
