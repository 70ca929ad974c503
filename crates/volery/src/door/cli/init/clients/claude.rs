//! Claude Code: `.mcp.json` names the server, the settings let it start and its tools be called unasked.

use serde_json::json;

use super::super::client::{Client, Levels, SERVER, Scope, Server, Surroundings, Wish};
use super::super::edit::Entry;

pub(crate) const CLIENT: Client = Client {
    name: "claude",
    programs: &["claude"],
    marks: &[".mcp.json", ".claude", "CLAUDE.md"],
    home_marks: &[".claude", ".claude.json"],
    levels: Levels::ProjectAndUser,
    wishes,
    note: None,
    project_note: Some(
        "Claude Code asks whether you trust the folder when you open it there first; claude -p does not ask",
    ),
};

fn wishes(surroundings: &Surroundings, scope: Scope, server: &Server) -> Vec<Wish> {
    let entry = json!({"type": "stdio", "command": server.command, "args": server.arguments});
    let servers = vec![Entry::key(&["mcpServers", SERVER], server.with_env("env", entry))];
    let allowed = Entry::item(&["permissions", "allow"], "mcp__volery");
    match scope {
        Scope::Project => {
            let folder = surroundings.project.join(".claude");
            let enabled = Entry::item(&["enabledMcpjsonServers"], SERVER);
            vec![
                Wish::json(surroundings.project.join(".mcp.json"), scope, servers),
                // Not the settings that are shared: each user agrees for themselves.
                Wish::json(folder.join("settings.local.json"), scope, vec![enabled, allowed]).private(),
            ]
        }
        Scope::User => {
            let moved = surroundings.claude_config.as_ref();
            let state = moved.unwrap_or(&surroundings.home).join(".claude.json");
            let folder = moved.cloned().unwrap_or_else(|| surroundings.home.join(".claude"));
            vec![
                Wish::json(state, scope, servers),
                Wish::json(folder.join("settings.json"), scope, vec![allowed]),
            ]
        }
    }
}
