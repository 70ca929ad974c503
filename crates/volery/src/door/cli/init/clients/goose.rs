//! goose: an extension of `config.yaml`, for every project. What it writes is tried with the real program.

use serde_json::json;

use super::super::client::{Client, Levels, PATIENCE_S, SERVER, Scope, Server, Surroundings, Wish};
use super::super::edit::{Entry, Syntax};

pub(crate) const CLIENT: Client = Client {
    name: "goose",
    programs: &["goose"],
    marks: &[".goosehints"],
    home_marks: &[".config/goose"],
    levels: Levels::UserOnly,
    wishes,
    note: None,
    project_note: None,
};

fn wishes(surroundings: &Surroundings, _scope: Scope, server: &Server) -> Vec<Wish> {
    let moved = surroundings.goose_root.as_ref().map(|root| root.join("config"));
    let folder = moved.unwrap_or_else(|| surroundings.config_home().join("goose"));
    let entry = json!({
        "enabled": true,
        "type": "stdio",
        "name": SERVER,
        "description": "Delegates work to other agents",
        "cmd": server.command,
        "args": server.arguments,
        // Seconds.
        "timeout": PATIENCE_S,
    });
    let entries = vec![Entry::key(&["extensions", SERVER], server.with_env("envs", entry))];
    vec![Wish::new(folder.join("config.yaml"), Scope::User, Syntax::Yaml, entries)]
}
