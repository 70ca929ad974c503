//! The four protocols: how each renders an answer, complete or as a stream of events, and how each parses a request.

mod chat;
mod google;
mod messages;
mod responses;

use serde_json::Value;

use crate::model_request::{Message, ModelRequest};
use crate::script::{AnswerEnd, Fault, ModelAnswer, ScriptedUsage};

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WireFormat {
    /// Anthropic Messages.
    Messages,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions.
    Chat,
    /// Google generateContent and streamGenerateContent.
    Google,
}

/// An answer to render.
pub(crate) struct AnswerTurn<'a> {
    pub(crate) answer: &'a ModelAnswer,
    pub(crate) usage: ScriptedUsage,
    pub(crate) usage_json: Option<&'a Value>,
    pub(crate) model: &'a str,
    /// The number of the reply; ids are derived from it.
    pub(crate) number: usize,
}

/// One server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: Option<&'static str>,
    pub(crate) data: Payload,
    /// Whether it carries the last text that an interrupted answer still sends.
    pub(crate) is_break_point: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Payload {
    Json(Value),
    Done,
}

impl Event {
    fn json(data: Value) -> Self {
        Self { name: None, data: Payload::Json(data), is_break_point: false }
    }

    fn with_name(name: &'static str, data: Value) -> Self {
        Self { name: Some(name), ..Self::json(data) }
    }

    /// Renders the event as bytes of a stream.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let name = self.name.map(|name| format!("event: {name}\n")).unwrap_or_default();
        match &self.data {
            Payload::Json(data) => format!("{name}data: {data}\n\n").into_bytes(),
            Payload::Done => b"data: [DONE]\n\n".to_vec(),
        }
    }
}

impl AnswerTurn<'_> {
    fn message_id(&self) -> String {
        format!("msg_{:04}", self.number)
    }

    fn call_id(&self, index: usize) -> String {
        format!("call_{:04}_{index}", self.number)
    }

    /// Returns the text in two halves, so that every stream has a middle.
    fn halves(&self) -> Vec<&str> {
        let text = self.answer.text.as_deref().unwrap_or_default();
        let half = text.chars().count() / 2;
        let at = text.char_indices().nth(half).map_or(0, |(at, _)| at);
        let (first, second) = text.split_at(at);
        [first, second].into_iter().filter(|piece| !piece.is_empty()).collect()
    }

    fn is_short(&self) -> bool {
        self.answer.end == AnswerEnd::Length
    }
}

impl WireFormat {
    pub(crate) fn events(self, turn: &AnswerTurn<'_>) -> Vec<Event> {
        match self {
            Self::Messages => messages::events(turn),
            Self::Responses => responses::events(turn),
            Self::Chat => chat::events(turn),
            Self::Google => google::events(turn),
        }
    }

    pub(crate) fn whole(self, turn: &AnswerTurn<'_>) -> Value {
        match self {
            Self::Messages => messages::whole(turn),
            Self::Responses => responses::whole(turn),
            Self::Chat => chat::whole(turn),
            Self::Google => google::whole(turn),
        }
    }

    pub(crate) fn fault(self, fault: &Fault) -> Value {
        match self {
            Self::Messages => messages::fault(fault),
            Self::Responses | Self::Chat => chat::fault(fault),
            Self::Google => google::fault(fault),
        }
    }

    /// Parses a request; Google puts the model and the method into `path`.
    pub(crate) fn parse_request(self, path: &str, body: &Value) -> ModelRequest {
        let mut ask = match self {
            Self::Messages => messages::parse_request(body),
            Self::Responses => responses::parse_request(body),
            Self::Chat => chat::parse_request(body),
            Self::Google => google::parse_request(path, body),
        };
        let (instructions, messages): (Vec<Message>, Vec<Message>) =
            ask.messages.into_iter().partition(|message| matches!(&*message.role, "system" | "developer"));
        let instructions = instructions.into_iter().map(|message| message.text);
        let all = std::iter::once(ask.system).chain(instructions).filter(|text| !text.is_empty());
        ask.system = all.collect::<Vec<_>>().join("\n\n");
        ask.messages = messages;
        ask
    }

    /// Returns the protocol of a path.
    pub(crate) fn from_path(path: &str) -> Option<Self> {
        if path.ends_with("/chat/completions") {
            Some(Self::Chat)
        } else if path.ends_with("/messages") {
            Some(Self::Messages)
        } else if path.ends_with("/responses") {
            Some(Self::Responses)
        } else if path.ends_with(":generateContent") || path.ends_with(":streamGenerateContent") {
            Some(Self::Google)
        } else {
            None
        }
    }
}
