//! What is known about the clients that can be set up: where each keeps its servers, and all that it needs beside them.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::clients::{claude, codex, copilot, cursor, gemini, kiro, opencode, qwen, vscode};
use super::edit::{Entry, Syntax};

/// The name by which clients know the server; tools are called by it, so it is short.
pub(crate) const SERVER: &str = "volery";
/// How long a client shall wait for a call. The server answers sooner, with what is there so far.
pub(crate) const PATIENCE_S: u64 = 600;

/// Whose configuration is meant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    #[default]
    Project,
    User,
}

/// Where clients look.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    pub(crate) project: PathBuf,
    pub(crate) home: PathBuf,
    /// The folders that variables move; without them they are below the home.
    pub(crate) claude_config: Option<PathBuf>,
    pub(crate) codex_home: Option<PathBuf>,
    pub(crate) copilot_home: Option<PathBuf>,
    pub(crate) config_home: Option<PathBuf>,
}

impl Surroundings {
    /// Returns those of this process.
    pub(crate) fn of_process(project: PathBuf, home: PathBuf) -> Self {
        let directory = crate::env::directory;
        Self {
            project,
            home,
            claude_config: directory(crate::env::CLAUDE_CONFIG_DIR),
            codex_home: directory(crate::env::CODEX_HOME),
            copilot_home: directory(crate::env::COPILOT_HOME),
            config_home: directory(crate::env::XDG_CONFIG_HOME),
        }
    }

    pub(crate) fn config_home(&self) -> PathBuf {
        self.config_home.clone().unwrap_or_else(|| self.home.join(".config"))
    }
}

/// The server as a client shall start it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) command: String,
    pub(crate) arguments: Vec<String>,
    /// Variables that it needs: some clients hand on hardly any of their own.
    pub(crate) env: Vec<(String, String)>,
}

impl Server {
    /// Adds the variables to a client's entry, below the key by which it knows them.
    pub(super) fn with_env(&self, key: &str, mut entry: Value) -> Value {
        if !self.env.is_empty() {
            let env = self.env.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
            entry[key] = Value::Object(env.collect());
        }
        entry
    }
}

/// What shall stand in one file.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) path: PathBuf,
    pub(crate) scope: Scope,
    pub(crate) syntax: Syntax,
    pub(crate) entries: Vec<Entry>,
}

impl Wish {
    pub(super) fn json(path: PathBuf, scope: Scope, entries: Vec<Entry>) -> Self {
        Self { path, scope, syntax: Syntax::Json, entries }
    }
}

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) name: &'static str,
    /// Its programs on the search path.
    pub(crate) programs: &'static [&'static str],
    /// What shows in a project that somebody uses it there.
    pub(crate) marks: &'static [&'static str],
    /// The same, in the user's home.
    pub(crate) home_marks: &'static [&'static str],
    /// Returns all that it needs.
    pub(crate) wishes: fn(&Surroundings, Scope, &Server) -> Vec<Wish>,
    /// What is left for people to do or to know.
    pub(crate) note: Option<&'static str>,
}

/// Every client, in the order in which they are listed.
pub(crate) const CLIENTS: [&Client; 9] = [
    &claude::CLIENT,
    &codex::CLIENT,
    &cursor::CLIENT,
    &vscode::CLIENT,
    &gemini::CLIENT,
    &copilot::CLIENT,
    &opencode::CLIENT,
    &qwen::CLIENT,
    &kiro::CLIENT,
];

/// Returns the client of this name.
pub(crate) fn named(name: &str) -> Option<&'static Client> {
    CLIENTS.into_iter().find(|client| client.name == name)
}

/// Returns the first of several files that exists, else the first.
pub(super) fn existing(candidates: [PathBuf; 2]) -> PathBuf {
    let [first, second] = candidates;
    let present = |path: &Path| path.symlink_metadata().is_ok();
    if !present(&first) && present(&second) { second } else { first }
}
