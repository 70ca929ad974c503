//! Copilot CLI: one file, for every project.

use serde_json::json;

use super::super::client::{Client, Levels, PATIENCE_S, SERVER, Scope, Server, Surroundings, Wish};
use super::super::edit::Entry;

pub(crate) const CLIENT: Client = Client {
    name: "copilot",
    programs: &["copilot"],
    marks: &[".github/agents", ".github/copilot-instructions.md"],
    home_marks: &[".copilot"],
    levels: Levels::UserOnly,
    wishes,
    note: Some("Copilot CLI asks before it calls a tool; --allow-tool=volery answers for all of them"),
    project_note: None,
};

fn wishes(surroundings: &Surroundings, _scope: Scope, server: &Server) -> Vec<Wish> {
    let folder = surroundings.copilot_home.clone().unwrap_or_else(|| surroundings.home.join(".copilot"));
    let entry = json!({
        "type": "local",
        "command": server.command,
        "args": server.arguments,
        "tools": ["*"],
        "timeout": PATIENCE_S * 1000,
    });
    let entries = vec![Entry::key(&["mcpServers", SERVER], server.with_env("env", entry))];
    vec![Wish::json(folder.join("mcp-config.json"), Scope::User, entries)]
}
