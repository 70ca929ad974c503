//! Cline: one file for the extension of VS Code and one for the command line, for every project. From its documentation;
//! not tested with the real program.

use std::path::PathBuf;

use serde_json::json;

use crate::client_setup::{
    CALL_TIMEOUT_S, ClientEnvironment, ClientSetup, ConfigEntry, ConfigLevels, ConfigScope, DesiredFile,
    McpClient, SERVER, ServerCommand,
};

const EXTENSION: &str = "Code/User/globalStorage/saoudrizwan.claude-dev";

pub(super) static CLIENT: McpClient = McpClient {
    setup: ClientSetup {
        name: "cline",
        programs: &["cline"],
        project_markers: &[".clinerules"],
        home_markers: &[
            ".cline",
            ".config/Code/User/globalStorage/saoudrizwan.claude-dev",
            "Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev",
        ],
        config_levels: ConfigLevels::UserOnly,
        desired_files,
        blocking_files: &[],
        note: Some("Cline asks before it calls a tool, unless you switch on auto-approve for the server"),
        project_note: None,
    },
    patience: &[],
};

fn desired_files(
    environment: &ClientEnvironment,
    _scope: ConfigScope,
    server: &ServerCommand,
) -> Vec<DesiredFile> {
    let entry = json!({
        "type": "stdio",
        "command": server.command,
        "args": server.arguments,
        // Seconds; without it a call ends after a minute.
        "timeout": CALL_TIMEOUT_S,
    });
    let entry = server.with_env("env", entry);
    let desired = |path| {
        DesiredFile::json(
            path,
            ConfigScope::User,
            vec![ConfigEntry::key(&["mcpServers", SERVER], entry.clone())],
        )
    };
    files(environment).into_iter().map(desired).collect()
}

/// Returns the file of each Cline that is here, else that of the extension.
fn files(environment: &ClientEnvironment) -> Vec<PathBuf> {
    let extension = environment.application_data().join(EXTENSION);
    let command_line = environment.home.join(".cline");
    let (has_extension, has_command_line) = (extension.exists(), command_line.exists());
    let extension = extension.join("settings/cline_mcp_settings.json");
    let command_line = command_line.join("data/settings/cline_mcp_settings.json");
    match (has_extension, has_command_line) {
        (true, true) => vec![extension, command_line],
        (false, true) => vec![command_line],
        (true | false, false) => vec![extension],
    }
}
