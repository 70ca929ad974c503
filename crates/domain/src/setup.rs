//! How an agent wants to be driven: what its file says beyond prompt, model and limits. Travels whole from the
//! definition into the run's spec, where the backend reads it. Everything has a default.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::id::BackendName;
use crate::inherit::Inherited;
use crate::mcp_server::McpServer;
use crate::permission::{Permission, Unenforceable};

/// What a backend is asked for. Holds names of secrets, never values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Setup {
    /// How hard the model shall think, in its vendor's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// How freely the model chooses its words. `None`: as its vendor thinks best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Temperature>,
    #[serde(skip_serializing_if = "Permission::is_empty")]
    pub permission: Permission,
    pub unenforceable: Unenforceable,
    /// The only tools that the agent has, in its vendor's words; `None`: all. An empty list: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    pub prompt_mode: PromptMode,
    pub context: Context,
    /// The only MCP servers that the agent gets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<McpServer>,
    pub output_format: OutputFormat,
    /// A JSON schema that the answer must satisfy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<serde_json::Value>,
    /// Commands that must succeed after the agent did, each a program and its arguments: only then its success counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accept: Vec<Vec<String>>,
    /// A run that names no session continues the agent's last one in its directory.
    pub keeps_session: bool,
    /// Arguments for the backend's program; a backend takes only those that it knows to be harmless.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra_args: Vec<String>,
    /// Settings that the backend's program uses instead of its user's: a file or a folder, as the vendor has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor_settings: Option<String>,
    /// Directories that the agent may use beside its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra_directories: Vec<String>,
    /// What to try next when quota or rate limit end an attempt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<Fallback>,
    pub isolation: Isolation,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// The name by which the vendor's program knows the agent from its own file: whatever stands there, it reads
    /// by itself, and it is only told the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor_agent: Option<String>,
    /// The agent's file as it is, without its servers, where its program would find more there than the agent shall have:
    /// it gets a copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor_file: Option<serde_json::Map<String, serde_json::Value>>,
    /// The agent answers by writing a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_file: Option<ResponseFile>,
    /// A JSON file that holds keys by the names of their variables, and comes before the environment. For agents that a
    /// door defines; no agent's file can name one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<String>,
    /// The agent may not write files, and answers by a tool of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submit_result: Option<SubmitResult>,
    /// Whether a run is tried once more whose time was up or whose program broke.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// What the agent gets from its user, as the system of its dialect gives it. For agents that a door defines; no agent's
    /// file can set it.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub inherit: BTreeSet<Inherited>,
}

impl Setup {
    /// Tells whether the answer must be a value.
    pub fn wants_value(&self) -> bool {
        self.output_format == OutputFormat::Json || self.output_schema.is_some()
    }

    /// Returns the permission, and those of fallbacks that have one of their own.
    pub fn permissions_mut(&mut self) -> impl Iterator<Item = &mut Permission> {
        let others = self.fallback.iter_mut().filter_map(|fallback| fallback.settings.as_mut());
        std::iter::once(&mut self.permission).chain(others.map(|settings| &mut settings.permission))
    }

    /// Tells whether the agent gets this from its user.
    pub fn inherits(&self, item: Inherited) -> bool {
        self.inherit.contains(&item)
    }

    /// Says how the agent answers.
    pub fn answers(&self) -> AnswersBy {
        match (&self.response_file, &self.submit_result) {
            (Some(_), _) => AnswersBy::File,
            (None, Some(_)) => AnswersBy::SubmitResult,
            (None, None) => AnswersBy::Output,
        }
    }
}

/// How freely a model chooses its words, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Temperature(pub u32);

impl Temperature {
    /// Returns it as the vendors write it.
    pub fn degrees(self) -> f64 {
        f64::from(self.0) / 1_000.0
    }
}

/// A second try of a run that was cut short. Each has the run's whole time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    pub after_ms: u64,
}

/// Where an agent's answer comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswersBy {
    File,
    SubmitResult,
    Output,
}

/// What is needed to give an agent a tool for its answer, if its program takes servers only from the agent's own file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitResult {
    /// The agent's file as it is, without its servers, which are in the setup.
    pub vendor_file: serde_json::Map<String, serde_json::Value>,
}

/// What becomes of the system prompt that the agent's program has by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptMode {
    /// Ours comes after it.
    #[default]
    Append,
    Replace,
}

/// Whether the program reads the directory's own instructions (`CLAUDE.md`, `AGENTS.md` and the like).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Context {
    #[default]
    Load,
    None,
}

/// The form of the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    #[default]
    Text,
    Json,
}

/// Whether the run gets a work tree of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    #[default]
    None,
    Worktree,
}

/// Another way to carry out the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallback {
    /// `None`: the agent's own backend with another model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<BackendName>,
    /// `None`: that backend's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What configurations say about that backend, where it differs from what holds for the agent's own. No agent's file can
    /// set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<FallbackSettings>,
}

/// What holds for an agent on another backend than its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FallbackSettings {
    #[serde(skip_serializing_if = "Permission::is_empty")]
    pub permission: Permission,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
}

/// The protocol of an agent that writes its answer into a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseFile {
    /// Put after the prompt, with `{{RESPONSE_FILE}}` and `{{WORKING_DIRECTORY}}` replaced.
    pub template: String,
    /// Asked in the same session if file and output are both empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_template: Option<String>,
}
