//! The settings of an agent other than prompt, model and limits. The definition passes them on to the run's spec,
//! where the backend reads them. Every setting has a default.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::id::BackendName;
use crate::inherit::Inherited;
use crate::mcp_server::McpServer;
use crate::permission::{Permission, Unenforceable};

/// The settings for a backend. Contains names of secrets, never values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Setup {
    /// The reasoning effort, in the vendor's spelling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The sampling temperature. `None`: the vendor's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Temperature>,
    #[serde(skip_serializing_if = "Permission::is_empty")]
    pub permission: Permission,
    pub unenforceable: Unenforceable,
    /// The only tools of the agent, in the vendor's spelling; `None`: all. An empty list: none.
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
    /// Commands, each a program and its arguments, that must succeed after the agent before the run counts as a
    /// success.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accept: Vec<Vec<String>>,
    /// A run that names no session continues the agent's last one in its directory.
    pub keeps_session: bool,
    /// Arguments for the backend's program; a backend accepts only those that it knows to be safe.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra_args: Vec<String>,
    /// Settings that the backend's program uses instead of its user's: a file or a folder, depending on the vendor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor_settings: Option<String>,
    /// Directories that the agent may use in addition to its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra_directories: Vec<String>,
    /// Alternatives when a quota or a rate limit ends an attempt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<Fallback>,
    pub isolation: Isolation,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// The name by which the vendor's program finds the agent in its own file. The program reads the file itself and
    /// gets only the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor_agent: Option<String>,
    /// The agent's file without its servers, for a program that would find more in the original than the agent may
    /// have: the program gets this copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor_file: Option<serde_json::Map<String, serde_json::Value>>,
    /// The agent answers by writing a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_file: Option<ResponseFile>,
    /// A JSON file with keys by the names of their variables; it has priority over the environment. Only for agents
    /// that Volery defines itself; agent files cannot set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<String>,
    /// The agent may not write files, and answers with the tool `submit_result`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submit_result: Option<SubmitResult>,
    /// Whether a run is retried once after a time-out or a crash of its program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The items that the agent inherits from its user, as in the system of its dialect. Only for agents that Volery
    /// defines itself; agent files cannot set it.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub inherit: BTreeSet<Inherited>,
}

impl Setup {
    /// Returns whether the answer must be a JSON value.
    pub fn requires_structured_output(&self) -> bool {
        self.output_format == OutputFormat::Json || self.output_schema.is_some()
    }

    /// Returns the permission, and those of fallbacks that have one of their own.
    pub fn permissions_mut(&mut self) -> impl Iterator<Item = &mut Permission> {
        let others = self.fallback.iter_mut().filter_map(|fallback| fallback.settings.as_mut());
        std::iter::once(&mut self.permission).chain(others.map(|settings| &mut settings.permission))
    }

    /// Replaces the copy that the agent's program gets of the agent's file.
    pub fn replace_vendor_file(&mut self, copy: serde_json::Map<String, serde_json::Value>) {
        match &mut self.submit_result {
            Some(submit) => submit.vendor_file = copy,
            None => self.vendor_file = Some(copy),
        }
    }

    /// Returns whether the agent inherits this item from its user.
    pub fn inherits(&self, item: Inherited) -> bool {
        self.inherit.contains(&item)
    }

    /// Returns the channel of the agent's answer.
    pub fn answer_channel(&self) -> AnswerChannel {
        match (&self.response_file, &self.submit_result) {
            (Some(_), _) => AnswerChannel::File,
            (None, Some(_)) => AnswerChannel::SubmitResult,
            (None, None) => AnswerChannel::Output,
        }
    }
}

/// A sampling temperature in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Temperature(pub u32);

impl Temperature {
    /// Returns the temperature as vendors write it.
    pub fn degrees(self) -> f64 {
        f64::from(self.0) / 1_000.0
    }
}

/// A retry of a run that was cut short. Each try has the run's full time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    pub after_ms: u64,
}

/// The channel of an agent's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerChannel {
    File,
    SubmitResult,
    Output,
}

/// The data for an answer tool, if the agent's program takes servers only from the agent's own file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitResult {
    /// The agent's file as it is, without its servers, which are in the setup.
    pub vendor_file: serde_json::Map<String, serde_json::Value>,
}

/// The treatment of the program's own system prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptMode {
    /// The agent's prompt follows it.
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

/// An alternative backend or model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallback {
    /// `None`: the agent's own backend with another model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<BackendName>,
    /// `None`: that backend's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The configuration for that backend, where it differs from that of the agent's own. Agent files cannot set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<FallbackSettings>,
}

/// Settings for an agent on another backend than its own.
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
    /// The prompt in the same session if file and output are both empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_template: Option<String>,
}
