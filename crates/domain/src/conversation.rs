//! The conversation with a model that calls tools, independent of the service: messages, tools, requests and answers.
//! How a service spells them is in its wire protocol, not here.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::Usage;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    User {
        text: String,
    },
    Assistant(AssistantTurn),
    /// The results of all calls of the turn before, in the order of the calls.
    ToolResults {
        results: Vec<ToolResult>,
    },
}

/// An answer of a model: as the service sent it, and what everybody can read of it.
///
/// The same service and model get `native` back unchanged, because signatures and encrypted reasoning are valid only
/// as they are. For another model, the turn is rebuilt from `text` and `calls`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AssistantTurn {
    /// The wire protocol of `native`.
    pub wire: String,
    /// The model that was requested.
    pub model: String,
    /// The content blocks or items, exactly as the service sent them.
    pub native: Vec<Value>,
    pub text: String,
    pub calls: Vec<ToolCall>,
}

/// A tool that the model wants to call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The service's id of the call; empty if the service sent none.
    pub id: String,
    /// The name as the model wrote it.
    pub name: String,
    pub arguments: ToolArguments,
}

/// The arguments of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolArguments {
    Parsed(Value),
    /// They are no JSON object, or too long: why, for the model.
    Unreadable(String),
}

/// The result of one call, for the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    pub id: String,
    pub name: String,
    pub text: String,
    pub is_error: bool,
}

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Matches `^[A-Za-z0-9_-]{1,64}$`.
    pub name: String,
    pub description: String,
    /// A JSON schema of an object. It never contains a path, a pattern or a command that is allowed.
    pub input_schema: Value,
}

/// A request to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    pub model: String,
    pub system: String,
    pub messages: Vec<Message>,
    /// Empty: the model can only write text.
    pub tools: Vec<ToolSpec>,
    #[serde(default)]
    pub tool_choice: ToolChoice,
    /// The most tokens of the answer; `None`: the service's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// A JSON schema that the text of the answer must satisfy, where the service supports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

/// Whether the model may call the tools of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    #[default]
    Allowed,
    /// The model must write text. The tools are in the request nevertheless: without them a service refuses a
    /// conversation that contains calls, and what it cached of the conversation is lost.
    Forbidden,
}

/// A complete answer to a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelAnswer {
    pub turn: AssistantTurn,
    pub stop: StopReason,
    /// `None` if the service reported none.
    pub usage: Option<Usage>,
    /// The model that answered, as the service calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It has nothing more to write.
    EndTurn,
    /// It waits for the results of its calls.
    ToolUse,
    /// It reached the limit of tokens for one answer.
    MaxTokens,
    /// The conversation is longer than the model's context window.
    ContextWindow,
    /// The model, or a content filter of its service, refuses to continue, and why.
    Refusal(String),
    /// In the service's words.
    Other(String),
}
