//! Zed: its settings call servers `context_servers`. From its documentation; never tried with the real program.

use serde_json::json;

use super::super::client::{Client, Levels, SERVER, Scope, Server, Surroundings, Wish};
use super::super::edit::Entry;

pub(crate) const CLIENT: Client = Client {
    name: "zed",
    programs: &["zed", "zeditor"],
    marks: &[".zed"],
    home_marks: &[".config/zed"],
    levels: Levels::ProjectAndUser,
    wishes,
    note: None,
    project_note: Some("Zed starts a project's server once you trust the worktree (Restricted Mode ends)"),
};

fn wishes(surroundings: &Surroundings, scope: Scope, server: &Server) -> Vec<Wish> {
    let path = match scope {
        Scope::Project => surroundings.project.join(".zed/settings.json"),
        // Also on macOS.
        Scope::User => surroundings.config_home().join("zed/settings.json"),
    };
    // Older versions read a server without `source` as a setting of an extension.
    let entry = json!({"source": "custom", "command": server.command, "args": server.arguments});
    vec![Wish::json(
        path,
        scope,
        vec![Entry::key(&["context_servers", SERVER], server.with_env("env", entry))],
    )]
}
