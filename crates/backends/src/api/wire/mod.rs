//! The three service protocols: how each formats a request, and how each is parsed, as a stream of events or as one
//! document.

mod chat;
mod google;
mod messages;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::failure::ServiceError;
use super::job::ModelRequest;
use super::protocol::{Stop, Tokens};
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

/// What was parsed of an answer so far, besides its text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ResponseState {
    pub(super) model: Option<String>,
    pub(super) tokens: Tokens,
    pub(super) stop: Option<Stop>,
    /// The stream has signalled its end.
    pub(super) over: bool,
}

impl ResponseState {
    fn name_model(&mut self, model: &Value) {
        if let Some(model) = model.as_str().filter(|model| !model.is_empty()) {
            self.model = Some(model.to_owned());
        }
    }
}

impl Wire {
    pub(super) fn post(self, request: &ModelRequest, quirks: ProviderQuirks) -> HttpRequest {
        match self {
            Self::Messages => messages::post(request),
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

    /// Handles one event and returns the text that it adds to the answer.
    pub(super) fn handle_event(
        self,
        event: &Value,
        state: &mut ResponseState,
    ) -> Result<String, ServiceError> {
        match self {
            Self::Messages => messages::handle_event(event, state),
            Self::Chat => chat::handle_event(event, state),
            Self::Google => google::handle_event(event, state),
        }
    }

    /// Handles an answer that came as one document, from a service that does not stream.
    pub(super) fn handle_document(
        self,
        document: &Value,
        state: &mut ResponseState,
    ) -> Result<String, ServiceError> {
        let text = match self {
            Self::Messages => messages::handle_document(document, state)?,
            Self::Chat => chat::handle_document(document, state)?,
            Self::Google => google::handle_event(document, state)?,
        };
        state.over = state.stop.is_some();
        Ok(text)
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
