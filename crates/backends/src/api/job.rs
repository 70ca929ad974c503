//! The job that the process which calls a model reads from standard input. Holds names of secrets, never values.

use serde::{Deserialize, Serialize};

use super::providers::ProviderQuirks;
use super::wire::Wire;

/// One request to a model, and where it goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Job {
    /// The service's name, for messages.
    pub(super) service: String,
    pub(super) wire: Wire,
    #[serde(rename = "habits")]
    pub(super) quirks: ProviderQuirks,
    pub(super) address: String,
    /// A variable that holds another address, if it is set.
    pub(super) address_variable: Option<String>,
    /// The variables that may hold the key; the first that is set wins.
    pub(super) keys: Vec<String>,
    #[serde(rename = "question")]
    pub(super) request: ModelRequest,
    /// How long the whole run may take.
    pub(super) timeout_ms: u64,
    /// How often a service without capacity is retried.
    pub(super) retries: u32,
}

/// The content of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ModelRequest {
    pub(super) model: String,
    pub(super) system: String,
    pub(super) prompt: String,
    pub(super) temperature: Option<f64>,
    pub(super) max_tokens: Option<u32>,
}
