//! Claude Code, controlled through a JSON stream in both directions, so that Volery decides about its permission requests.

mod acp;
mod client;
mod errors;
mod permission;
mod project_settings;
mod reader;
mod run_settings;
mod user_settings;
mod vendor;
mod versions;

use std::path::Path;

use domain::inherit::Inherited;
use domain::permission::{Permission, Rule, ToolKind};
use domain::run::RunSpec;
use domain::setup::{Context, PromptMode};
use serde_json::{Value, json};

pub(crate) use self::project_settings::project_executables;
use self::reader::ClaudeDialect;
pub use self::vendor::{CLAUDE_KIMI, GLM, VENDOR};
use crate::contract::{EnvValue, LaunchContext, ProcessLaunch, StdinFeed, WorkFile, permitted_args};
use crate::mcp_config;
use crate::prompt_escape::{escape_command, escape_prompt};
use crate::user_environment::{self, UserEnvironment};

const SYSTEM_FILE: &str = "system.md";
/// The settings file of a run, and its name if the user's own settings, which may contain secrets, are merged into it.
const SETTINGS_FILE: &str = "settings.json";
const MERGED_SETTINGS_FILE: &str = "secret-settings.json";

/// Variables with which Claude Code finds its user, its service and its configuration.
pub(crate) const VARIABLES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_VERTEX_PROJECT_ID",
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "CLAUDE_CODE_MAX_RETRIES",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CONFIG_DIR",
    "CLOUD_ML_REGION",
    "GOOGLE_APPLICATION_CREDENTIALS",
];

/// The variables that do not depend on the service.
const COMMON_VARIABLES: &[&str] =
    &["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "CLAUDE_CODE_MAX_RETRIES", "CLAUDE_CONFIG_DIR"];

/// Arguments that an agent's file may add. None of them grants a permission.
const EXTRA_ARGS: &[&str] = &[
    "--betas",
    "--debug",
    "--fallback-model",
    "--max-budget-usd",
    "--exclude-dynamic-system-prompt-sections",
];

/// The variable in which sub-agents-mcp expects the key of a service that is not Anthropic's.
const SUB_AGENTS_KEY_VARIABLE: &str = "CLI_API_KEY";

/// The option with the rules to deny.
const DENY_OPTION: &str = "--disallowedTools";

/// The variable that makes Claude Code read instructions in the folders given by `--add-dir`.
const INSTRUCTIONS_VARIABLE: &str = "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD";

/// Another vendor's service that implements Anthropic's protocol.
#[derive(Debug, Clone, Copy)]
pub struct Endpoint {
    pub base_url: &'static str,
    /// The user's variable with the key.
    pub source_variable: &'static str,
    /// The variable in which Claude Code gets the key.
    pub target_variable: &'static str,
}

/// Returns the user's variables that are passed on. Keys are passed on only to the service that they belong to.
fn passed_variables(service: Option<Endpoint>) -> &'static [&'static str] {
    match service {
        Some(_) => COMMON_VARIABLES,
        None => VARIABLES,
    }
}

/// Returns the settings file of the run, if it needs one.
fn settings_file(spec: &RunSpec, service: Option<Endpoint>) -> Option<WorkFile> {
    let settings = run_settings::build_settings(spec, service)?;
    let keys = service.iter().map(|service| service.source_variable.to_owned()).collect();
    let mut file = WorkFile::with_variables(SETTINGS_FILE, settings.to_string(), keys);
    // Claude Code reads one settings file: `apply_user_environment` merges the user's own into it, which may contain
    // secrets.
    if spec.setup.vendor_settings.is_some() {
        MERGED_SETTINGS_FILE.clone_into(&mut file.name);
    }
    Some(file)
}

