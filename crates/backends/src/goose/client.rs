//! goose: an extension in `config.yaml`, for every project. Tested with the real program.

use serde_json::json;

use crate::client_setup::{
    CALL_TIMEOUT_S, ClientEnvironment, ClientSetup, ConfigEntry, ConfigLevels, ConfigScope, DesiredFile,
    McpClient, SERVER, ServerCommand, Syntax,
};

pub(super) static CLIENT: McpClient = McpClient {
    setup: ClientSetup {
        name: "goose",
        programs: &["goose"],
        project_markers: &[".goosehints"],
        home_markers: &[".config/goose"],
        config_levels: ConfigLevels::UserOnly,
        desired_files,
        blocking_files: &[],
        note: None,
        project_note: None,
    },
    patience: &[],
};

fn desired_files(
    environment: &ClientEnvironment,
    _scope: ConfigScope,
    server: &ServerCommand,
) -> Vec<DesiredFile> {
    let moved = (environment.variable)("GOOSE_PATH_ROOT").map(|root| root.join("config"));
    let folder = moved.unwrap_or_else(|| environment.config_home().join("goose"));
    let entry = json!({
        "enabled": true,
        "type": "stdio",
        "name": SERVER,
        "description": "Delegates work to other agents",
        "cmd": server.command,
        "args": server.arguments,
        // Seconds.
        "timeout": CALL_TIMEOUT_S,
    });
    let entries = vec![ConfigEntry::key(&["extensions", SERVER], server.with_env("envs", entry))];
    vec![DesiredFile::new(folder.join("config.yaml"), ConfigScope::User, Syntax::Yaml, entries)]
}
