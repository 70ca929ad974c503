//! Claude Code: `.mcp.json` names the server; the settings allow it to start and its tools to be called without asking.

use serde_json::json;

use crate::client_setup::{
    ClientEnvironment, ClientPatience, ClientSetup, ConfigEntry, ConfigLevels, ConfigScope, DesiredFile,
    McpClient, SERVER, ServerCommand,
};

pub(super) static CLIENT: McpClient = McpClient {
    setup: ClientSetup {
        name: "claude",
        programs: &["claude"],
        project_markers: &[".mcp.json", ".claude", "CLAUDE.md"],
        home_markers: &[".claude", ".claude.json"],
        config_levels: ConfigLevels::ProjectAndUser,
        desired_files,
        blocking_files: &[".claude/settings.json"],
        note: None,
        project_note: Some(
            "Claude Code asks whether you trust the folder when you open it there first; claude -p does not ask",
        ),
    },
    patience: &[
        // Its limit is 30 minutes without progress, 5 over HTTP; a model that waits longer should check on the run
        // instead.
        ClientPatience {
            progress_resets_limit: true,
            http_limit_s: Some(300),
            ..ClientPatience::new("claude-code", 600, 1_800)
        },
        ClientPatience::new("anthropic", 240, 300),
    ],
};

fn desired_files(
    environment: &ClientEnvironment,
    scope: ConfigScope,
    server: &ServerCommand,
) -> Vec<DesiredFile> {
    let entry = json!({"type": "stdio", "command": server.command, "args": server.arguments});
    let servers = vec![ConfigEntry::key(&["mcpServers", SERVER], server.with_env("env", entry))];
    let allow_rule = ConfigEntry::item(&["permissions", "allow"], "mcp__volery");
    match scope {
        ConfigScope::Project => {
            let folder = environment.project.join(".claude");
            let enabled = ConfigEntry::item(&["enabledMcpjsonServers"], SERVER);
            vec![
                DesiredFile::json(environment.project.join(".mcp.json"), scope, servers),
                // Not in the shared settings: each user decides for themselves.
                DesiredFile::json(folder.join("settings.local.json"), scope, vec![enabled, allow_rule])
                    .private(),
            ]
        }
        ConfigScope::User => {
            let moved = (environment.variable)("CLAUDE_CONFIG_DIR");
            let state = moved.as_ref().unwrap_or(&environment.home).join(".claude.json");
            let folder = moved.unwrap_or_else(|| environment.home.join(".claude"));
            vec![
                DesiredFile::json(state, scope, servers),
                DesiredFile::json(folder.join("settings.json"), scope, vec![allow_rule]),
            ]
        }
    }
}