fn apply_user_environment(
    spec: &RunSpec,
    launch: &mut ProcessLaunch,
    context: &LaunchContext<'_>,
    user: &UserEnvironment<'_>,
    service: Option<Endpoint>,
) -> Result<(), String> {
    let (variable, value) = versions::MAX_RETRIES;
    if !spec.fallbacks.is_empty() && (user.variable)(variable).is_none() {
        launch.env_overrides.push((variable.to_owned(), EnvValue::Plain(value.to_owned())));
    }
    if user_settings::excludes_project(&spec.setup, context) {
        add_denials(&mut launch.argv, &project_settings::denied_rules(spec));
    }
    let mut service = service;
    if let Some(Endpoint { source_variable, .. }) = &mut service
        && (user.variable)(source_variable).is_none()
        && (user.variable)(SUB_AGENTS_KEY_VARIABLE).is_some()
    {
        redirect_key(launch, source_variable, SUB_AGENTS_KEY_VARIABLE);
        *source_variable = SUB_AGENTS_KEY_VARIABLE;
    }
    let names = [SETTINGS_FILE, MERGED_SETTINGS_FILE];
    let Some(file) = launch.files.iter_mut().find(|file| names.contains(&file.name.as_str())) else {
        return Ok(());
    };
    let mut overrides = run_settings::build_settings(spec, service).unwrap_or_default();
    if spec.setup.inherits(Inherited::McpServers) {
        let servers = user_settings::project_servers(spec)?;
        overrides[user_settings::DISABLED_SERVERS_KEY] = servers.into_iter().map(|(_, name)| name).collect();
    }
    let Some(path) = &spec.setup.vendor_settings else {
        file.content = overrides.to_string().into_bytes();
        return Ok(());
    };
    let base = user_environment::read_settings(Path::new(path))
        .filter(Value::is_object)
        .ok_or_else(|| format!("the settings {path} cannot be read"))?;
    file.content = run_settings::merge_settings(base, &overrides).to_string().into_bytes();
    Ok(())
}

fn scan_workspace(spec: &RunSpec, user: &UserEnvironment<'_>) -> Result<Vec<String>, String> {
    let mut withheld = Vec::new();
    if spec.setup.inherits(Inherited::McpServers) {
        let servers = user_settings::withheld_servers(spec);
        withheld.extend(servers?);
    }
    if spec.setup.inherits(Inherited::Settings) {
        withheld.extend(user_settings::withheld_settings(spec, user));
    }
    Ok(withheld)
}

