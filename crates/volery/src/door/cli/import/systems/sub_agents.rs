//! sub-agents-mcp: plain files in a folder that a variable names.

use std::collections::BTreeMap;
use std::path::Path;

use domain::agent::{Agent, Format};

use super::super::super::serve::{check_sub_agents, is_sub_agents_session};
use super::super::system::{Site, System, Told, differs, honoured, names_in, not_honoured};

const FOLDER: &str = "AGENTS_DIR";
/// What other variables depend on.
const DECIDING: [&str; 2] = ["AGENT_TYPE", "SESSION_ENABLED"];

pub(crate) const SYSTEM: System = System {
    name: "sub-agents-mcp",
    program: "sub-agents-mcp",
    is: |entry| entry.mentions("sub-agents-mcp") || entry.env.contains_key("AGENT_TYPE"),
    left_files: |project| project.join(".mcp-sessions").is_dir(),
    tools: &["run_agent"],
    backends: &[],
    variables: &[
        honoured("AGENTS_DIR"),
        honoured("AGENT_TYPE"),
        honoured("AGENT_PERMISSION"),
        honoured("AGENT_MODEL"),
        honoured("AGENT_EFFORT"),
        honoured("EXECUTION_TIMEOUT_MS"),
        honoured("SESSION_ENABLED"),
        differs(
            "SESSION_DIR",
            "sessions are read there and continued; new ones are kept in volery's own state",
        ),
        honoured("SESSION_RETENTION_DAYS"),
        differs("AGENTS_SETTINGS_PATH", "reaches claude, codex and cursor; others warn"),
        honoured("CLI_API_KEY"),
        honoured("CURSOR_API_KEY"),
        honoured("LOG_LEVEL"),
        honoured("SERVER_NAME"),
        not_honoured("SERVER_VERSION", "the version is volery's"),
        not_honoured("LOG_FILE", "the log goes to standard error"),
    ],
    flags: &[],
    folders: |site| {
        let entry = site.entry.and_then(|entry| entry.env_path("AGENTS_DIR", site.project));
        entry.map(|path| site.folder(path, Format::Plain)).into_iter().collect()
    },
    sessions,
    set_env: |site| {
        let named =
            site.variable(FOLDER).filter(|folder| !folder.is_empty() && !Path::new(folder).is_absolute());
        // As it was: seen from where the server stood.
        named.map(|folder| (FOLDER, resolved(site.project, folder))).into_iter().collect()
    },
    refused,
    note: None,
};

/// Joins a relative path without the dots that a person would not write.
fn resolved(project: &Path, folder: &str) -> String {
    let below = Path::new(folder);
    project.join(below.strip_prefix(".").unwrap_or(below)).display().to_string()
}

/// Asks the dialect's own reader about each variable.
fn refused(site: &Site<'_>) -> Vec<Told> {
    let Some(entry) = site.entry else { return Vec::new() };
    let is_backend = |name: &str| {
        site.configured.iter().any(|known| known == name) || backend::registry::built_in().contains(&name)
    };
    let folder = entry.env_path(FOLDER, site.project);
    let mut refused = Vec::new();
    if let Some(missing) = folder.as_ref().filter(|folder| !folder.is_dir()) {
        let why = format!("there is no folder {}", missing.display());
        refused.push(Told { name: FOLDER.to_owned(), why });
    }
    let usable = folder.map(|_| "/".to_owned());
    let check = |names: &[&str]| {
        let some: BTreeMap<&str, &String> =
            names.iter().filter_map(|name| Some((*name, entry.env.get(*name)?))).collect();
        let value = |name: &str| match name {
            FOLDER => usable.clone(),
            name => some.get(name).map(|value| (*value).clone()).filter(|value| !value.is_empty()),
        };
        check_sub_agents(&value, &is_backend).err().map(|error| error.to_string())
    };
    if let Some(why) = check(&[]) {
        refused.push(Told { name: FOLDER.to_owned(), why });
        return refused;
    }
    for name in entry.env.keys().map(String::as_str) {
        let without: Vec<&str> = DECIDING.into_iter().filter(|deciding| *deciding != name).collect();
        let with: Vec<&str> = without.iter().copied().chain([name]).collect();
        // What is wrong without it is not its fault.
        if let Some(why) = check(&with).filter(|why| check(&without).as_ref() != Some(why)) {
            refused.push(Told { name: name.to_owned(), why });
        }
    }
    refused
}

/// Returns the sessions that the dialect can read on, as far as it is told to.
fn sessions(site: &Site<'_>, agents: &[Agent]) -> Vec<String> {
    if site.entry.is_some() && site.variable("SESSION_ENABLED") != Some("true") {
        return Vec::new();
    }
    let named = site.entry.and_then(|entry| entry.env_path("SESSION_DIR", site.project));
    let folder = named.unwrap_or_else(|| site.project.join(".mcp-sessions"));
    let readable = |name: &String| {
        agents.iter().any(|agent| {
            let session = name.strip_suffix(agent.name.as_str()).and_then(|rest| rest.strip_suffix('_'));
            session.is_some_and(|session| is_sub_agents_session(&folder, session, agent.name.as_str()))
        })
    };
    names_in(&folder, ".json").into_iter().filter(readable).collect()
}
