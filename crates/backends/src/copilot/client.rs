//! Copilot CLI: one file, for every project.

use serde_json::json;

use crate::client_setup::{
    CALL_TIMEOUT_S, ClientEnvironment, ClientPatience, ClientSetup, ConfigEntry, ConfigLevels, ConfigScope,
    DesiredFile, McpClient, SERVER, ServerCommand,
};

pub(super) static CLIENT: McpClient = McpClient {
    setup: ClientSetup {
        name: "copilot",
        programs: &["copilot"],
        project_markers: &[".github/agents", ".github/copilot-instructions.md"],
        home_markers: &[".copilot"],
        config_levels: ConfigLevels::UserOnly,
        desired_files,
        blocking_files: &[],
        note: Some("Copilot CLI asks before it calls a tool; --allow-tool=volery answers for all of them"),
        project_note: None,
    },
    patience: &[
        // Was seen to tolerate more than two silent minutes; the limit is unknown.
        ClientPatience {
            progress_resets_limit: true,
            wait_with_progress_s: 300,
            ..ClientPatience::new("copilot", 100, 130)
        },
    ],
};

fn desired_files(
    environment: &ClientEnvironment,
    _scope: ConfigScope,
    server: &ServerCommand,
) -> Vec<DesiredFile> {
    let folder = environment.folder("COPILOT_HOME", ".copilot");
    let entry = json!({
        "type": "local",
        "command": server.command,
        "args": server.arguments,
        "tools": ["*"],
        "timeout": CALL_TIMEOUT_S * 1000,
    });
    let entries = vec![ConfigEntry::key(&["mcpServers", SERVER], server.with_env("env", entry))];
    vec![DesiredFile::json(folder.join("mcp-config.json"), ConfigScope::User, entries)]
}
