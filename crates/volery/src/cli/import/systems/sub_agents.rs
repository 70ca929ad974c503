//! sub-agents-mcp: plain files in a folder that a variable names.

use std::collections::BTreeMap;
use std::path::Path;

use domain::agent::{Agent, AgentFormat};

use super::super::super::serve::{check_sub_agents, is_sub_agents_session};
use super::super::system::{SettingNote, SetupSite, System, differs, honoured, names_in, not_honoured};

const FOLDER: &str = "AGENTS_DIR";
/// The variables that others depend on.
const DETERMINING_VARIABLES: [&str; 2] = ["AGENT_TYPE", "SESSION_ENABLED"];

pub(crate) const SYSTEM: System = System {
    name: "sub-agents-mcp",
    program: "sub-agents-mcp",
    matches_entry: |entry| entry.mentions("sub-agents-mcp") || entry.env.contains_key("AGENT_TYPE"),
    has_files: |project| project.join(".mcp-sessions").is_dir(),
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
        entry.map(|path| site.folder(path, AgentFormat::Plain)).into_iter().collect()
    },
    sessions,
    set_env: |site| {
        let relative =
            site.variable(FOLDER).filter(|folder| !folder.is_empty() && !Path::new(folder).is_absolute());
        // sub-agents-mcp resolved it relative to the server's working directory.
        relative.map(|folder| (FOLDER, resolved(site.project, folder))).into_iter().collect()
    },
    startup_problems,
    note: None,
};

/// Joins a relative path without its leading dot.
fn resolved(project: &Path, folder: &str) -> String {
    let below = Path::new(folder);
    project.join(below.strip_prefix(".").unwrap_or(below)).display().to_string()
}

/// Checks each variable with the dialect's own parser.
fn startup_problems(site: &SetupSite<'_>) -> Vec<SettingNote> {
    let Some(entry) = site.entry else { return Vec::new() };
    let is_backend = |name: &str| {
        site.configured.iter().any(|known| known == name) || backends::registry::built_in().contains(&name)
    };
    let folder = entry.env_path(FOLDER, site.project);
    let mut problems = Vec::new();
    if let Some(missing) = folder.as_ref().filter(|folder| !folder.is_dir()) {
        let why = format!("there is no folder {}", missing.display());
        problems.push(SettingNote { name: FOLDER.to_owned(), why });
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
        problems.push(SettingNote { name: FOLDER.to_owned(), why });
        return problems;
    }
    for name in entry.env.keys().map(String::as_str) {
        let without: Vec<&str> =
            DETERMINING_VARIABLES.into_iter().filter(|variable| *variable != name).collect();
        let with: Vec<&str> = without.iter().copied().chain([name]).collect();
        // A problem that also occurs without the variable has another cause.
        if let Some(why) = check(&with).filter(|why| check(&without).as_ref() != Some(why)) {
            problems.push(SettingNote { name: name.to_owned(), why });
        }
    }
    problems
}

/// Returns the sessions that the dialect can continue, if sessions are enabled.
fn sessions(site: &SetupSite<'_>, agents: &[Agent]) -> Vec<String> {
    if site.entry.is_some() && site.variable("SESSION_ENABLED") != Some("true") {
        return Vec::new();
    }
    let configured = site.entry.and_then(|entry| entry.env_path("SESSION_DIR", site.project));
    let folder = configured.unwrap_or_else(|| site.project.join(".mcp-sessions"));
    let readable = |name: &String| {
        agents.iter().any(|agent| {
            let session = name.strip_suffix(agent.name.as_str()).and_then(|rest| rest.strip_suffix('_'));
            session.is_some_and(|session| is_sub_agents_session(&folder, session, agent.name.as_str()))
        })
    };
    names_in(&folder, ".json").into_iter().filter(readable).collect()
}
