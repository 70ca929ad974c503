//! A home of the run's own for Gemini CLI, which takes servers and limits only from its
//! settings: those of its user, changed, and links to everything else that the user has there, logins and sessions first.

use std::path::{Path, PathBuf};

use domain::agent::Delegates;
use domain::mcp_server::{McpServer, Transport};
use domain::run::RunSpec;
use serde_json::{Map, Value, json};

use super::versions;
use crate::contract::{Place, ProcessDrive, SECRET_PREFIX, Setting, WorkFile};
use crate::mcp_config::{self, OWN_SERVER};
use crate::project_settings;
use crate::user::{self, User};

/// The variable that names the home, and where it is in the run's work folder: gone with the run's end, since settings
/// may hold secrets.
const VARIABLE: &str = "GEMINI_CLI_HOME";
const FOLDER: &str = "gemini-home";
/// What stands in the home.
const OWN: &str = ".gemini";
const SETTINGS: &str = "settings.json";
/// Where its sessions are, below its folder.
const SESSIONS: [&str; 2] = ["tmp", "history"];

/// What becomes of files `.env`, in the directory and above it, that are not the program's own.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PlainVariables {
    Read,
    /// Read, except for these.
    Without(Vec<String>),
    LeftOut,
}

/// Decides it: of such a file only keys and models are taken. Only settings turn the others off, and those count for
/// no file that has the name of the program's folder anywhere in its path.
pub(super) fn plain_variables(spec: &RunSpec, user: &User<'_>) -> Result<PlainVariables, String> {
    let home = user.folder(VARIABLE, "");
    super::PROJECT.check_above(spec, home.as_deref())?;
    let names = project_settings::plain_variables(&spec.directory, home.as_deref())?;
    let mut folders = project_settings::ancestors(&spec.directory).into_iter();
    let looks_like_its_own = folders.any(|folder| folder.to_string_lossy().contains(OWN));
    Ok(match names.is_empty() {
        true => PlainVariables::Read,
        false if looks_like_its_own => PlainVariables::LeftOut,
        false => PlainVariables::Without(names),
    })
}

/// Tells whether a run needs a home of its own.
pub(super) fn is_needed(spec: &RunSpec) -> bool {
    let setup = &spec.setup;
    !setup.mcp_servers.is_empty()
        || spec.delegates != Delegates::Nobody
        || setup.max_turns.is_some()
        || setup.temperature.is_some()
        || !spec.alternatives.is_empty()
}

/// Gives the run its home.
pub(super) fn furnish(
    spec: &RunSpec,
    drive: &mut ProcessDrive,
    place: &Place<'_>,
    user: &User<'_>,
    variables: &PlainVariables,
) -> Result<(), String> {
    check_project(spec)?;
    let home = user.folder(VARIABLE, "").ok_or("there is no home directory")?;
    let mut settings = changed(users_settings(&home), spec, place, user);
    leave_out(variables, &mut settings);
    put(&home, settings, mcp_config::variables(spec), drive, place);
    Ok(())
}

/// Gives the run a home that differs from its user's only in what variables are read.
pub(super) fn furnish_alike(
    drive: &mut ProcessDrive,
    place: &Place<'_>,
    user: &User<'_>,
    variables: &PlainVariables,
) -> Result<(), String> {
    let home = user.folder(VARIABLE, "").ok_or("there is no home directory")?;
    let mut settings = users_settings(&home);
    leave_out(variables, &mut settings);
    put(&home, settings, Vec::new(), drive, place);
    Ok(())
}

/// Returns the servers that only the user's own settings name: one that the project names too would be started instead.
pub(super) fn users_servers(spec: &RunSpec, user: &User<'_>) -> Vec<String> {
    let Some(home) = user.folder(VARIABLE, "") else { return Vec::new() };
    let users = Value::Object(users_settings(&home));
    let project = user::settings(&Path::new(&spec.directory).join(OWN).join(SETTINGS)).unwrap_or_default();
    let projects = user::names(&project, "mcpServers");
    user::names(&users, "mcpServers").into_iter().filter(|name| !projects.contains(name)).collect()
}

fn users_settings(home: &Path) -> Map<String, Value> {
    let settings = user::settings(&home.join(OWN).join(SETTINGS)).unwrap_or_default();
    settings.as_object().cloned().unwrap_or_default()
}

fn leave_out(variables: &PlainVariables, settings: &mut Map<String, Value>) {
    match variables {
        PlainVariables::Read => {}
        PlainVariables::Without(names) => {
            project_settings::exclude_variables(settings, &versions::EXCLUDED_VARIABLES, names);
        }
        PlainVariables::LeftOut => {
            user::section(settings, "advanced").insert("ignoreLocalEnv".to_owned(), json!(true));
        }
    }
}

