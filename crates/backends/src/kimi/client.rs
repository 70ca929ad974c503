//! Kimi Code: its own `mcp.json`. Tested with the real program.

use serde_json::json;

use crate::client_setup::{
    CALL_TIMEOUT_S, ClientEnvironment, ClientSetup, ConfigEntry, ConfigLevels, ConfigScope, DesiredFile,
    McpClient, SERVER, ServerCommand,
};

pub(super) static CLIENT: McpClient = McpClient {
    setup: ClientSetup {
        name: "kimi",
        programs: &["kimi"],
        project_markers: &[".kimi-code"],
        home_markers: &[".kimi-code"],
        config_levels: ConfigLevels::ProjectAndUser,
        desired_files,
        blocking_files: &[],
        note: None,
        project_note: Some("Kimi Code reads a project's .kimi-code/mcp.json once you trust the folder"),
    },
    patience: &[],
};

fn desired_files(
    environment: &ClientEnvironment,
    scope: ConfigScope,
    server: &ServerCommand,
) -> Vec<DesiredFile> {
    let folder = match scope {
        ConfigScope::Project => environment.project.join(".kimi-code"),
        ConfigScope::User => environment.folder("KIMI_CODE_HOME", ".kimi-code"),
    };
    let entry = json!({
        "command": server.command,
        "args": server.arguments,
        "toolTimeoutMs": CALL_TIMEOUT_S * 1000,
    });
    let entries = vec![ConfigEntry::key(&["mcpServers", SERVER], server.with_env("env", entry))];
    vec![DesiredFile::json(folder.join("mcp.json"), scope, entries)]
}
