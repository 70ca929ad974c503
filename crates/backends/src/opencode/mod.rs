//! opencode, with its JSON lines. It cannot ask in this mode, so it denies what is not allowed before it starts. Volery uses the
//! layer of settings that a project cannot override.

mod acp;
mod client;
mod errors;
mod escaping_symlinks;
mod permission;
mod project_settings;
mod reader;
mod user_settings;
mod vendor;
pub(crate) mod versions;

use std::path::{Path, PathBuf};

use domain::agent::Delegates;
use domain::inherit::Inherited;
use domain::mcp_server::VariableText;
use domain::run::RunSpec;
use domain::setup::{Context, PromptMode};
use serde_json::{Map, Value, json};

use crate::contract::{EnvValue, LaunchContext, ProcessLaunch, StdinFeed, WorkFile, permitted_args};
use crate::mcp_config::{self, OWN_SERVER};
use crate::schema_prompt;
use crate::user_environment::{self, UserEnvironment};
use permission::{OpencodePermission, UserRule, mcp_key};
pub(crate) use project_settings::project_executables;
use project_settings::{check_above, settings_folders};
pub use vendor::VENDOR;

const SYSTEM_FILE: &str = "system.md";
/// The variable with the last layer of settings, which takes precedence.
pub(crate) const CONFIG_VARIABLE: &str = "OPENCODE_CONFIG_CONTENT";
/// The settings of an ACP process, which by default asks about nothing. They also disable sharing, whatever the user or a project
/// has set.
pub(crate) const ASK_CONFIG: &str =
    r#"{"share":"disabled","mcp":{},"permission":{"edit":"ask","bash":"ask","webfetch":"ask"}}"#;
/// Variables that exclude the directory's own instructions.
pub(crate) const NO_CONTEXT_VARIABLES: [(&str, &str); 2] =
    [("OPENCODE_DISABLE_PROJECT_CONFIG", "1"), ("OPENCODE_DISABLE_CLAUDE_CODE_PROMPT", "1")];

/// Variables that shorten the wait for an unreachable package registry. Before opencode loads a plug-in or a tool of a project, it
/// installs a package with its built-in npm, which by default retries after 10 s and after 60 s: without a network, an agent would
/// start 70 s late. With these values npm still tries three times, within 3 s, and opencode continues without the package.
pub(crate) const REGISTRY_RETRY_VARIABLES: [(&str, &str); 2] =
    [("npm_config_fetch_retry_mintimeout", "1000"), ("npm_config_fetch_retry_maxtimeout", "2000")];

/// Variables with which opencode finds the user's keys, its services and its configuration.
pub(crate) const VARIABLES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "DEEPSEEK_API_KEY",
    "GEMINI_API_KEY",
    "GITHUB_TOKEN",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENCODE_API_KEY",
    "OPENCODE_CONFIG",
    "OPENCODE_CONFIG_DIR",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS",
    "OPENCODE_DISABLE_LSP_DOWNLOAD",
    "OPENCODE_DISABLE_MODELS_FETCH",
    "OPENROUTER_API_KEY",
    "XAI_API_KEY",
    "ZAI_API_KEY",
];

/// Arguments that an agent's file may add. None of them grants a permission.
const EXTRA_ARGS: &[&str] = &["--log-level", "--print-logs", "--pure", "--thinking", "--variant"];

fn apply_user_environment(
    spec: &RunSpec,
    launch: &mut ProcessLaunch,
    context: &LaunchContext<'_>,
    user: &UserEnvironment<'_>,
) -> Result<(), String> {
    if VENDOR.logins.are_missing(user) {
        launch.reader.expect_no_login();
    }
    if spec.setup.inherits(Inherited::McpServers) {
        check_above(spec, user)?;
        disable_servers(launch, &user_settings::project_server_names(spec, user));
    } else {
        disable_other_servers(spec, launch, context, user)?;
    }
    if spec.setup.inherits(Inherited::Settings) {
        let user_rules = user_settings::inherited_rules(spec, user)?;
        let (before, after) = (run_permission(spec, &[]), run_permission(spec, &user_rules));
        replace_permission(launch, &before, &after);
    }
    Ok(())
}

