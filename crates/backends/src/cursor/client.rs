//! Cursor: its editor and its command line read the same file.

use serde_json::json;

use crate::client_setup::{
    ClientEnvironment, ClientPatience, ClientSetup, ConfigEntry, ConfigLevels, ConfigScope, DesiredFile,
    McpClient, SERVER, ServerCommand,
};

pub(super) static CLIENT: McpClient = McpClient {
    setup: ClientSetup {
        name: "cursor",
        programs: &["cursor-agent", "cursor"],
        project_markers: &[".cursor"],
        home_markers: &[".cursor"],
        config_levels: ConfigLevels::ProjectAndUser,
        desired_files,
        blocking_files: &[],
        note: Some(
            "Cursor asks before it starts a server that it has not seen: say yes, or run cursor-agent --approve-mcps",
        ),
        project_note: None,
    },
    patience: &[
        // Its window, `cursor-vscode`, cancels a call after five minutes.
        ClientPatience::new("cursor", 270, 300),
    ],
};

fn desired_files(
    environment: &ClientEnvironment,
    scope: ConfigScope,
    server: &ServerCommand,
) -> Vec<DesiredFile> {
    let path = match scope {
        ConfigScope::Project => environment.project.join(".cursor/mcp.json"),
        ConfigScope::User => environment.home.join(".cursor/mcp.json"),
    };
    let entry = json!({"command": server.command, "args": server.arguments});
    vec![DesiredFile::json(
        path,
        scope,
        vec![ConfigEntry::key(&["mcpServers", SERVER], server.with_env("env", entry))],
    )]
}
