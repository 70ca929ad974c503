//! How a vendor's program is started, where that is not as usual: whoever starts the server says so, never an agent's
//! file. Stands in the options of the run's backend.

use serde::{Deserialize, Serialize};

/// What is unusual about a start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Launch {
    /// The program, by name or path, instead of the vendor's own name for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// A folder that holds one for each conversation: the program works there, and finds its conversation by that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// The agent is started by the name that the program knows it by: it gets no copy of its file.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_name: bool,
}

/// The container that the program runs in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// The path of the command that makes containers: docker, or one that takes the same arguments.
    pub engine: String,
    pub image: String,
    /// Where the program keeps its login on this machine.
    pub login: String,
    /// Where it keeps its user's settings and agents.
    pub settings: String,
}

impl Launch {
    /// Reads it from the options of a backend; those of another kind say nothing about it.
    pub fn of(options: &serde_json::Value) -> Self {
        serde_json::from_value(options.clone()).unwrap_or_default()
    }

    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}
