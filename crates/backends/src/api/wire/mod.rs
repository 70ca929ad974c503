//! The three service protocols: how each formats a request, and how each is parsed, as a stream of events or as one
//! document.

mod chat;
mod google;
mod messages;
mod messages_request;

use domain::conversation::{Message, ModelRequest};
use domain::run::ModelError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::AnswerBuilder;
use super::failure::ServiceError;
use super::providers::ProviderQuirks;

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Wire {
    /// Anthropic Messages.
    Messages,
    /// OpenAI Chat Completions, which many others speak too.
    Chat,
    /// Google streamGenerateContent.
    Google,
}

/// A request, without its address and its key.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HttpRequest {
    /// Behind the address.
    pub(super) path: String,
    pub(super) headers: Vec<(&'static str, &'static str)>,
    pub(super) body: Value,
}

/// A turn of a conversation without tools.
struct TextTurn<'a> {
    is_user: bool,
    text: &'a str,
}

impl Wire {
    /// Returns the name under which an answer records its protocol.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Chat => "chat",
            Self::Google => "google",
        }
    }

    /// Returns whether requests may contain tools.
    pub(super) fn supports_tools(self) -> bool {
        match self {
            Self::Messages => true,
            Self::Chat | Self::Google => false,
        }
    }

    pub(super) fn post(
        self,
        request: &ModelRequest,
        quirks: ProviderQuirks,
    ) -> Result<HttpRequest, ServiceError> {
        match self {
            Self::Messages => Ok(messages_request::post(request)),
            Self::Chat => chat::post(request, quirks),
            Self::Google => google::post(request),
        }
    }

    /// Returns the header that carries the key, and its value.
    pub(super) fn key_header(self, key: &str) -> (&'static str, String) {
        match self {
            Self::Messages => ("x-api-key", key.to_owned()),
            Self::Chat => ("authorization", format!("Bearer {key}")),
            Self::Google => ("x-goog-api-key", key.to_owned()),
        }
    }

    /// Handles one event.
    pub(super) fn handle_event(self, event: &Value, answer: &mut AnswerBuilder) -> Result<(), ServiceError> {
        match self {
            Self::Messages => messages::handle_event(event, answer),
            Self::Chat => chat::handle_event(event, answer),
            Self::Google => google::handle_event(event, answer),
        }
    }

    /// Handles an answer that came as one document, from a service that does not stream.
    pub(super) fn handle_document(
        self,
        document: &Value,
        answer: &mut AnswerBuilder,
    ) -> Result<(), ServiceError> {
        match self {
            Self::Messages => messages::handle_document(document, answer)?,
            Self::Chat => chat::handle_document(document, answer)?,
            Self::Google => google::handle_event(document, answer)?,
        }
        answer.is_over = answer.stop.is_some();
        Ok(())
    }

    /// Returns the turns of a conversation without tools; an error if it has any.
    fn text_turns(self, request: &ModelRequest) -> Result<Vec<TextTurn<'_>>, ServiceError> {
        let refusal = || {
            let message = format!("tools are not supported with the protocol {:?} yet", self.name());
            ServiceError::new(ModelError::BadRequest, message)
        };
        if !request.tools.is_empty() {
            return Err(refusal());
        }
        let mut turns = Vec::new();
        for message in &request.messages {
            turns.push(match message {
                Message::User { text } => TextTurn { is_user: true, text },
                Message::Assistant(turn) if turn.calls.is_empty() => {
                    TextTurn { is_user: false, text: &turn.text }
                }
                Message::Assistant(_) | Message::ToolResults { .. } => return Err(refusal()),
            });
        }
        Ok(turns)
    }
}

/// Returns the text of a content: a string, or a list of blocks of which some are text.
fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter(|block| block["type"] == "text");
            texts.filter_map(|block| block["text"].as_str()).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}