fn scan_workspace(spec: &RunSpec, launch: &mut ProcessLaunch) -> Result<Vec<String>, String> {
    let withheld = match spec.setup.inherits(Inherited::McpServers) {
        true => user_settings::withheld_servers(spec),
        false => Vec::new(),
    };
    // Where the user's rules apply, commands may change the target of a link, so a scan of links would not help.
    if !spec.setup.permission.bounds_edits() || spec.setup.inherits(Inherited::Settings) {
        return Ok(withheld);
    }
    let denied = escaping_symlinks::find_denied_edits(spec, escaping_symlinks::SCAN_LIMITS);
    let escaping_symlinks::DeniedEdits { patterns, gap } = denied?;
    deny_edits(spec, launch, &patterns);
    let gap = gap.map(|gap| format!("permission: {gap}: what they lead to may be edited"));
    Ok(withheld.into_iter().chain(gap).collect())
}

fn prepare(spec: &RunSpec, context: &LaunchContext<'_>) -> Result<ProcessLaunch, String> {
    let program = context.require_program("opencode")?;
    let setup = &spec.setup;
    let mut argv = program.argv.clone();
    argv.extend(["run", "--format=json", "--title=volery"].map(ToOwned::to_owned));
    argv.push(format!("--agent={}", agent_name(spec)));
    argv.extend(spec.model.iter().map(|model| format!("--model={model}")));
    argv.extend(setup.effort.iter().map(|effort| format!("--variant={effort}")));
    argv.extend(spec.session.iter().map(|session| format!("--session={}", session.as_str())));
    argv.extend(spec.fork.then(|| "--fork".to_owned()));
    argv.extend(permitted_args(&setup.extra_args, EXTRA_ARGS)?);
    let (config, files) = run_config(spec, context);
    let plain = |name: &str, value: &str| (name.to_owned(), EnvValue::Plain(value.to_owned()));
    let mut set = vec![plain(CONFIG_VARIABLE, &config), plain("OPENCODE_DISABLE_AUTOUPDATE", "1")];
    set.extend(REGISTRY_RETRY_VARIABLES.map(|(name, value)| plain(name, value)));
    set.extend(versions::LOG_VARIABLES.map(|(name, value)| plain(name, value)));
    if setup.context == Context::None {
        set.extend(NO_CONTEXT_VARIABLES.map(|(name, value)| plain(name, value)));
    }
    Ok(ProcessLaunch {
        argv,
        env: Vec::new(),
        optional_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
        env_overrides: set,
        feed: StdinFeed::Whole(schema_prompt::prompt_with_schema(spec).into_bytes()),
        directory: None,
        files,
        reader: Box::new(reader::OpencodeStream::new(setup.output_schema.is_some())),
    })
}

/// Returns [`ASKING`] limited to these built-in tools. Denials are contained twice, because the settings of the initial agent take
/// precedence.
pub(crate) fn ask_config_with_tools(tools: &[String]) -> String {
    let mut denied = permission::OpencodePermission::default();
    denied.keep_only(tools);
    let (all, denied) = (permission::ask_decisions(tools).to_json(), denied.to_json());
    format!(
        "{{\"share\":\"disabled\",\"mcp\":{{}},\"permission\":{all},\
         \"agent\":{{\"build\":{{\"permission\":{denied}}}}}}}"
    )
}

/// Disables every server that opencode would find by itself. It merges several layers of settings, of which Volery's is the last.
pub(crate) fn disable_other_servers(
    spec: &RunSpec,
    launch: &mut ProcessLaunch,
    _context: &LaunchContext<'_>,
    user: &UserEnvironment<'_>,
) -> Result<(), String> {
    check_above(spec, user)?;
    disable_servers(launch, &configured_server_names(spec, user));
    Ok(())
}

