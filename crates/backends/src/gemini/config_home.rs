//! A configuration directory for one run. Gemini CLI reads servers and limits only from its settings, so the run gets a changed
//! copy of the user's settings, and links to everything else in the user's directory, above all logins and sessions.

use std::path::{Path, PathBuf};

use domain::agent::Delegates;
use domain::mcp_server::{McpServer, Transport};
use domain::run::RunSpec;
use serde_json::{Map, Value, json};

use super::versions;
use crate::contract::{EnvValue, LaunchContext, ProcessLaunch, SECRET_PREFIX, WorkFile};
use crate::mcp_config::{self, OWN_SERVER};
use crate::project_executables;
use crate::user_environment::{self, UserEnvironment};

/// The variable with the path of the directory, and its name in the run's work folder. It is deleted when the run ends, because
/// settings may contain secrets.
const HOME_VARIABLE: &str = "GEMINI_CLI_HOME";
const HOME_FOLDER: &str = "gemini-home";
/// The folder and the settings file in that directory.
const SETTINGS_FOLDER: &str = ".gemini";
const SETTINGS_FILE: &str = "settings.json";
/// The folders with sessions, below the settings folder.
const SESSION_FOLDERS: [&str; 2] = ["tmp", "history"];

/// What Gemini CLI does with `.env` files, in the directory and above it, outside of its own folder.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DotenvPolicy {
    Read,
    /// Reads them, except for these variables.
    Except(Vec<String>),
    Ignored,
}

/// Chooses the policy: only keys and models may come from such files. Only settings exclude other variables, and they have no
/// effect on a file whose path contains the name of the settings folder.
pub(super) fn dotenv_policy(spec: &RunSpec, user: &UserEnvironment<'_>) -> Result<DotenvPolicy, String> {
    let home = user.folder(HOME_VARIABLE, "");
    super::PROJECT_SETTINGS.check_ancestors(spec, home.as_deref())?;
    let names = project_executables::dotenv_variables(&spec.directory, home.as_deref())?;
    let mut folders = project_executables::ancestors(&spec.directory).into_iter();
    let contains_folder_name = folders.any(|folder| folder.to_string_lossy().contains(SETTINGS_FOLDER));
    Ok(match names.is_empty() {
        true => DotenvPolicy::Read,
        false if contains_folder_name => DotenvPolicy::Ignored,
        false => DotenvPolicy::Except(names),
    })
}

/// Returns whether a run needs its own configuration directory.
pub(super) fn is_needed(spec: &RunSpec) -> bool {
    let setup = &spec.setup;
    !setup.mcp_servers.is_empty()
        || spec.delegates != Delegates::Nobody
        || setup.max_turns.is_some()
        || setup.temperature.is_some()
        || !spec.fallbacks.is_empty()
}

/// Adds a configuration directory with the settings of the run.
pub(super) fn add_config_home(
    spec: &RunSpec,
    launch: &mut ProcessLaunch,
    context: &LaunchContext<'_>,
    user: &UserEnvironment<'_>,
    variables: &DotenvPolicy,
) -> Result<(), String> {
    check_project_settings(spec)?;
    let home = user.folder(HOME_VARIABLE, "").ok_or("there is no home directory")?;
    let mut settings = settings_for_run(read_user_settings(&home), spec, context, user);
    apply_dotenv_policy(variables, &mut settings);
    add_home_files(&home, settings, mcp_config::referenced_variables(spec), launch, context);
    Ok(())
}

/// Adds a configuration directory that differs from the user's only in the variables that are read.
pub(super) fn add_unchanged_home(
    launch: &mut ProcessLaunch,
    context: &LaunchContext<'_>,
    user: &UserEnvironment<'_>,
    variables: &DotenvPolicy,
) -> Result<(), String> {
    let home = user.folder(HOME_VARIABLE, "").ok_or("there is no home directory")?;
    let mut settings = read_user_settings(&home);
    apply_dotenv_policy(variables, &mut settings);
    add_home_files(&home, settings, Vec::new(), launch, context);
    Ok(())
}

/// Returns the servers that only the user's settings define. Gemini CLI would start a server of the same name of the project
/// instead.
pub(super) fn user_server_names(spec: &RunSpec, user: &UserEnvironment<'_>) -> Vec<String> {
    let Some(home) = user.folder(HOME_VARIABLE, "") else { return Vec::new() };
    let user_settings = Value::Object(read_user_settings(&home));
    let project_settings = user_environment::read_settings(
        &Path::new(&spec.directory).join(SETTINGS_FOLDER).join(SETTINGS_FILE),
    )
    .unwrap_or_default();
    let project_servers = user_environment::entry_names(&project_settings, "mcpServers");
    user_environment::entry_names(&user_settings, "mcpServers")
        .into_iter()
        .filter(|name| !project_servers.contains(name))
        .collect()
}

fn read_user_settings(home: &Path) -> Map<String, Value> {
    let settings =
        user_environment::read_settings(&home.join(SETTINGS_FOLDER).join(SETTINGS_FILE)).unwrap_or_default();
    settings.as_object().cloned().unwrap_or_default()
}

