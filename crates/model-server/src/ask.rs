//! What an agent asked of the model, in one shape for all protocols: what a test wants to look at.

use serde_json::Value;

/// A request to the model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ask {
    pub model: String,
    pub stream: bool,
    /// All instructions, also those in messages of the system or of developers, joined by blank lines.
    pub system: String,
    /// The names of the tools that the model may call.
    pub tools: Vec<String>,
    pub messages: Vec<Message>,
    /// The schema that the answer shall have.
    pub schema: Option<Value>,
}

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Message {
    /// As sent: `user`, `assistant`, `model`, `tool` …
    pub role: String,
    pub text: String,
    /// The names of the tools that are called in it.
    pub calls: Vec<String>,
    pub results: Vec<ToolResult>,
}

/// What a tool gave back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolResult {
    /// The id of the call, or the tool's name where the protocol has no ids.
    pub call: String,
    pub text: String,
    /// False also where the protocol cannot say it.
    pub failed: bool,
}

impl Ask {
    /// Returns the last text of the user.
    pub fn last_user_text(&self) -> &str {
        let user = |message: &&Message| message.role == "user" && !message.text.is_empty();
        self.messages.iter().rev().find(user).map_or("", |message| &message.text)
    }

    /// Returns what the last tool gave back.
    pub fn last_result(&self) -> Option<&ToolResult> {
        self.messages.iter().rev().find_map(|message| message.results.last())
    }
}

/// Returns the text of a value that is a string, a block with a text, or a list of such; other blocks are left out.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().map(text_of).filter(|text| !text.is_empty());
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Object(block) => match (block.get("text"), block.get("content")) {
            (Some(Value::String(text)), _) => text.clone(),
            (None, Some(content)) => text_of(content),
            _ => String::new(),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// Returns a string member, or nothing.
pub(crate) fn string_of(value: &Value, member: &str) -> String {
    value.get(member).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the items of a list member.
pub(crate) fn items<'a>(value: &'a Value, member: &str) -> impl Iterator<Item = &'a Value> {
    value.get(member).and_then(Value::as_array).into_iter().flatten()
}
