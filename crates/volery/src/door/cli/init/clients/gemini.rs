//! Gemini CLI: the server in its settings, trusted, with a time-out.

use serde_json::json;

use super::super::client::{Client, Levels, PATIENCE_S, SERVER, Scope, Server, Surroundings, Wish};
use super::super::edit::Entry;

pub(crate) const CLIENT: Client = Client {
    name: "gemini",
    programs: &["gemini"],
    marks: &[".gemini", "GEMINI.md"],
    home_marks: &[".gemini"],
    levels: Levels::ProjectAndUser,
    wishes,
    note: None,
    project_note: Some("Gemini CLI reads a project's settings in a trusted folder only"),
};

fn wishes(surroundings: &Surroundings, scope: Scope, server: &Server) -> Vec<Wish> {
    let path = match scope {
        Scope::Project => surroundings.project.join(".gemini/settings.json"),
        Scope::User => surroundings.home.join(".gemini/settings.json"),
    };
    let entry = json!({
        "command": server.command,
        "args": server.arguments,
        "timeout": PATIENCE_S * 1000,
        // Its calls are not asked about; where nobody can be asked, its tools would not even be offered.
        "trust": true,
    });
    vec![Wish::json(path, scope, vec![Entry::key(&["mcpServers", SERVER], server.with_env("env", entry))])]
}
