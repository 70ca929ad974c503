//! Cline: the extension of VS Code and the command line keep a file each, for every project. From its documentation;
//! never tried with the real program.

use std::path::PathBuf;

use serde_json::json;

use super::super::client::{Client, Levels, PATIENCE_S, SERVER, Scope, Server, Surroundings, Wish};
use super::super::edit::Entry;

const EXTENSION: &str = "Code/User/globalStorage/saoudrizwan.claude-dev";

pub(crate) const CLIENT: Client = Client {
    name: "cline",
    programs: &["cline"],
    marks: &[".clinerules"],
    home_marks: &[
        ".cline",
        ".config/Code/User/globalStorage/saoudrizwan.claude-dev",
        "Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev",
    ],
    levels: Levels::UserOnly,
    wishes,
    note: Some("Cline asks before it calls a tool, unless you switch on auto-approve for the server"),
    project_note: None,
};

fn wishes(surroundings: &Surroundings, _scope: Scope, server: &Server) -> Vec<Wish> {
    let entry = json!({
        "type": "stdio",
        "command": server.command,
        "args": server.arguments,
        // Seconds; without it a call ends after a minute.
        "timeout": PATIENCE_S,
    });
    let entry = server.with_env("env", entry);
    let wish = |path| Wish::json(path, Scope::User, vec![Entry::key(&["mcpServers", SERVER], entry.clone())]);
    files(surroundings).into_iter().map(wish).collect()
}

/// Returns the file of each Cline that is here, else that of the extension.
fn files(surroundings: &Surroundings) -> Vec<PathBuf> {
    let extension = surroundings.application_data().join(EXTENSION);
    let command_line = surroundings.home.join(".cline");
    let (has_extension, has_command_line) = (extension.exists(), command_line.exists());
    let extension = extension.join("settings/cline_mcp_settings.json");
    let command_line = command_line.join("data/settings/cline_mcp_settings.json");
    match (has_extension, has_command_line) {
        (true, true) => vec![extension, command_line],
        (false, true) => vec![command_line],
        (true | false, false) => vec![extension],
    }
}
