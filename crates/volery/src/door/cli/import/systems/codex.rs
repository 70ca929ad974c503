//! `codex mcp-server`, which Codex itself has dropped: two tools, no files of its own.

use super::super::entry::ServerEntry;
use super::super::system::{System, no_sessions, not_honoured, nothing};

const SET_IN_FILE: &str = "the server takes no settings of Codex: put it into Codex' config.toml";

pub(crate) const SYSTEM: System = System {
    name: "codex",
    program: "codex",
    is,
    left_files: |_| false,
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
    refused: nothing,
    note: Some("the sandbox is read-only unless a call says otherwise"),
};

/// The program, by whichever launcher, and behind it the command that made it a server: today's name, or the older one.
fn is(entry: &ServerEntry) -> bool {
    let is_codex = |word: &String| {
        let name = word.rsplit('/').next().unwrap_or(word);
        name == "codex" || name == "codex.js" || word.starts_with("@openai/codex")
    };
    let Some(program) = entry.words.iter().position(is_codex) else { return false };
    let behind = &entry.words[program + 1..];
    behind.iter().any(|word| word == "mcp-server") || behind.last().is_some_and(|word| word == "mcp")
}