fn apply_dotenv_policy(variables: &DotenvPolicy, settings: &mut Map<String, Value>) {
    match variables {
        DotenvPolicy::Read => {}
        DotenvPolicy::Except(names) => {
            project_executables::exclude_variables(settings, &versions::EXCLUDED_VARIABLES, names);
        }
        DotenvPolicy::Ignored => {
            user_environment::section(settings, "advanced").insert("ignoreLocalEnv".to_owned(), json!(true));
        }
    }
}

/// Adds the settings to the run's files, and links to everything else in the user's directory.
fn add_home_files(
    home: &Path,
    settings: Map<String, Value>,
    variables: Vec<String>,
    launch: &mut ProcessLaunch,
    context: &LaunchContext<'_>,
) {
    let folder = format!("{SECRET_PREFIX}{HOME_FOLDER}");
    let text = Value::Object(settings).to_string();
    launch.files.push(WorkFile {
        variables,
        ..WorkFile::plain(&format!("{folder}/{SETTINGS_FOLDER}/{SETTINGS_FILE}"), text)
    });
    for (name, target) in shared_entries(&home.join(SETTINGS_FOLDER)) {
        launch.files.push(WorkFile::link(&format!("{folder}/{SETTINGS_FOLDER}/{name}"), target));
    }
    // The user's own variables.
    let dotenv = home.join(".env");
    if dotenv.is_file() {
        launch.files.push(WorkFile::link(&format!("{folder}/.env"), dotenv));
    }
    launch.env_overrides.push((HOME_VARIABLE.to_owned(), EnvValue::Plain(context.work_file_path(&folder))));
}

/// Refuses project settings that would override those of the run: they take precedence over the user's.
fn check_project_settings(spec: &RunSpec) -> Result<(), String> {
    let path = Path::new(&spec.directory).join(SETTINGS_FOLDER).join(SETTINGS_FILE);
    let Some(settings) = user_environment::read_settings(&path) else { return Ok(()) };
    let names = mcp_config::server_names(spec);
    if let Some(name) =
        user_environment::entry_names(&settings, "mcpServers").into_iter().find(|name| names.contains(name))
    {
        return Err(format!(
            "{} has a server {name} of its own, which would be started instead",
            path.display()
        ));
    }
    if spec.setup.max_turns.is_some() && settings["model"]["maxSessionTurns"] != Value::Null {
        return Err(format!("{} limits turns by itself, so max_turns cannot be had", path.display()));
    }
    Ok(())
}

/// Returns the user's settings with the servers and limits of the run.
fn settings_for_run(
    mut settings: Map<String, Value>,
    spec: &RunSpec,
    context: &LaunchContext<'_>,
    user: &UserEnvironment<'_>,
) -> Map<String, Value> {
    settings.remove("mcp");
    let mut servers: Map<String, Value> =
        spec.setup.mcp_servers.iter().map(|server| (server.name.clone(), server_entry(server))).collect();
    if let Some(mut own_server) = mcp_config::servers(spec, context).remove(OWN_SERVER) {
        // Gemini CLI passes only a part of its environment on to servers.
        if let Some(state) = (user.variable)("VOLERY_HOME").and_then(|path| path.into_string().ok()) {
            own_server["env"] = json!({ "VOLERY_HOME": state });
        }
        servers.insert(OWN_SERVER.to_owned(), own_server);
    }
    settings.insert("mcpServers".to_owned(), Value::Object(servers));
    if let Some(turns) = spec.setup.max_turns {
        user_environment::section(&mut settings, "model").insert("maxSessionTurns".to_owned(), json!(turns));
    }
    if let Some(temperature) = spec.setup.temperature {
        // An entry without a condition matches nothing. This one applies to the main agent with every model; the last
        // matching entry wins.
        let entry = json!({
            "match": {"overrideScope": "core"},
            "modelConfig": {"generateContentConfig": {"temperature": temperature.degrees()}},
        });
        let overrides = user_environment::section(&mut settings, "modelConfigs").entry("customOverrides");
        match overrides.or_insert_with(|| json!([])) {
            Value::Array(entries) => entries.push(entry),
            other => *other = json!([entry]),
        }
    }
    if !spec.fallbacks.is_empty() {
        let general = user_environment::section(&mut settings, "general");
        let current = general.get("maxAttempts").and_then(Value::as_u64).unwrap_or(u64::MAX);
        general.insert("maxAttempts".to_owned(), json!(current.min(versions::MAX_ATTEMPTS)));
    }
    settings
}

fn server_entry(server: &McpServer) -> Value {
    let entry = match &server.transport {
        Transport::Stdio { command, args, env } => json!({"command": command, "args": args, "env": env}),
        Transport::Http { url, headers } => json!({"httpUrl": url, "headers": headers}),
        Transport::Sse { url, headers } => json!({"url": url, "headers": headers}),
    };
    mcp_config::with_tool_limits(entry, server)
}

/// Returns the entries of the user's folder that the run shares: everything except the settings.
fn shared_entries(user_folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(user_folder).into_iter().flatten().filter_map(Result::ok);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name != SETTINGS_FILE).collect();
    names.extend(SESSION_FOLDERS.map(ToOwned::to_owned));
    names.sort();
    names.dedup();
    names.into_iter().map(|name| (name.clone(), user_folder.join(name))).collect()
}