fn disable_servers(launch: &mut ProcessLaunch, servers: &[String]) {
    for (name, setting) in &mut launch.env_overrides {
        if let (CONFIG_VARIABLE, EnvValue::Plain(config)) = (name.as_str(), setting) {
            // Servers of an ACP session are not in these settings, and one of the same name must not start before.
            let run_servers = serde_json::from_str(config)
                .map_or_else(|_| Vec::new(), |all| user_environment::entry_names(&all, "mcp"));
            let foreign = servers.iter().filter(|name| !run_servers.contains(name)).cloned();
            *config = config_with_disabled_servers(config, &foreign.collect::<Vec<_>>());
        }
    }
}

/// Returns a configuration in which these servers are disabled.
fn config_with_disabled_servers(config: &str, servers: &[String]) -> String {
    const KEY: &str = "\"mcp\":{";
    let Some((before, after)) = config.split_once(KEY) else { return config.to_owned() };
    let entries: Vec<String> =
        servers.iter().map(|name| format!("{}:{{\"enabled\":false}}", json!(name))).collect();
    let comma = if entries.is_empty() || after.starts_with('}') { "" } else { "," };
    format!("{before}{KEY}{}{comma}{after}", entries.join(","))
}

/// The names of settings files, in the order in which opencode reads them.
const SETTINGS_FILES: [&str; 3] = ["config.json", "opencode.json", "opencode.jsonc"];

/// Returns the names of the servers in all settings that opencode reads.
fn configured_server_names(spec: &RunSpec, user: &UserEnvironment<'_>) -> Vec<String> {
    let files =
        user_settings_files(user).into_iter().chain(project_settings_files(&settings_folders(spec, user)));
    server_names(files)
}

