//! An agent's request to the model in one representation for all protocols, for tests to inspect.

use serde_json::Value;

/// A request to the model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelRequest {
    pub model: String,
    pub stream: bool,
    /// All instructions, including those in system and developer messages, joined by blank lines.
    pub system: String,
    /// The names of the tools that the model may call.
    pub tools: Vec<String>,
    pub messages: Vec<Message>,
    /// The requested schema of the answer.
    pub schema: Option<Value>,
}

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Message {
    /// As sent: `user`, `assistant`, `model`, `tool` …
    pub role: String,
    pub text: String,
    /// The names of the tools that the message calls.
    pub calls: Vec<String>,
    pub results: Vec<ToolResult>,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolResult {
    /// The id of the call, or the tool's name in protocols without ids.
    pub call: String,
    pub text: String,
    /// Also `false` if the protocol cannot express failure.
    pub failed: bool,
}

impl ModelRequest {
    /// Returns the last text from the user.
    pub fn last_user_text(&self) -> &str {
        let user = |message: &&Message| message.role == "user" && !message.text.is_empty();
        self.messages.iter().rev().find(user).map_or("", |message| &message.text)
    }

    /// Returns the result of the last tool call.
    pub fn last_result(&self) -> Option<&ToolResult> {
        self.messages.iter().rev().find_map(|message| message.results.last())
    }
}

/// Returns the text of a value that is a string, a block with a text, or a list of these; ignores other blocks.
pub(crate) fn collect_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().map(collect_text).filter(|text| !text.is_empty());
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Object(block) => match (block.get("text"), block.get("content")) {
            (Some(Value::String(text)), _) => text.clone(),
            (None, Some(content)) => collect_text(content),
            _ => String::new(),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// Returns a string member, or an empty string.
pub(crate) fn string_member(value: &Value, member: &str) -> String {
    value.get(member).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the items of a list member.
pub(crate) fn items<'a>(value: &'a Value, member: &str) -> impl Iterator<Item = &'a Value> {
    value.get(member).and_then(Value::as_array).into_iter().flatten()
}
