//! What the process that asks a model is told on its standard input. Holds names of secrets, never values.

use serde::{Deserialize, Serialize};

use super::providers::Habits;
use super::wire::Wire;

/// One question to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Job {
    /// The service's name, for messages.
    pub(super) service: String,
    pub(super) wire: Wire,
    pub(super) habits: Habits,
    pub(super) address: String,
    /// A variable that holds another address, if it is set.
    pub(super) address_variable: Option<String>,
    /// The variables that may hold the key; the first that is set counts.
    pub(super) keys: Vec<String>,
    pub(super) question: Question,
    /// How long the whole run may take.
    pub(super) timeout_ms: u64,
    /// How often a service that has no room is asked again.
    pub(super) retries: u32,
}

/// What the model is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Question {
    pub(super) model: String,
    pub(super) system: String,
    pub(super) prompt: String,
    pub(super) temperature: Option<f64>,
    pub(super) max_tokens: Option<u32>,
}
