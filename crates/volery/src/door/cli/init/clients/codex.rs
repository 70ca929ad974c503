//! Codex: a table of `config.toml`, with its approval and its time-out.

use serde_json::json;

use super::super::client::{Client, Levels, PATIENCE_S, SERVER, Scope, Server, Surroundings, Wish};
use super::super::edit::{Entry, Syntax};

pub(crate) const CLIENT: Client = Client {
    name: "codex",
    programs: &["codex"],
    marks: &[".codex"],
    home_marks: &[".codex"],
    levels: Levels::ProjectAndUser,
    wishes,
    note: None,
    project_note: Some(
        "Codex reads a project's .codex/config.toml once you have opened it there and trusted the folder",
    ),
};

fn wishes(surroundings: &Surroundings, scope: Scope, server: &Server) -> Vec<Wish> {
    let folder = match scope {
        Scope::Project => surroundings.project.join(".codex"),
        Scope::User => surroundings.codex_home.clone().unwrap_or_else(|| surroundings.home.join(".codex")),
    };
    let entry = json!({
        "command": server.command,
        "args": server.arguments,
        // Without it `codex exec` refuses every call: there is nobody to approve one.
        "default_tools_approval_mode": "approve",
        "tool_timeout_sec": PATIENCE_S,
    });
    let entries = vec![Entry::key(&["mcp_servers", SERVER], server.with_env("env", entry))];
    vec![Wish::new(folder.join("config.toml"), scope, Syntax::Toml, entries)]
}
