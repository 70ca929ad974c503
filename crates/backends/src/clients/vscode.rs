//! VS Code: its own file, with the key `servers`.

use serde_json::json;

use crate::client_setup::{
    ClientEnvironment, ClientPatience, ClientSetup, ConfigEntry, ConfigLevels, ConfigScope, DesiredFile,
    McpClient, SERVER, ServerCommand,
};

pub(super) static CLIENT: McpClient = McpClient {
    setup: ClientSetup {
        name: "vscode",
        programs: &["code"],
        project_markers: &[".vscode"],
        home_markers: &[".config/Code", "Library/Application Support/Code"],
        config_levels: ConfigLevels::ProjectAndUser,
        desired_files,
        blocking_files: &[],
        note: Some("VS Code asks whether you trust the server when it starts first"),
        project_note: None,
    },
    patience: &[
        // It gives its own long name and waits until its user cancels; over HTTP its fetch ends after five minutes
        // without a byte.
        ClientPatience {
            progress_resets_limit: true,
            http_limit_s: Some(300),
            ..ClientPatience::new("visual studio code", 600, 86_400)
        },
    ],
};

fn desired_files(
    environment: &ClientEnvironment,
    scope: ConfigScope,
    server: &ServerCommand,
) -> Vec<DesiredFile> {
    let path = match scope {
        ConfigScope::Project => environment.project.join(".vscode/mcp.json"),
        ConfigScope::User => environment.application_data().join("Code/User/mcp.json"),
    };
    let entry = json!({"type": "stdio", "command": server.command, "args": server.arguments});
    vec![DesiredFile::json(
        path,
        scope,
        vec![ConfigEntry::key(&["servers", SERVER], server.with_env("env", entry))],
    )]
}
