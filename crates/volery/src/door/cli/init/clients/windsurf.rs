//! Windsurf: one file, for every project. From its documentation; never tried with the real program.

use serde_json::json;

use super::super::client::{Client, Levels, SERVER, Scope, Server, Surroundings, Wish};
use super::super::edit::Entry;

pub(crate) const CLIENT: Client = Client {
    name: "windsurf",
    programs: &["windsurf"],
    marks: &[".windsurf", ".windsurfrules"],
    home_marks: &[".codeium/windsurf"],
    levels: Levels::UserOnly,
    wishes,
    note: Some("Windsurf shows the server after a refresh of its list of MCP servers"),
    project_note: None,
};

fn wishes(surroundings: &Surroundings, _scope: Scope, server: &Server) -> Vec<Wish> {
    let path = surroundings.home.join(".codeium/windsurf/mcp_config.json");
    let entry = json!({"command": server.command, "args": server.arguments});
    let entries = vec![Entry::key(&["mcpServers", SERVER], server.with_env("env", entry))];
    vec![Wish::json(path, Scope::User, entries)]
}
