//! Kiro: its editor and its command line read the same file.

use serde_json::json;

use crate::client_setup::{
    ClientEnvironment, ClientSetup, ConfigEntry, ConfigLevels, ConfigScope, DesiredFile, McpClient, SERVER,
    ServerCommand,
};

pub(super) static CLIENT: McpClient = McpClient {
    setup: ClientSetup {
        name: "kiro",
        programs: &["kiro-cli", "kiro"],
        project_markers: &[".kiro"],
        home_markers: &[".kiro"],
        config_levels: ConfigLevels::ProjectAndUser,
        desired_files,
        blocking_files: &[],
        note: None,
        project_note: None,
    },
    patience: &[],
};

fn desired_files(
    environment: &ClientEnvironment,
    scope: ConfigScope,
    server: &ServerCommand,
) -> Vec<DesiredFile> {
    let path = match scope {
        ConfigScope::Project => environment.project.join(".kiro/settings/mcp.json"),
        ConfigScope::User => environment.home.join(".kiro/settings/mcp.json"),
    };
    let entry = json!({"command": server.command, "args": server.arguments});
    vec![DesiredFile::json(
        path,
        scope,
        vec![ConfigEntry::key(&["mcpServers", SERVER], server.with_env("env", entry))],
    )]
}
