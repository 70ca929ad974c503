//! The settings of a run for adapters that drive Codex by themselves: its servers, and none of its user's or the project's.

use std::path::{Path, PathBuf};

use domain::run::RunSpec;
use domain::setup::Context;
use serde_json::json;

use super::providers;
use super::servers::Servers;
use crate::contract::{Place, ProcessDrive, Setting};
use crate::mcp_config::OWN_SERVER;
use crate::user::{self, User};

/// The variable by which the adapter takes settings of every conversation.
const CONFIG: &str = "CODEX_CONFIG";
const FILE: &str = "config.toml";
const IN_PROJECTS: &str = ".codex";
const OF_THE_MACHINE: &str = "/etc/codex";

/// Gives the process the servers of the run, and turns off those that Codex would find by itself. Both in one table: what
/// the adapter makes of a session's servers takes the place of every other setting about servers.
pub(crate) fn without_others(
    spec: &RunSpec,
    drive: &mut ProcessDrive,
    place: &Place<'_>,
    user: &User<'_>,
) -> Result<(), String> {
    let own = Servers::of(spec, place)?;
    let mut servers = own.entries.clone();
    for (path, name) in others(spec, user) {
        // Of ours all that matters is said, and a user may well have it under the same name.
        if name == OWN_SERVER && own.entries.contains_key(&name) {
            continue;
        }
        if own.entries.contains_key(&name) {
            let path = path.display();
            return Err(format!("{path} has a server {name} of its own, and codex would mix both"));
        }
        servers.insert(name, json!({"enabled": false}));
    }
    // Plug-ins and apps bring servers too.
    let mut config = json!({"mcp_servers": servers, "features": {"plugins": false, "apps": false}});
    if spec.setup.context == Context::None {
        config["project_doc_max_bytes"] = json!(0);
    }
    let keys = providers::variables(spec, user);
    let hidden: Vec<&str> = own.hidden().into_iter().chain(providers::hidden(spec, &keys)).collect();
    if !hidden.is_empty() {
        config["shell_environment_policy"] = json!({ "exclude": hidden });
    }
    drive.set.push((CONFIG.to_owned(), Setting::Plain(config.to_string())));
    drive.set.extend(own.settings());
    drive.env.extend(own.needed);
    drive.known_env.extend(keys);
    Ok(())
}

/// Returns the servers that only the user's own settings name: one that a project names too would be mixed with it.
pub(super) fn users_own(spec: &RunSpec, user: &User<'_>) -> Vec<String> {
    let own = spec.setup.vendor_settings.as_ref().map(PathBuf::from);
    let Some(folder) = own.or_else(|| user.folder("CODEX_HOME", IN_PROJECTS)) else { return Vec::new() };
    let file = folder.join(FILE);
    let others: Vec<String> =
        others(spec, user).into_iter().filter(|(path, _)| *path != file).map(|(_, name)| name).collect();
    names(&file).into_iter().filter(|name| !others.contains(name)).collect()
}

/// Returns the servers in the layers of settings that Codex reads, and where each stands.
fn others(spec: &RunSpec, user: &User<'_>) -> Vec<(PathBuf, String)> {
    let users = user.folder("CODEX_HOME", IN_PROJECTS);
    let projects =
        user::upward(&spec.directory, &spec.project).into_iter().map(|folder| folder.join(IN_PROJECTS));
    let folders = users.into_iter().chain(projects).chain([PathBuf::from(OF_THE_MACHINE)]);
    let files = folders.map(|folder| folder.join(FILE));
    files.flat_map(|file| names(&file).into_iter().map(move |name| (file.clone(), name))).collect()
}

fn names(path: &Path) -> Vec<String> {
    user::names(&user::toml(path).unwrap_or_default(), "mcp_servers")
}
