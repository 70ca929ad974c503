//! Qwen Code: the server in its settings, trusted, with a time-out.

use serde_json::json;

use crate::client_setup::{
    CALL_TIMEOUT_S, ClientEnvironment, ClientPatience, ClientSetup, ConfigEntry, ConfigLevels, ConfigScope,
    DesiredFile, McpClient, SERVER, ServerCommand,
};

pub(super) static CLIENT: McpClient = McpClient {
    setup: ClientSetup {
        name: "qwen",
        programs: &["qwen"],
        project_markers: &[".qwen", "QWEN.md"],
        home_markers: &[".qwen"],
        config_levels: ConfigLevels::ProjectAndUser,
        desired_files,
        blocking_files: &[],
        note: None,
        project_note: Some(
            "Qwen Code starts a project's server once you agree there: qwen mcp approve volery",
        ),
    },
    patience: &[
        // Times out after five silent minutes, unless its settings say otherwise.
        ClientPatience::new("qwen", 240, 300),
    ],
};

fn desired_files(
    environment: &ClientEnvironment,
    scope: ConfigScope,
    server: &ServerCommand,
) -> Vec<DesiredFile> {
    let path = match scope {
        ConfigScope::Project => environment.project.join(".qwen/settings.json"),
        ConfigScope::User => environment.home.join(".qwen/settings.json"),
    };
    let entry = json!({
        "command": server.command,
        "args": server.arguments,
        "timeout": CALL_TIMEOUT_S * 1000,
        // No approval of calls: without a user to ask, they would be declined.
        "trust": true,
    });
    vec![DesiredFile::json(
        path,
        scope,
        vec![ConfigEntry::key(&["mcpServers", SERVER], server.with_env("env", entry))],
    )]
}
