//! Settings of the user, the project and the system that define MCP servers, and the settings that disable those servers for an
//! ACP adapter, which starts Codex by itself.

use std::path::{Path, PathBuf};

use domain::run::RunSpec;
use domain::setup::Context;
use serde_json::json;

use super::mcp_servers::CodexServers;
use super::provider_keys;
use crate::contract::{EnvValue, LaunchContext, ProcessLaunch};
use crate::mcp_config::OWN_SERVER;
use crate::user_environment::{self, UserEnvironment};

/// The variable with which the adapter gets settings for every conversation.
const CONFIG_VARIABLE: &str = "CODEX_CONFIG";
const SETTINGS_FILE: &str = "config.toml";
const SETTINGS_FOLDER: &str = ".codex";
const SYSTEM_FOLDER: &str = "/etc/codex";

/// Passes the servers of the run to the process, and disables those that Codex would find by itself. Both must be in one table:
/// the adapter's table of a session's servers replaces every other setting about servers.
pub(crate) fn disable_other_servers(
    spec: &RunSpec,
    launch: &mut ProcessLaunch,
    context: &LaunchContext<'_>,
    user: &UserEnvironment<'_>,
) -> Result<(), String> {
    let run_servers = CodexServers::for_run(spec, context)?;
    let mut servers = run_servers.entries.clone();
    for (path, name) in configured_servers(spec, user) {
        // All keys of Volery's own server are set here, and a user may well have configured it under the same name.
        if name == OWN_SERVER && run_servers.entries.contains_key(&name) {
            continue;
        }
        if run_servers.entries.contains_key(&name) {
            let path = path.display();
            return Err(format!("{path} has a server {name} of its own, and codex would mix both"));
        }
        servers.insert(name, json!({"enabled": false}));
    }
    // Plug-ins and apps define servers too.
    let mut config = json!({"mcp_servers": servers, "features": {"plugins": false, "apps": false}});
    if spec.setup.context == Context::None {
        config["project_doc_max_bytes"] = json!(0);
    }
    let keys = provider_keys::key_variables(spec, user);
    let hidden: Vec<&str> = run_servers
        .hidden_from_commands()
        .into_iter()
        .chain(provider_keys::hidden_from_commands(spec, &keys))
        .collect();
    if !hidden.is_empty() {
        config["shell_environment_policy"] = json!({ "exclude": hidden });
    }
    launch.env_overrides.push((CONFIG_VARIABLE.to_owned(), EnvValue::Plain(config.to_string())));
    launch.env_overrides.extend(run_servers.variables());
    launch.env.extend(run_servers.needed_variables);
    launch.optional_env.extend(keys);
    Ok(())
}

/// Returns the servers that only the user's own settings define. Codex would merge a server with one of the same name of a
/// project.
pub(super) fn user_server_names(spec: &RunSpec, user: &UserEnvironment<'_>) -> Vec<String> {
    let named_folder = spec.setup.vendor_settings.as_ref().map(PathBuf::from);
    let Some(folder) = named_folder.or_else(|| user.folder("CODEX_HOME", SETTINGS_FOLDER)) else {
        return Vec::new();
    };
    let file = folder.join(SETTINGS_FILE);
    let others: Vec<String> = configured_servers(spec, user)
        .into_iter()
        .filter(|(path, _)| *path != file)
        .map(|(_, name)| name)
        .collect();
    server_names(&file).into_iter().filter(|name| !others.contains(name)).collect()
}

/// Returns the servers in all settings that Codex reads, each with its file.
fn configured_servers(spec: &RunSpec, user: &UserEnvironment<'_>) -> Vec<(PathBuf, String)> {
    let user_folder = user.folder("CODEX_HOME", SETTINGS_FOLDER);
    let project_folders = user_environment::directories_up_to_root(&spec.directory, &spec.project)
        .into_iter()
        .map(|folder| folder.join(SETTINGS_FOLDER));
    let folders = user_folder.into_iter().chain(project_folders).chain([PathBuf::from(SYSTEM_FOLDER)]);
    let files = folders.map(|folder| folder.join(SETTINGS_FILE));
    files.flat_map(|file| server_names(&file).into_iter().map(move |name| (file.clone(), name))).collect()
}

fn server_names(path: &Path) -> Vec<String> {
    user_environment::entry_names(&user_environment::read_toml(path).unwrap_or_default(), "mcp_servers")
}
