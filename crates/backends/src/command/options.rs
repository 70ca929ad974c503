//! What a configuration says about a custom command, as it is stored in a run's spec.

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

/// How the command's standard output is interpreted. Pointers are JSON pointers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// All of it is the answer.
    #[default]
    Text,
    /// One document.
    Json(Document),
    /// One event per line.
    Jsonl {
        /// If all match, the event is the last one that counts.
        terminal: Vec<Match>,
        #[serde(flatten)]
        document: Document,
        /// Where other events have a piece of text.
        text: Option<String>,
    },
}

/// Where the document or event that ends a run has its parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    pub result: String,
    /// If all match, it reports a failure.
    #[serde(default)]
    pub error: Vec<Match>,
    #[serde(default)]
    pub session: Option<String>,
}

/// A value that must be at a JSON pointer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Match {
    pub pointer: String,
    pub value: serde_json::Value,
}

/// A custom command, as the configuration's reader wrote it into the run's spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Options {
    pub command: Vec<String>,
    #[serde(default)]
    pub prompt: PromptBy,
    #[serde(default)]
    pub output: Output,
    #[serde(default)]
    pub env: Vec<String>,
    #[serde(default = "only_zero")]
    pub success_codes: Vec<i32>,
    /// Exit codes that say that the model has no capacity now.
    #[serde(default)]
    pub shortage_codes: Vec<i32>,
}

fn only_zero() -> Vec<i32> {
    vec![0]
}

/// Returns whether the command writes text for people.
pub(super) fn writes_text(options: &serde_json::Value) -> bool {
    let read = serde_json::from_value::<Options>(options.clone());
    read.is_ok_and(|options| options.output == Output::Text)
}
