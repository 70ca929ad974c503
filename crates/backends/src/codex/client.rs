//! Codex: a table in `config.toml`, with approval mode and timeout.

use serde_json::json;

use crate::client_setup::{
    CALL_TIMEOUT_S, ClientEnvironment, ClientPatience, ClientSetup, ConfigEntry, ConfigLevels, ConfigScope,
    DesiredFile, McpClient, SERVER, ServerCommand, Syntax,
};

pub(super) static CLIENT: McpClient = McpClient {
    setup: ClientSetup {
        name: "codex",
        programs: &["codex"],
        project_markers: &[".codex"],
        home_markers: &[".codex"],
        config_levels: ConfigLevels::ProjectAndUser,
        desired_files,
        blocking_files: &[],
        note: None,
        project_note: Some(
            "Codex reads a project's .codex/config.toml once you have opened it there and trusted the folder",
        ),
    },
    patience: &[
        // Keeps about 10 kB of an answer, the head and the tail.
        ClientPatience { result_bytes: 8 << 10, ..ClientPatience::new("codex", 240, 300) },
    ],
};

fn desired_files(
    environment: &ClientEnvironment,
    scope: ConfigScope,
    server: &ServerCommand,
) -> Vec<DesiredFile> {
    let folder = match scope {
        ConfigScope::Project => environment.project.join(".codex"),
        ConfigScope::User => environment.folder("CODEX_HOME", ".codex"),
    };
    let entry = json!({
        "command": server.command,
        "args": server.arguments,
        // Without it `codex exec` refuses every call, because it has no user to approve one.
        "default_tools_approval_mode": "approve",
        "tool_timeout_sec": CALL_TIMEOUT_S,
    });
    let entries = vec![ConfigEntry::key(&["mcp_servers", SERVER], server.with_env("env", entry))];
    vec![DesiredFile::new(folder.join("config.toml"), scope, Syntax::Toml, entries)]
}
