//! opencode: the server in `opencode.json`, with a timeout longer than its default of a minute.

use serde_json::json;

use crate::client_setup::{
    CALL_TIMEOUT_S, ClientEnvironment, ClientPatience, ClientSetup, ConfigEntry, ConfigLevels, ConfigScope,
    DesiredFile, McpClient, SERVER, ServerCommand, existing,
};

pub(super) static CLIENT: McpClient = McpClient {
    setup: ClientSetup {
        name: "opencode",
        programs: &["opencode"],
        project_markers: &["opencode.json", "opencode.jsonc", ".opencode"],
        home_markers: &[".config/opencode"],
        config_levels: ConfigLevels::ProjectAndUser,
        desired_files,
        blocking_files: &[],
        note: None,
        project_note: None,
    },
    patience: &[
        // The timeout of the TypeScript SDK.
        ClientPatience {
            progress_resets_limit: true,
            wait_with_progress_s: 300,
            ..ClientPatience::new("opencode", 45, 60)
        },
    ],
};

fn desired_files(
    environment: &ClientEnvironment,
    scope: ConfigScope,
    server: &ServerCommand,
) -> Vec<DesiredFile> {
    let folder = match scope {
        ConfigScope::Project => environment.project.clone(),
        ConfigScope::User => environment.config_home().join("opencode"),
    };
    let path = existing([folder.join("opencode.json"), folder.join("opencode.jsonc")]);
    let mut command = vec![server.command.clone()];
    command.extend(server.arguments.iter().cloned());
    let entry =
        json!({"type": "local", "command": command, "enabled": true, "timeout": CALL_TIMEOUT_S * 1000});
    vec![DesiredFile::json(
        path,
        scope,
        vec![ConfigEntry::key(&["mcp", SERVER], server.with_env("environment", entry))],
    )]
}
