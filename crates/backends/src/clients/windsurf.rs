//! Windsurf: one file for every project. From its documentation; not tested with the real program.

use serde_json::json;

use crate::client_setup::{
    ClientEnvironment, ClientSetup, ConfigEntry, ConfigLevels, ConfigScope, DesiredFile, McpClient, SERVER,
    ServerCommand,
};

pub(super) static CLIENT: McpClient = McpClient {
    setup: ClientSetup {
        name: "windsurf",
        programs: &["windsurf"],
        project_markers: &[".windsurf", ".windsurfrules"],
        home_markers: &[".codeium/windsurf"],
        config_levels: ConfigLevels::UserOnly,
        desired_files,
        blocking_files: &[],
        note: Some("Windsurf shows the server after a refresh of its list of MCP servers"),
        project_note: None,
    },
    patience: &[],
};

fn desired_files(
    environment: &ClientEnvironment,
    _scope: ConfigScope,
    server: &ServerCommand,
) -> Vec<DesiredFile> {
    let path = environment.home.join(".codeium/windsurf/mcp_config.json");
    let entry = json!({"command": server.command, "args": server.arguments});
    let entries = vec![ConfigEntry::key(&["mcpServers", SERVER], server.with_env("env", entry))];
    vec![DesiredFile::json(path, ConfigScope::User, entries)]
}
