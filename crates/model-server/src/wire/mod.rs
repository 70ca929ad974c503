//! The four protocols: how each writes an answer down, whole or as a stream of events, and how each asks.

mod chat;
mod google;
mod messages;
mod responses;

use serde_json::Value;

use crate::ask::{Ask, Message};
use crate::script::{Answer, End, Fault, Usage};

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Anthropic Messages.
    Messages,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions.
    Chat,
    /// Google generateContent and streamGenerateContent.
    Google,
}

/// An answer that is to be written down.
pub(crate) struct Turn<'a> {
    pub(crate) answer: &'a Answer,
    pub(crate) usage: Usage,
    pub(crate) model: &'a str,
    /// The number of the reply; ids are made from it.
    pub(crate) number: usize,
}

/// One server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: Option<&'static str>,
    pub(crate) data: Payload,
    /// Whether it carries the last piece of text that an interrupted answer still sends.
    pub(crate) breaks: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Payload {
    Json(Value),
    Done,
}

impl Event {
    fn json(data: Value) -> Self {
        Self { name: None, data: Payload::Json(data), breaks: false }
    }

    fn named(name: &'static str, data: Value) -> Self {
        Self { name: Some(name), ..Self::json(data) }
    }

    /// Writes the event as bytes of a stream.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let name = self.name.map(|name| format!("event: {name}\n")).unwrap_or_default();
        match &self.data {
            Payload::Json(data) => format!("{name}data: {data}\n\n").into_bytes(),
            Payload::Done => b"data: [DONE]\n\n".to_vec(),
        }
    }
}

impl Turn<'_> {
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
        self.answer.end == End::Length
    }
}

impl Format {
    pub(crate) fn events(self, turn: &Turn<'_>) -> Vec<Event> {
        match self {
            Self::Messages => messages::events(turn),
            Self::Responses => responses::events(turn),
            Self::Chat => chat::events(turn),
            Self::Google => google::events(turn),
        }
    }

    pub(crate) fn whole(self, turn: &Turn<'_>) -> Value {
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

    /// Reads a request; `path` holds what Google puts there.
    pub(crate) fn ask(self, path: &str, body: &Value) -> Ask {
        let mut ask = match self {
            Self::Messages => messages::ask(body),
            Self::Responses => responses::ask(body),
            Self::Chat => chat::ask(body),
            Self::Google => google::ask(path, body),
        };
        let (instructions, messages): (Vec<Message>, Vec<Message>) =
            ask.messages.into_iter().partition(|message| matches!(&*message.role, "system" | "developer"));
        let instructions = instructions.into_iter().map(|message| message.text);
        let all = std::iter::once(ask.system).chain(instructions).filter(|text| !text.is_empty());
        ask.system = all.collect::<Vec<_>>().join("\n\n");
        ask.messages = messages;
        ask
    }

    /// Tells which protocol a path belongs to.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
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
