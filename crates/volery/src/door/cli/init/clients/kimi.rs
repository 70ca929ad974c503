//! Kimi Code: `mcp.json` of its own. What it writes is tried with the real program.

use serde_json::json;

use super::super::client::{Client, Levels, PATIENCE_S, SERVER, Scope, Server, Surroundings, Wish};
use super::super::edit::Entry;

pub(crate) const CLIENT: Client = Client {
    name: "kimi",
    programs: &["kimi"],
    marks: &[".kimi-code"],
    home_marks: &[".kimi-code"],
    levels: Levels::ProjectAndUser,
    wishes,
    note: None,
    project_note: Some("Kimi Code reads a project's .kimi-code/mcp.json once you trust the folder"),
};

fn wishes(surroundings: &Surroundings, scope: Scope, server: &Server) -> Vec<Wish> {
    let folder = match scope {
        Scope::Project => surroundings.project.join(".kimi-code"),
        Scope::User => surroundings.kimi_home.clone().unwrap_or_else(|| surroundings.home.join(".kimi-code")),
    };
    let entry = json!({
        "command": server.command,
        "args": server.arguments,
        "toolTimeoutMs": PATIENCE_S * 1000,
    });
    let entries = vec![Entry::key(&["mcpServers", SERVER], server.with_env("env", entry))];
    vec![Wish::json(folder.join("mcp.json"), scope, entries)]
}
