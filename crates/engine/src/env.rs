//! Every environment variable that is read or set, and what it means. Nothing else reads the environment.
//!
//! `CURSOR_AGENT_BIN` and `GROK_BIN` say where those programs are, instead of the search path (`backends::program`).
//! `VOLERY_RUN_TAG` is set for every process of a run, by `process`: the run's tag, never trusted on its
//! own. A door refuses to work where it contradicts the limit that marks the processes of a run.

use std::ffi::OsString;
use std::path::PathBuf;

/// Where the state is kept. Default: `$XDG_STATE_HOME/volery`, else `~/.local/state/volery`.
pub const VOLERY_HOME: &str = "VOLERY_HOME";
/// Where the user's configuration is. Default: `$XDG_CONFIG_HOME/volery`, else `~/.config/volery`.
pub const VOLERY_CONFIG_HOME: &str = "VOLERY_CONFIG_HOME";
/// How many root runs may run at once; overrides `[slots] count` of every file.
pub const VOLERY_SLOTS: &str = "VOLERY_SLOTS";
/// Debug builds only: a directory by which tests hold a process at a named point of a run (see `failpoint.rs`).
#[cfg(debug_assertions)]
pub const VOLERY_TEST_POINTS: &str = "VOLERY_TEST_POINTS";
/// Debug builds only: if set, no control group is made, as on a machine that offers none. Tests use it to see what
/// the other means enforce.
#[cfg(debug_assertions)]
pub const VOLERY_TEST_WITHOUT_CGROUP: &str = "VOLERY_TEST_WITHOUT_CGROUP";

/// Where sub-agents-mcp finds its agents: plain files, each of them a system prompt.
pub const AGENTS_DIR: &str = "AGENTS_DIR";
/// Where the sibling of sub-agents-mcp finds its agents, in addition to a project's `.agents`.
pub const SUB_AGENTS_DIR: &str = "SUB_AGENTS_DIR";
/// Which backend runs a plain file, or one that names none. Default: `cursor`, as in sub-agents-mcp.
pub const AGENT_TYPE: &str = "AGENT_TYPE";
/// The model of such an agent.
pub const AGENT_MODEL: &str = "AGENT_MODEL";
/// The effort of such an agent.
pub const AGENT_EFFORT: &str = "AGENT_EFFORT";
/// What such an agent may do: `read-only`, `safe-edit` or `yolo`.
pub const AGENT_PERMISSION: &str = "AGENT_PERMISSION";
/// The key of a service that is not the program's own. `AGENT_TYPE=kimi` with it means Claude Code with Kimi's service, as in
/// sub-agents-mcp.
pub const CLI_API_KEY: &str = "CLI_API_KEY";
/// The dialect of sub-agents-mcp: how long a run may take, in milliseconds. Default: 300000.
pub const EXECUTION_TIMEOUT_MS: &str = "EXECUTION_TIMEOUT_MS";
/// The same: `true` if callers may name sessions and continue them.
pub const SESSION_ENABLED: &str = "SESSION_ENABLED";
/// The same: where sub-agents-mcp has stored its sessions, which Volery continues. Default: `.mcp-sessions`.
pub const SESSION_DIR: &str = "SESSION_DIR";
/// The same: how many days a session is stored after its last use. Default: 1.
pub const SESSION_RETENTION_DAYS: &str = "SESSION_RETENTION_DAYS";
/// The same: settings that the agent's program uses instead of its user's.
pub const AGENTS_SETTINGS_PATH: &str = "AGENTS_SETTINGS_PATH";
/// The same: the log level on stderr: `debug`, `info`, `warn` or `error`. Default: `info`.
pub const LOG_LEVEL: &str = "LOG_LEVEL";
/// The same: the name of the server.
pub const SERVER_NAME: &str = "SERVER_NAME";
/// The home of Jarvis, whose `agents/NAME/agent.md` count for every project.
pub const JARVIS_HOME: &str = "JARVIS_HOME";
/// The dialect of PowerSpawn: the version whose tools the server has, such as `1.6.2` or `1.8.1`. Default: that of the
/// PowerSpawn in the project, else 1.6.
pub const POWERSPAWN_VERSION: &str = "POWERSPAWN_VERSION";
/// The dialect of PowerSpawn: set to anything, `AGENTS.md` is not put before the tasks of Claude and Grok.
pub const POWERSPAWN_NO_AGENTS_CONTEXT: &str = "POWERSPAWN_NO_AGENTS_CONTEXT";
/// Where Claude Code keeps the user's agents. Default: `~/.claude`.
pub const CLAUDE_CONFIG_DIR: &str = "CLAUDE_CONFIG_DIR";
/// Where Codex keeps the user's settings and agents. Default: `~/.codex`.
pub const CODEX_HOME: &str = "CODEX_HOME";
/// Where configuration is, opencode's included. Default: `~/.config`.
pub const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";

