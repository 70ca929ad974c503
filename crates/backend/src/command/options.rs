//! What a configuration says about a custom command, as it is stored in a run's spec.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How the prompt reaches the command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptBy {
    #[default]
    Stdin,
    Arg,
    File,
}

/// How the command's output is understood.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// All of standard output is the answer.
    #[default]
    Text,
    /// Standard output is one JSON document; `result` points to the answer.
    Json,
    /// A JSON document per line; the one that matches `terminal` ends the run.
    Jsonl,
}

/// A custom command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Options {
    pub command: Vec<String>,
    #[serde(default)]
    pub prompt: PromptBy,
    #[serde(default)]
    pub output: Output,
    /// A JSON pointer to the answer.
    #[serde(default)]
    pub result: Option<String>,
    /// Pointers and the values they must have in the terminal event.
    #[serde(default)]
    pub terminal: BTreeMap<String, serde_json::Value>,
    /// Pointers and values that make a terminal event or document a failure.
    #[serde(default)]
    pub error: BTreeMap<String, serde_json::Value>,
    /// A pointer to streamed text in the other events.
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub env: Vec<String>,
    #[serde(default = "only_zero")]
    pub success_codes: Vec<i32>,
}

fn only_zero() -> Vec<i32> {
    vec![0]
}