/// Returns the names of the servers in these settings files.
fn server_names(files: impl Iterator<Item = PathBuf>) -> Vec<String> {
    let settings = files.filter_map(|file| user_environment::read_settings(&file));
    let mut names: Vec<String> =
        settings.flat_map(|settings| user_environment::entry_names(&settings, "mcp")).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the user's settings files, in the order in which opencode reads them.
fn user_settings_files(user: &UserEnvironment<'_>) -> Vec<PathBuf> {
    let files_in = |folder: PathBuf| SETTINGS_FILES.map(|file| folder.join(file));
    let config = user.folder("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("opencode"));
    let named_file = (user.variable)("OPENCODE_CONFIG").map(PathBuf::from);
    let user_folder = user.folder("OPENCODE_CONFIG_DIR", ".opencode");
    config
        .into_iter()
        .flat_map(files_in)
        .chain(named_file)
        .chain(user_folder.into_iter().flat_map(files_in))
        .collect()
}

/// Returns the settings files in folders of a project.
fn project_settings_files(folders: &[PathBuf]) -> Vec<PathBuf> {
    let all_folders = folders.iter().flat_map(|folder| [folder.join(".opencode"), folder.clone()]);
    all_folders.flat_map(|folder| SETTINGS_FILES.map(|file| folder.join(file))).collect()
}

/// Returns a name that no agent of a project has: opencode would merge its settings with the run's.
fn agent_name(spec: &RunSpec) -> String {
    format!("volery-{}", spec.id)
}

/// Returns the translated permission of a run, with the rules of its user if they apply.
fn run_permission(spec: &RunSpec, user_rules: &[UserRule]) -> OpencodePermission {
    let setup = &spec.setup;
    let root = user_environment::directories_up_to_root(&spec.directory, &spec.project)
        .last()
        .copied()
        .unwrap_or(Path::new(""));
    let folder = Path::new(&spec.directory).strip_prefix(root).unwrap_or(Path::new("")).display().to_string();
    let folder = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let mut permission = match setup.inherits(Inherited::Settings) {
        true => permission::translate_with_users(&setup.permission, &folder, &setup.mcp_servers, user_rules),
        false => permission::translate(&setup.permission, &folder, &setup.mcp_servers),
    };
    if let Some(tools) = &setup.tools {
        permission.keep_only(tools);
    }
    if spec.delegates != Delegates::Nobody {
        permission.add(&mcp_key(OWN_SERVER, None), "*", "allow");
    }
    permission
}

/// Denies edits in prepared settings, by replacing their permission.
fn deny_edits(spec: &RunSpec, launch: &mut ProcessLaunch, patterns: &[String]) {
    let current = run_permission(spec, &[]);
    let mut restricted = run_permission(spec, &[]);
    patterns.iter().for_each(|pattern| restricted.add("edit", pattern, "deny"));
    replace_permission(launch, &current, &restricted);
}

fn replace_permission(launch: &mut ProcessLaunch, before: &OpencodePermission, after: &OpencodePermission) {
    let member = |permission: &OpencodePermission| format!("\"permission\":{}", permission.to_json());
    for (name, setting) in &mut launch.env_overrides {
        if let (CONFIG_VARIABLE, EnvValue::Plain(config)) = (name.as_str(), setting) {
            *config = config.replace(&member(before), &member(after));
        }
    }
}

/// Returns the configuration of a run, and its files, which contain the values that must not be in the environment.
fn run_config(spec: &RunSpec, context: &LaunchContext<'_>) -> (String, Vec<WorkFile>) {
    let setup = &spec.setup;
    let mut files = Vec::new();
    if !spec.system_prompt.trim().is_empty() {
        files.push(WorkFile::plain(SYSTEM_FILE, spec.system_prompt.as_str()));
    }
    let permission = run_permission(spec, &[]).to_json();
    let system_file = format!("{{file:{}}}", context.work_file_path(SYSTEM_FILE));
    let has_system = !spec.system_prompt.trim().is_empty();
    let (prompt, instructions) = match setup.prompt_mode {
        _ if !has_system => (String::new(), json!([])),
        PromptMode::Append => (String::new(), json!([context.work_file_path(SYSTEM_FILE)])),
        PromptMode::Replace => (format!(",\"prompt\":{}", json!(system_file)), json!([])),
    };
    let temperature =
        setup.temperature.map(|temperature| format!(",\"temperature\":{}", temperature.degrees()));
    let temperature = temperature.unwrap_or_default();
    let servers = permission::server_entries(&move_secrets_to_files(
        mcp_config::servers(spec, context),
        context,
        &mut files,
    ));
    let config = format!(
        "{{\"autoupdate\":false,\"share\":\"disabled\",\"instructions\":{instructions},\"mcp\":{},\
         \"permission\":{permission},\"agent\":{{{}:{{\"mode\":\"primary\",\"permission\":{permission}{prompt}{temperature}}}}}}}",
        Value::Object(servers),
        json!(agent_name(spec))
    );
    (config, files)
}

/// Moves each string that refers to variables into a file, and replaces it by a reference to the file.
fn move_secrets_to_files(
    servers: Map<String, Value>,
    context: &LaunchContext<'_>,
    files: &mut Vec<WorkFile>,
) -> Map<String, Value> {
    servers.into_iter().map(|(name, server)| (name, move_secret_to_file(server, context, files))).collect()
}

fn move_secret_to_file(value: Value, context: &LaunchContext<'_>, files: &mut Vec<WorkFile>) -> Value {
    match value {
        Value::String(text) => {
            let variables: Vec<String> =
                VariableText::from(text.as_str()).variables().map(ToOwned::to_owned).collect();
            if variables.is_empty() {
                return Value::String(text);
            }
            let file = WorkFile::with_variables(&format!("value-{}", files.len()), text, variables);
            let reference = format!("{{file:{}}}", context.work_file_path(&file.name));
            files.push(file);
            Value::String(reference)
        }
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| move_secret_to_file(item, context, files)).collect())
        }
        Value::Object(members) => Value::Object(move_secrets_to_files(members, context, files)),
        other => other,
    }
}

#[cfg(test)]
mod tests;