/// Set to anything: no colours (no-color.org).
pub const NO_COLOR: &str = "NO_COLOR";
/// The kind of terminal; `dumb` or nothing means that lines cannot be redrawn.
pub const TERM: &str = "TERM";
/// Set to anything but the empty value or `false`: no person is there to answer questions, as on build machines.
pub const CI: &str = "CI";
/// Who answers a question, for the record.
pub const USER: &str = "USER";

/// Variables that every agent gets, in addition to those that begin with one of [`BASE_PREFIXES`].
pub const BASE: [&str; 23] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TZ",
    "TMPDIR",
    "TERM",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    VOLERY_HOME,
];
pub const BASE_PREFIXES: [&str; 2] = ["LC_", "XDG_"];
/// The prefix of Volery's own variables.
const OWN_PREFIX: &str = "VOLERY_";

/// Returns whether every agent gets this variable.
pub fn is_base(name: &str) -> bool {
    BASE.contains(&name) || BASE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns a variable that is set and not empty.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn get(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns a variable whose value is valid UTF-8.
pub fn text(name: &str) -> Option<String> {
    get(name).and_then(|value| value.into_string().ok())
}

/// Returns a value without the blanks around it; `None` if nothing else is left.
pub fn trimmed(value: Option<String>) -> Option<String> {
    value.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// Returns a variable that names a directory by an absolute path.
pub fn directory(name: &str) -> Option<PathBuf> {
    get(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

pub fn home() -> Option<PathBuf> {
    directory("HOME")
}

/// Returns the user's home as text, for paths that people read.
pub fn home_text() -> Option<&'static str> {
    static HOME: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    HOME.get_or_init(|| home()?.to_str().map(|home| home.trim_end_matches('/').to_owned())).as_deref()
}

/// Returns the directory of the user's Codex settings.
pub fn codex_home() -> Option<PathBuf> {
    directory(CODEX_HOME).or_else(|| home().map(|path| path.join(".codex")))
}

/// Returns the state directory, if the environment names one or a home.
pub fn state_home() -> Option<PathBuf> {
    // A relative path would mean another directory for every caller, and the default is not what the user asked for.
    if get(VOLERY_HOME).is_some_and(|path| PathBuf::from(path).is_relative()) {
        return None;
    }
    from_xdg(VOLERY_HOME, "XDG_STATE_HOME", ".local/state")
}

/// Returns the directory for the work trees of runs. It is never within the state, which no agent may touch.
pub fn worktrees_home() -> Option<PathBuf> {
    let data = directory("XDG_DATA_HOME").or_else(|| home().map(|path| path.join(".local/share")));
    data.map(|path| path.join("volery-worktrees"))
}

pub fn config_home() -> Option<PathBuf> {
    from_xdg(VOLERY_CONFIG_HOME, XDG_CONFIG_HOME, ".config")
}

fn from_xdg(own: &str, xdg: &str, below_home: &str) -> Option<PathBuf> {
    // The XDG rules ignore relative paths; a relative value of Volery's own variable would depend on the caller.
    directory(own)
        .or_else(|| directory(xdg).map(|path| path.join("volery")))
        .or_else(|| home().map(|path| path.join(below_home).join("volery")))
}

/// Returns the environment of a command that makes containers.
pub fn for_containers() -> Vec<(OsString, OsString)> {
    let names: Vec<String> = backends::container::VARIABLES.iter().map(|name| (*name).to_owned()).collect();
    for_agent(&names)
}

/// Returns the names of all variables that are set, without Volery's own: agents of a dialect get these where its
/// system gives them the server's environment.
pub fn inherited() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter(|name| !name.starts_with(OWN_PREFIX)).collect()
}

/// Returns the environment of an agent: the base list and these variables, as far as they are set.
pub fn for_agent(extra: &[String]) -> Vec<(OsString, OsString)> {
    let is_passed = |name: &str| {
        BASE.contains(&name)
            || BASE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            || extra.iter().any(|known| known == name)
    };
    std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_passed)).collect()
}
