//! `codex mcp-server`, which Codex has removed: two tools, no files.

use super::super::server_entry::ServerEntry;
use super::super::system::{System, no_sessions, not_honoured, nothing};

const SET_IN_FILE: &str = "the server takes no settings of Codex: put it into Codex' config.toml";

pub(crate) const SYSTEM: System = System {
    name: "codex",
    program: "codex",
    matches_entry,
    has_files: |_| false,
    tools: &["codex", "codex-reply"],
    backends: &["codex"],
    variables: &[],
    flags: &[
        not_honoured("c", SET_IN_FILE),
        not_honoured("config", SET_IN_FILE),
        not_honoured("p", SET_IN_FILE),
        not_honoured("profile", SET_IN_FILE),
        not_honoured("m", "each call may name a model"),
        not_honoured("model", "each call may name a model"),
    ],
    folders: nothing,
    sessions: no_sessions,
    set_env: nothing,
    startup_problems: nothing,
    note: Some("the sandbox is read-only unless a call says otherwise"),
};

/// Matches the program with any launcher, followed by the subcommand of the server: the current name or the older one.
fn matches_entry(entry: &ServerEntry) -> bool {
    let is_codex = |argument: &String| {
        let name = argument.rsplit('/').next().unwrap_or(argument);
        name == "codex" || name == "codex.js" || argument.starts_with("@openai/codex")
    };
    let Some(program) = entry.command_line.iter().position(is_codex) else { return false };
    let behind = &entry.command_line[program + 1..];
    behind.iter().any(|argument| argument == "mcp-server")
        || behind.last().is_some_and(|argument| argument == "mcp")
}
