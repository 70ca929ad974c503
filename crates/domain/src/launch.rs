//! How the start of a vendor's program differs from the default. The user who starts the server sets this, never an
//! agent file. It is part of the options of the run's backend.

use serde::{Deserialize, Serialize};

/// The differences from a default start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaunchOverrides {
    /// The program, by name or path, instead of the vendor's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// A folder with one subfolder per conversation. The program works in the subfolder, and finds its conversation
    /// by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// The program starts the agent by its name, without a copy of its file.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_name: bool,
}

/// The container that the program runs in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// The path of the container command: docker, or one with the same arguments.
    pub engine: String,
    pub image: String,
    /// The directory with the program's login on this machine.
    pub login: String,
    /// The directory with its user's settings and agents.
    pub settings: String,
}

impl LaunchOverrides {
    /// Parses the overrides from the options of a backend. Options of another kind give the default.
    pub fn from_options(options: &serde_json::Value) -> Self {
        serde_json::from_value(options.clone()).unwrap_or_default()
    }

    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