fn prepare(
    spec: &RunSpec,
    context: &LaunchContext<'_>,
    service: Option<Endpoint>,
) -> Result<ProcessLaunch, String> {
    let program = context.require_program("claude")?;
    let setup = &spec.setup;
    let mut argv = program.argv.clone();
    let fixed_args = ["-p", "--output-format=stream-json", "--input-format=stream-json", "--verbose"];
    argv.extend(fixed_args.map(ToOwned::to_owned));
    // Otherwise the beginning of an unfinished message would be lost.
    argv.push("--include-partial-messages".to_owned());
    argv.push("--permission-prompt-tool=stdio".to_owned());
    argv.push(format!("--permission-mode={}", permission::permission_mode(setup)));
    argv.extend((!setup.inherits(Inherited::McpServers)).then(|| "--strict-mcp-config".to_owned()));
    let mut files = vec![mcp_config::config_file(spec, context)];
    argv.push(format!("--mcp-config={}", context.work_file_path(&files[0].name)));
    if !spec.system_prompt.trim().is_empty() {
        files.push(WorkFile::plain(SYSTEM_FILE, spec.system_prompt.as_str()));
        let flag = match setup.prompt_mode {
            PromptMode::Append => "--append-system-prompt-file",
            PromptMode::Replace => "--system-prompt-file",
        };
        argv.push(format!("{flag}={}", context.work_file_path(SYSTEM_FILE)));
    }
    let mut option = |flag: &str, value: Option<String>| {
        argv.extend(value.map(|value| format!("{flag}={value}")));
    };
    option("--model", spec.model.clone());
    option("--effort", setup.effort.clone());
    option("--tools", permission::offered_tools(setup).map(|tools| tools.join(",")));
    option(DENY_OPTION, permission::denied_rules(setup));
    option("--max-turns", setup.max_turns.map(|turns| turns.to_string()));
    option("--json-schema", setup.output_schema.as_ref().map(Value::to_string));
    option("--resume", spec.session.as_ref().map(|session| session.as_str().to_owned()));
    let settings_file = settings_file(spec, service);
    let settings = settings_file.as_ref().map(|file| context.work_file_path(&file.name));
    files.extend(settings_file);
    option("--settings", settings.or_else(|| setup.vendor_settings.clone()));
    let excludes_project = user_settings::excludes_project(setup, context);
    let sources = match setup.context {
        Context::None => Some(String::new()),
        Context::Load => excludes_project.then(|| "user".to_owned()),
    };
    option("--setting-sources", sources);
    // Without the project's settings, Claude Code reads the project's instructions only in folders that are named.
    let project_folders = excludes_project.then_some([&spec.directory, &spec.project]);
    for directory in setup.extra_directories.iter().chain(project_folders.into_iter().flatten()) {
        option("--add-dir", Some(directory.clone()));
    }
    argv.extend(spec.fork.then(|| "--fork-session".to_owned()));
    argv.extend(permitted_args(&setup.extra_args, EXTRA_ARGS)?);
    let mut set = Vec::new();
    if excludes_project && setup.context == Context::Load {
        set.push((INSTRUCTIONS_VARIABLE.to_owned(), EnvValue::Plain("1".to_owned())));
    }
    if let Some(service) = service {
        set.extend(
            run_settings::foreign_service_variables(service).map(|name| (name.to_owned(), EnvValue::Unset)),
        );
        set.push(("ANTHROPIC_BASE_URL".to_owned(), EnvValue::Plain(service.base_url.to_owned())));
        set.push((
            service.target_variable.to_owned(),
            EnvValue::FromVariable(service.source_variable.to_owned()),
        ));
    }
    let prompt = literal_prompt(&spec.prompt, &setup.permission);
    let message = json!({"role": "user", "content": [{"type": "text", "text": prompt}]});
    let first_line = format!("{}\n", json!({"type": "user", "message": message}));
    let dialect = match spec.session {
        Some(_) if versions::cost_is_cumulative(program.version.as_deref()) => {
            ClaudeDialect::for_resumed_session(context.prior_session_usage)
        }
        Some(_) | None => ClaudeDialect::for_new_session(),
    };
    let dialect = if service.is_some() { dialect.with_other_service() } else { dialect };
    Ok(ProcessLaunch {
        argv,
        env: Vec::new(),
        optional_env: passed_variables(service).iter().map(|name| (*name).to_owned()).collect(),
        env_overrides: set,
        feed: StdinFeed::Open(first_line.into_bytes()),
        directory: None,
        files,
        reader: Box::new(reader::ClaudeStream::new(dialect, setup.output_schema.is_some())),
    })
}

/// Makes a prepared process read the key of its service from another variable.
fn redirect_key(launch: &mut ProcessLaunch, key: &str, source: &str) {
    for (_, setting) in &mut launch.env_overrides {
        if matches!(setting, EnvValue::FromVariable(name) if name == key) {
            *setting = EnvValue::FromVariable(source.to_owned());
        }
    }
    for file in launch.files.iter_mut().filter(|file| file.variables.iter().any(|name| name == key)) {
        file.variables.iter_mut().filter(|name| *name == key).for_each(|name| source.clone_into(name));
        if let Ok(text) = std::str::from_utf8(&file.content) {
            file.content = text.replace(&format!("${{{key}}}"), &format!("${{{source}}}")).into_bytes();
        }
    }
}

/// Adds rules to the option that denies.
fn add_denials(argv: &mut Vec<String>, rules: &[String]) {
    if rules.is_empty() {
        return;
    }
    let rules = rules.join(",");
    match argv
        .iter_mut()
        .find(|argument| argument.strip_prefix(DENY_OPTION).is_some_and(|rest| rest.starts_with('=')))
    {
        Some(existing) => *existing = format!("{existing},{rules}"),
        None => argv.push(format!("{DENY_OPTION}={rules}")),
    }
}

/// Escapes the prompt so that Claude Code takes it literally: `/name` would be a command. `@name` inserts a file without asking,
/// which only matters if the permission restricts reading.
fn literal_prompt(prompt: &str, permission: &Permission) -> String {
    let restricts_reading = |rule: &Rule| matches!(rule.kind(), ToolKind::Read | ToolKind::Everything);
    if permission.deny.iter().chain(&permission.ask).any(restricts_reading) {
        return escape_prompt(prompt);
    }
    escape_command(prompt)
}

#[cfg(test)]
mod tests;
