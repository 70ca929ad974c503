//! Cursor: its editor and its command line read the same file.

use serde_json::json;

use super::super::client::{Client, Levels, SERVER, Scope, Server, Surroundings, Wish};
use super::super::edit::Entry;

pub(crate) const CLIENT: Client = Client {
    name: "cursor",
    programs: &["cursor-agent", "cursor"],
    marks: &[".cursor"],
    home_marks: &[".cursor"],
    levels: Levels::ProjectAndUser,
    wishes,
    note: Some(
        "Cursor asks before it starts a server that it has not seen: say yes, or run cursor-agent --approve-mcps",
    ),
    project_note: None,
};

fn wishes(surroundings: &Surroundings, scope: Scope, server: &Server) -> Vec<Wish> {
    let path = match scope {
        Scope::Project => surroundings.project.join(".cursor/mcp.json"),
        Scope::User => surroundings.home.join(".cursor/mcp.json"),
    };
    let entry = json!({"command": server.command, "args": server.arguments});
    vec![Wish::json(path, scope, vec![Entry::key(&["mcpServers", SERVER], server.with_env("env", entry))])]
}