/// Puts a home with these settings among the run's files, and links to everything else of the user's.
fn put(
    home: &Path,
    settings: Map<String, Value>,
    variables: Vec<String>,
    drive: &mut ProcessDrive,
    place: &Place<'_>,
) {
    let folder = format!("{SECRET_PREFIX}{FOLDER}");
    let text = Value::Object(settings).to_string();
    drive.files.push(WorkFile { variables, ..WorkFile::plain(&format!("{folder}/{OWN}/{SETTINGS}"), text) });
    for (name, target) in shared(&home.join(OWN)) {
        drive.files.push(WorkFile::link(&format!("{folder}/{OWN}/{name}"), target));
    }
    // Variables that are its user's own.
    let own = home.join(".env");
    if own.is_file() {
        drive.files.push(WorkFile::link(&format!("{folder}/.env"), own));
    }
    drive.set.push((VARIABLE.to_owned(), Setting::Plain(place.file(&folder))));
}

/// The project's settings beat the user's, and so ours: what they would take back is refused.
fn check_project(spec: &RunSpec) -> Result<(), String> {
    let path = Path::new(&spec.directory).join(OWN).join(SETTINGS);
    let Some(project) = user::settings(&path) else { return Ok(()) };
    let names = mcp_config::names(spec);
    if let Some(name) = user::names(&project, "mcpServers").into_iter().find(|name| names.contains(name)) {
        return Err(format!(
            "{} has a server {name} of its own, which would be started instead",
            path.display()
        ));
    }
    if spec.setup.max_turns.is_some() && project["model"]["maxSessionTurns"] != Value::Null {
        return Err(format!("{} limits turns by itself, so max_turns cannot be had", path.display()));
    }
    Ok(())
}

/// Returns the user's settings with the servers of the run instead of theirs.
fn changed(
    mut settings: Map<String, Value>,
    spec: &RunSpec,
    place: &Place<'_>,
    user: &User<'_>,
) -> Map<String, Value> {
    settings.remove("mcp");
    let mut servers: Map<String, Value> =
        spec.setup.mcp_servers.iter().map(|server| (server.name.clone(), entry(server))).collect();
    if let Some(mut ours) = mcp_config::servers(spec, place).remove(OWN_SERVER) {
        // It hands only a part of its environment on.
        if let Some(state) = (user.value)("VOLERY_HOME").and_then(|path| path.into_string().ok()) {
            ours["env"] = json!({ "VOLERY_HOME": state });
        }
        servers.insert(OWN_SERVER.to_owned(), ours);
    }
    settings.insert("mcpServers".to_owned(), Value::Object(servers));
    if let Some(turns) = spec.setup.max_turns {
        user::section(&mut settings, "model").insert("maxSessionTurns".to_owned(), json!(turns));
    }
    if let Some(temperature) = spec.setup.temperature {
        // An entry that names no condition matches nothing. This one holds for the main agent with every model; of several
        // the last counts.
        let entry = json!({
            "match": {"overrideScope": "core"},
            "modelConfig": {"generateContentConfig": {"temperature": temperature.degrees()}},
        });
        let overrides = user::section(&mut settings, "modelConfigs").entry("customOverrides");
        match overrides.or_insert_with(|| json!([])) {
            Value::Array(entries) => entries.push(entry),
            other => *other = json!([entry]),
        }
    }
    if !spec.alternatives.is_empty() {
        let general = user::section(&mut settings, "general");
        let known = general.get("maxAttempts").and_then(Value::as_u64).unwrap_or(u64::MAX);
        general.insert("maxAttempts".to_owned(), json!(known.min(versions::ATTEMPTS)));
    }
    settings
}

fn entry(server: &McpServer) -> Value {
    let entry = match &server.transport {
        Transport::Stdio { command, args, env } => json!({"command": command, "args": args, "env": env}),
        Transport::Http { url, headers } => json!({"httpUrl": url, "headers": headers}),
        Transport::Sse { url, headers } => json!({"url": url, "headers": headers}),
    };
    mcp_config::bounded(entry, server)
}

/// Returns what of the user's folder the run shares: everything but the settings.
fn shared(users: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(users).into_iter().flatten().filter_map(Result::ok);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name != SETTINGS).collect();
    names.extend(SESSIONS.map(ToOwned::to_owned));
    names.sort();
    names.dedup();
    names.into_iter().map(|name| (name.clone(), users.join(name))).collect()
}
