//! opencode: the server in `opencode.json`, with a time-out longer than the minute it would wait.

use serde_json::json;

use super::super::client::{Client, Levels, PATIENCE_S, SERVER, Scope, Server, Surroundings, Wish, existing};
use super::super::edit::Entry;

pub(crate) const CLIENT: Client = Client {
    name: "opencode",
    programs: &["opencode"],
    marks: &["opencode.json", "opencode.jsonc", ".opencode"],
    home_marks: &[".config/opencode"],
    levels: Levels::ProjectAndUser,
    wishes,
    note: None,
    project_note: None,
};

fn wishes(surroundings: &Surroundings, scope: Scope, server: &Server) -> Vec<Wish> {
    let folder = match scope {
        Scope::Project => surroundings.project.clone(),
        Scope::User => surroundings.config_home().join("opencode"),
    };
    let path = existing([folder.join("opencode.json"), folder.join("opencode.jsonc")]);
    let mut command = vec![server.command.clone()];
    command.extend(server.arguments.iter().cloned());
    let entry = json!({"type": "local", "command": command, "enabled": true, "timeout": PATIENCE_S * 1000});
    vec![Wish::json(path, scope, vec![Entry::key(&["mcp", SERVER], server.with_env("environment", entry))])]
}
