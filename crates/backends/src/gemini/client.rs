//! Gemini CLI: the server in its settings, trusted, with a time-out.

use serde_json::json;

use crate::client_setup::{
    CALL_TIMEOUT_S, ClientEnvironment, ClientPatience, ClientSetup, ConfigEntry, ConfigLevels, ConfigScope,
    DesiredFile, McpClient, SERVER, ServerCommand,
};

pub(super) static CLIENT: McpClient = McpClient {
    setup: ClientSetup {
        name: "gemini",
        programs: &["gemini"],
        project_markers: &[".gemini", "GEMINI.md"],
        home_markers: &[".gemini"],
        config_levels: ConfigLevels::ProjectAndUser,
        desired_files,
        blocking_files: &[],
        note: None,
        project_note: Some("Gemini CLI reads a project's settings in a trusted folder only"),
    },
    patience: &[ClientPatience::new("gemini", 540, 600)],
};

fn desired_files(
    environment: &ClientEnvironment,
    scope: ConfigScope,
    server: &ServerCommand,
) -> Vec<DesiredFile> {
    let path = match scope {
        ConfigScope::Project => environment.project.join(".gemini/settings.json"),
        ConfigScope::User => environment.home.join(".gemini/settings.json"),
    };
    let entry = json!({
        "command": server.command,
        "args": server.arguments,
        "timeout": CALL_TIMEOUT_S * 1000,
        // No approval of calls: without a user to ask, the tools would not even be offered.
        "trust": true,
    });
    vec![DesiredFile::json(
        path,
        scope,
        vec![ConfigEntry::key(&["mcpServers", SERVER], server.with_env("env", entry))],
    )]
}
