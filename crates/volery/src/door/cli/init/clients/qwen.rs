//! Qwen Code: the server in its settings, trusted, with a time-out.

use serde_json::json;

use super::super::client::{Client, Levels, PATIENCE_S, SERVER, Scope, Server, Surroundings, Wish};
use super::super::edit::Entry;

pub(crate) const CLIENT: Client = Client {
    name: "qwen",
    programs: &["qwen"],
    marks: &[".qwen", "QWEN.md"],
    home_marks: &[".qwen"],
    levels: Levels::ProjectAndUser,
    wishes,
    note: None,
    project_note: Some("Qwen Code starts a project's server once you agree there: qwen mcp approve volery"),
};

fn wishes(surroundings: &Surroundings, scope: Scope, server: &Server) -> Vec<Wish> {
    let path = match scope {
        Scope::Project => surroundings.project.join(".qwen/settings.json"),
        Scope::User => surroundings.home.join(".qwen/settings.json"),
    };
    let entry = json!({
        "command": server.command,
        "args": server.arguments,
        "timeout": PATIENCE_S * 1000,
        // Its calls are not asked about; where nobody can be asked, they would be declined.
        "trust": true,
    });
    vec![Wish::json(path, scope, vec![Entry::key(&["mcpServers", SERVER], server.with_env("env", entry))])]
}
