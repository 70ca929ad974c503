//! Claude Desktop: one file, for every project. From its documentation; never tried with the real program.

use serde_json::json;

use super::super::client::{Client, Levels, SERVER, Scope, Server, Surroundings, Wish};
use super::super::edit::Entry;

pub(crate) const CLIENT: Client = Client {
    name: "claude-desktop",
    programs: &["claude-desktop"],
    marks: &[],
    home_marks: &[".config/Claude", "Library/Application Support/Claude"],
    levels: Levels::UserOnly,
    wishes,
    note: Some("Claude Desktop reads the file when it starts: quit it, closing its window is not enough"),
    project_note: None,
};

fn wishes(surroundings: &Surroundings, _scope: Scope, server: &Server) -> Vec<Wish> {
    let path = surroundings.application_data().join("Claude/claude_desktop_config.json");
    let entry = json!({"command": server.command, "args": server.arguments});
    let entries = vec![Entry::key(&["mcpServers", SERVER], server.with_env("env", entry))];
    vec![Wish::json(path, Scope::User, entries)]
}
