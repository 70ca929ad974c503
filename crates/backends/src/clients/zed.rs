//! Zed: `context_servers` in its settings. From its documentation; not tested with the real program.

use serde_json::json;

use crate::client_setup::{
    ClientEnvironment, ClientSetup, ConfigEntry, ConfigLevels, ConfigScope, DesiredFile, McpClient, SERVER,
    ServerCommand,
};

pub(super) static CLIENT: McpClient = McpClient {
    setup: ClientSetup {
        name: "zed",
        programs: &["zed", "zeditor"],
        project_markers: &[".zed"],
        home_markers: &[".config/zed"],
        config_levels: ConfigLevels::ProjectAndUser,
        desired_files,
        blocking_files: &[],
        note: None,
        project_note: Some(
            "Zed starts a project's server once you trust the worktree (Restricted Mode ends)",
        ),
    },
    patience: &[],
};

fn desired_files(
    environment: &ClientEnvironment,
    scope: ConfigScope,
    server: &ServerCommand,
) -> Vec<DesiredFile> {
    let path = match scope {
        ConfigScope::Project => environment.project.join(".zed/settings.json"),
        // Also on macOS.
        ConfigScope::User => environment.config_home().join("zed/settings.json"),
    };
    // Older versions read a server without `source` as a setting of an extension.
    let entry = json!({"source": "custom", "command": server.command, "args": server.arguments});
    vec![DesiredFile::json(
        path,
        scope,
        vec![ConfigEntry::key(&["context_servers", SERVER], server.with_env("env", entry))],
    )]
}
