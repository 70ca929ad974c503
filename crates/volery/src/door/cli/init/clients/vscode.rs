//! VS Code: its own file, in which servers are called servers.

use serde_json::json;

use super::super::client::{Client, Levels, SERVER, Scope, Server, Surroundings, Wish};
use super::super::edit::Entry;

pub(crate) const CLIENT: Client = Client {
    name: "vscode",
    programs: &["code"],
    marks: &[".vscode"],
    home_marks: &[".config/Code", "Library/Application Support/Code"],
    levels: Levels::ProjectAndUser,
    wishes,
    note: Some("VS Code asks whether you trust the server when it starts first"),
    project_note: None,
};

fn wishes(surroundings: &Surroundings, scope: Scope, server: &Server) -> Vec<Wish> {
    let path = match scope {
        Scope::Project => surroundings.project.join(".vscode/mcp.json"),
        Scope::User => surroundings.application_data().join("Code/User/mcp.json"),
    };
    let entry = json!({"type": "stdio", "command": server.command, "args": server.arguments});
    vec![Wish::json(path, scope, vec![Entry::key(&["servers", SERVER], server.with_env("env", entry))])]
}
