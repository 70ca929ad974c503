//! Claude Desktop: one file for every project. From its documentation; not tested with the real program.

use serde_json::json;

use crate::client_setup::{
    ClientEnvironment, ClientPatience, ClientSetup, ConfigEntry, ConfigLevels, ConfigScope, DesiredFile,
    McpClient, SERVER, ServerCommand,
};

pub(super) static CLIENT: McpClient = McpClient {
    setup: ClientSetup {
        name: "claude-desktop",
        programs: &["claude-desktop"],
        project_markers: &[],
        home_markers: &[".config/Claude", "Library/Application Support/Claude"],
        config_levels: ConfigLevels::UserOnly,
        desired_files,
        blocking_files: &[],
        note: Some("Claude Desktop reads the file when it starts: quit it, closing its window is not enough"),
        project_note: None,
    },
    patience: &[
        // Four minutes, whatever happens.
        ClientPatience::new("claude-ai", 200, 240),
        ClientPatience::new("claude-desktop", 200, 240),
    ],
};

fn desired_files(
    environment: &ClientEnvironment,
    _scope: ConfigScope,
    server: &ServerCommand,
) -> Vec<DesiredFile> {
    let path = environment.application_data().join("Claude/claude_desktop_config.json");
    let entry = json!({"command": server.command, "args": server.arguments});
    let entries = vec![ConfigEntry::key(&["mcpServers", SERVER], server.with_env("env", entry))];
    vec![DesiredFile::json(path, ConfigScope::User, entries)]
}
