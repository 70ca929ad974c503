//! MCP clients as data: where each stores its servers, which other settings it needs, and how long it waits for an
//! answer. The program edits the files and answers in time; a client that is also a vendor's agent has its entry in the
//! vendor's folder, the others are in `clients/`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How much of a result is answered inline, counted in escaped JSON.
pub const RESULT_BYTES: usize = 32 << 10;

/// An MCP client.
pub struct McpClient {
    pub setup: ClientSetup,
    /// By the names with which it introduces itself.
    pub patience: &'static [ClientPatience],
}

/// How long a client waits for an answer, and how much of an answer its model sees. The values were measured or read in
/// the client's code.
#[derive(Debug)]
pub struct ClientPatience {
    /// The beginning of its name, in lower case.
    pub prefix: &'static str,
    /// A call is answered after this time, with the results so far.
    pub wait_s: u64,
    /// The same, for a call with progress notifications.
    pub wait_with_progress_s: u64,
    /// The timeout of the client itself.
    pub limit_s: u64,
    /// Whether a progress notification restarts the client's timeout.
    pub progress_resets_limit: bool,
    pub result_bytes: usize,
    /// Its timeout over HTTP, if that is shorter.
    pub http_limit_s: Option<u64>,
}

impl ClientPatience {
    /// Returns the patience of a client that ignores progress.
    pub const fn new(prefix: &'static str, wait_s: u64, limit_s: u64) -> Self {
        Self {
            prefix,
            wait_s,
            wait_with_progress_s: wait_s,
            limit_s,
            progress_resets_limit: false,
            result_bytes: RESULT_BYTES,
            http_limit_s: None,
        }
    }
}

/// The name of the server in clients. Short, because it is part of the tools' names.
pub const SERVER: &str = "volery";
/// How long a client should wait for a call. The server answers earlier, with what it has so far.
pub const CALL_TIMEOUT_S: u64 = 600;

/// Whose configuration is edited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfigScope {
    #[default]
    Project,
    User,
}

impl ConfigScope {
    /// Returns whether a setting of this scope applies in another: the user's settings apply everywhere.
    pub fn is_within(self, meant: Self) -> bool {
        self == Self::User || meant == Self::Project
    }
}

/// The directories in which clients look for their files.
#[derive(Debug, Clone)]
pub struct ClientEnvironment {
    pub project: PathBuf,
    pub home: PathBuf,
    /// Looks up a variable that names a folder.
    pub variable: fn(&str) -> Option<PathBuf>,
    /// Desktop applications store their files elsewhere on macOS.
    pub macos: bool,
}

impl ClientEnvironment {
    /// Returns the folder that a variable names, otherwise this one below the home.
    pub fn folder(&self, variable: &str, below_home: &str) -> PathBuf {
        (self.variable)(variable).unwrap_or_else(|| self.home.join(below_home))
    }

    pub fn config_home(&self) -> PathBuf {
        self.folder("XDG_CONFIG_HOME", ".config")
    }

    /// Returns where desktop applications store their files.
    pub fn application_data(&self) -> PathBuf {
        if self.macos { self.home.join("Library/Application Support") } else { self.config_home() }
    }
}

/// The syntax of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Syntax {
    /// JSON with optional comments and trailing commas.
    Json,
    Toml,
    Yaml,
}

/// An entry that a file needs in addition to its content.
#[derive(Debug, Clone, PartialEq)]
pub enum ConfigEntry {
    /// A key has this value; a table that is there has at least these members.
    Key { path: Vec<String>, value: Value },
    /// A list has this item among others.
    Item { path: Vec<String>, item: String },
}

impl ConfigEntry {
    pub fn key(path: &[&str], value: Value) -> Self {
        Self::Key { path: owned_path(path), value }
    }

    pub fn item(path: &[&str], item: &str) -> Self {
        Self::Item { path: owned_path(path), item: item.to_owned() }
    }
}

/// How a client starts the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCommand {
    pub command: String,
    pub arguments: Vec<String>,
    /// Environment variables for the server: some clients pass on hardly any of their own.
    pub env: Vec<(String, String)>,
}

impl ServerCommand {
    /// Adds the variables to a client's entry, under the client's own key.
    pub fn with_env(&self, key: &str, mut entry: Value) -> Value {
        if !self.env.is_empty() {
            let env = self.env.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
            entry[key] = Value::Object(env.collect());
        }
        entry
    }
}

/// The entries that one file needs.
#[derive(Debug)]
pub struct DesiredFile {
    pub path: PathBuf,
    pub scope: ConfigScope,
    pub syntax: Syntax,
    pub entries: Vec<ConfigEntry>,
    /// The file belongs to a project and is usually committed.
    pub shared: bool,
}

impl DesiredFile {
    pub fn new(path: PathBuf, scope: ConfigScope, syntax: Syntax, entries: Vec<ConfigEntry>) -> Self {
        Self { path, scope, syntax, entries, shared: scope == ConfigScope::Project }
    }

    pub fn json(path: PathBuf, scope: ConfigScope, entries: Vec<ConfigEntry>) -> Self {
        Self::new(path, scope, Syntax::Json, entries)
    }

    /// Marks a project's file that is not committed.
    pub fn private(self) -> Self {
        Self { shared: false, ..self }
    }
}

/// How to set up one client.
#[derive(Debug)]
pub struct ClientSetup {
    pub name: &'static str,
    /// Its programs on the PATH.
    pub programs: &'static [&'static str],
    /// Files in a project that show that somebody uses the client there.
    pub project_markers: &'static [&'static str],
    /// The same, in the home.
    pub home_markers: &'static [&'static str],
    pub config_levels: ConfigLevels,
    /// Returns the files to edit. A client with one level ignores the scope.
    pub desired_files: fn(&ClientEnvironment, ConfigScope, &ServerCommand) -> Vec<DesiredFile>,
    /// Files of a project that are not written, but whose settings can block the server.
    pub blocking_files: &'static [&'static str],
    /// What the user must do or know.
    pub note: Option<&'static str>,
    /// The same, only for the set-up of a project.
    pub project_note: Option<&'static str>,
}

/// The scopes in which a client can be configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigLevels {
    ProjectAndUser,
    /// No configuration for a single project.
    UserOnly,
}

impl ClientSetup {
    /// Returns whether the client can be configured in this scope.
    pub fn supports(&self, scope: ConfigScope) -> bool {
        scope == ConfigScope::User || self.config_levels == ConfigLevels::ProjectAndUser
    }

    /// Explains that the client has no project configuration, and the command to use instead.
    pub fn user_scope_hint(&self) -> String {
        let name = self.name;
        format!(
            "{name} has no configuration for one project; for all of them: volery init --client {name} --user"
        )
    }

    /// Returns the notes for the user in this scope.
    pub fn notes(&self, scope: ConfigScope) -> impl Iterator<Item = String> {
        let for_project = self.project_note.filter(|_| scope == ConfigScope::Project);
        self.note.into_iter().chain(for_project).map(str::to_owned)
    }
}

/// Returns the first file that exists, else the first one.
pub fn existing(candidates: [PathBuf; 2]) -> PathBuf {
    let [first, second] = candidates;
    let present = |path: &Path| path.symlink_metadata().is_ok();
    if !present(&first) && present(&second) { second } else { first }
}

fn owned_path(path: &[&str]) -> Vec<String> {
    path.iter().map(|&key| key.to_owned()).collect()
}
