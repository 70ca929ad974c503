//! The three protocols: how each asks, and how each is understood, as a stream of events or as one document.

mod chat;
mod google;
mod messages;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::failure::Trouble;
use super::job::Question;
use super::providers::Habits;
use super::word::{Stop, Tokens};

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
pub(super) struct Posted {
    /// Behind the address.
    pub(super) path: String,
    pub(super) headers: Vec<(&'static str, &'static str)>,
    pub(super) body: Value,
}

/// What was understood of an answer so far, beside its text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Heard {
    pub(super) model: Option<String>,
    pub(super) tokens: Tokens,
    pub(super) stop: Option<Stop>,
    /// The stream says that nothing more comes.
    pub(super) over: bool,
}

impl Heard {
    fn name_model(&mut self, model: &Value) {
        if let Some(model) = model.as_str().filter(|model| !model.is_empty()) {
            self.model = Some(model.to_owned());
        }
    }
}

impl Wire {
    pub(super) fn post(self, question: &Question, habits: Habits) -> Posted {
        match self {
            Self::Messages => messages::post(question),
            Self::Chat => chat::post(question, habits),
            Self::Google => google::post(question),
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

    /// Takes in one event and returns the text that it adds to the answer.
    pub(super) fn hear(self, event: &Value, heard: &mut Heard) -> Result<String, Trouble> {
        match self {
            Self::Messages => messages::hear(event, heard),
            Self::Chat => chat::hear(event, heard),
            Self::Google => google::hear(event, heard),
        }
    }

    /// Takes in an answer that came as one document, from a service that does not stream.
    pub(super) fn hear_whole(self, document: &Value, heard: &mut Heard) -> Result<String, Trouble> {
        let text = match self {
            Self::Messages => messages::hear_whole(document, heard)?,
            Self::Chat => chat::hear_whole(document, heard)?,
            Self::Google => google::hear(document, heard)?,
        };
        heard.over = heard.stop.is_some();
        Ok(text)
    }
}

/// Returns the text of a content that is a text, or a list of blocks of which some are.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter(|block| block["type"] == "text");
            texts.filter_map(|block| block["text"].as_str()).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}
