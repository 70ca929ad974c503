//! Kiro: its editor and its command line read the same file.

use serde_json::json;

use super::super::client::{Client, Levels, SERVER, Scope, Server, Surroundings, Wish};
use super::super::edit::Entry;

pub(crate) const CLIENT: Client = Client {
    name: "kiro",
    programs: &["kiro-cli", "kiro"],
    marks: &[".kiro"],
    home_marks: &[".kiro"],
    levels: Levels::ProjectAndUser,
    wishes,
    note: None,
    project_note: None,
};

fn wishes(surroundings: &Surroundings, scope: Scope, server: &Server) -> Vec<Wish> {
    let path = match scope {
        Scope::Project => surroundings.project.join(".kiro/settings/mcp.json"),
        Scope::User => surroundings.home.join(".kiro/settings/mcp.json"),
    };
    let entry = json!({"command": server.command, "args": server.arguments});
    vec![Wish::json(path, scope, vec![Entry::key(&["mcpServers", SERVER], server.with_env("env", entry))])]
}
