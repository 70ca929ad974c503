//! What is known about the clients that can be set up: where each keeps its servers, and all that it needs beside them.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::clients::{
    claude, claude_desktop, cline, codex, copilot, cursor, gemini, goose, kimi, kiro, opencode, qwen, vscode,
    windsurf, zed,
};
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

impl Scope {
    /// Tells whether what has this scope counts where the other is meant: what is the user's counts everywhere.
    pub(crate) fn is_within(self, meant: Self) -> bool {
        self == Self::User || meant == Self::Project
    }
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
    pub(crate) kimi_home: Option<PathBuf>,
    /// The folder that holds everything of goose's.
    pub(crate) goose_root: Option<PathBuf>,
    /// Where applications with a window keep their files differs there.
    pub(crate) macos: bool,
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
            kimi_home: directory(crate::env::KIMI_CODE_HOME),
            goose_root: directory(crate::env::GOOSE_PATH_ROOT),
            macos: cfg!(target_os = "macos"),
        }
    }

    pub(crate) fn config_home(&self) -> PathBuf {
        self.config_home.clone().unwrap_or_else(|| self.home.join(".config"))
    }

    /// Returns where applications with a window keep their files.
    pub(crate) fn application_data(&self) -> PathBuf {
        if self.macos { self.home.join("Library/Application Support") } else { self.config_home() }
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
    /// The file belongs to a project, and people commit it.
    pub(crate) shared: bool,
}

impl Wish {
    pub(crate) fn new(path: PathBuf, scope: Scope, syntax: Syntax, entries: Vec<Entry>) -> Self {
        Self { path, scope, syntax, entries, shared: scope == Scope::Project }
    }

    pub(super) fn json(path: PathBuf, scope: Scope, entries: Vec<Entry>) -> Self {
        Self::new(path, scope, Syntax::Json, entries)
    }

    /// The file stays on this machine, though it belongs to a project.
    pub(super) fn private(self) -> Self {
        Self { shared: false, ..self }
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
    pub(crate) levels: Levels,
    /// Returns all that it needs. A client with one level ignores the scope.
    pub(crate) wishes: fn(&Surroundings, Scope, &Server) -> Vec<Wish>,
    /// What is left for people to do or to know.
    pub(crate) note: Option<&'static str>,
    /// The same, only where it is set up for a project.
    pub(crate) project_note: Option<&'static str>,
}

/// For what a client can be configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Levels {
    ProjectAndUser,
    /// It has no configuration for one project.
    UserOnly,
}

impl Client {
    /// Tells whether it can be configured for this.
    pub(super) fn fits(&self, scope: Scope) -> bool {
        scope == Scope::User || self.levels == Levels::ProjectAndUser
    }

    /// Says that it cannot be configured for one project, and what to type instead.
    pub(super) fn only_for_users(&self) -> String {
        let name = self.name;
        format!(
            "{name} has no configuration for one project; for all of them: volery init --client {name} --user"
        )
    }

    /// Returns what people have to do or to know in this scope.
    pub(super) fn notes(&self, scope: Scope) -> impl Iterator<Item = String> {
        let of_project = self.project_note.filter(|_| scope == Scope::Project);
        self.note.into_iter().chain(of_project).map(str::to_owned)
    }
}

/// Every client, in the order in which they are listed.
pub(crate) const CLIENTS: [&Client; 15] = [
    &claude::CLIENT,
    &codex::CLIENT,
    &cursor::CLIENT,
    &vscode::CLIENT,
    &gemini::CLIENT,
    &copilot::CLIENT,
    &opencode::CLIENT,
    &qwen::CLIENT,
    &kiro::CLIENT,
    &kimi::CLIENT,
    &goose::CLIENT,
    &zed::CLIENT,
    &cline::CLIENT,
    &windsurf::CLIENT,
    &claude_desktop::CLIENT,
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
