//! Gemini CLI, headless, with a JSON stream. It cannot ask in this mode, so a policy file of the run contains the permission.

mod acp;
mod client;
mod config_home;
mod errors;
mod permission;
mod project_settings;
mod reader;
mod vendor;
pub(crate) mod versions;

use domain::agent::Delegates;
use domain::inherit::Inherited;
use domain::permission::Permission;
use domain::run::RunSpec;
use domain::setup::{PromptMode, Setup};

use crate::contract::{EnvValue, LaunchContext, ProcessLaunch, StdinFeed, WorkFile, permitted_args};
use crate::mcp_config;
use crate::policy_translation::ByLevel;
use crate::prompt_escape::escape_prompt;
use crate::schema_prompt;
use crate::user_environment::UserEnvironment;
use config_home::DotenvPolicy;
use permission::GeminiPermission;
pub(crate) use project_settings::PROJECT_SETTINGS;
pub use vendor::VENDOR;

const POLICY_FILE: &str = "policy.toml";
const SYSTEM_FILE: &str = "system.md";
/// The folder with policies of the system. If it has one, Gemini CLI ignores other policies of that rank.
const SYSTEM_POLICIES: &str = if cfg!(target_os = "macos") {
    "/Library/Application Support/GeminiCli/policies"
} else {
    "/etc/gemini-cli/policies"
};

/// Variables with which Gemini CLI finds its user, its service and its configuration.
pub(crate) const VARIABLES: &[&str] = &[
    "GEMINI_API_KEY",
    "GEMINI_CLI_HOME",
    "GEMINI_MODEL",
    "GOOGLE_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_GEMINI_BASE_URL",
    "GOOGLE_GENAI_USE_GCA",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_VERTEX_BASE_URL",
];

/// Arguments that an agent's file may add. None of them grants a permission.
const EXTRA_ARGS: &[&str] = &["--debug", "--screen-reader"];

fn apply_user_environment(
    spec: &RunSpec,
    launch: &mut ProcessLaunch,
    context: &LaunchContext<'_>,
    user: &UserEnvironment<'_>,
) -> Result<(), String> {
    if spec.setup.inherits(Inherited::McpServers) {
        let user_servers = config_home::user_server_names(spec, user);
        launch.argv.extend(mcp_config::allowlist_args_for(
            mcp_config::server_names(spec).into_iter().chain(user_servers),
        ));
    }
    let dotenv = config_home::dotenv_policy(spec, user)?;
    if !config_home::is_needed(spec) && dotenv == DotenvPolicy::Read {
        return Ok(());
    }
    config_home::add_config_home(spec, launch, context, user, &dotenv)
}

fn prepare(spec: &RunSpec, context: &LaunchContext<'_>) -> Result<ProcessLaunch, String> {
    let program = context.require_program("gemini")?;
    let setup = &spec.setup;
    let permission = GeminiPermission {
        permission: &setup.permission,
        tools: setup.tools.as_deref(),
        directory: &spec.directory,
        delegates: spec.delegates != Delegates::Nobody,
        servers: &setup.mcp_servers,
    };
    let mut argv = program.argv.clone();
    let mut option = |flag: &str, value: &str| argv.push(format!("{flag}={value}"));
    option("--output-format", "stream-json");
    let mode = inherited_mode(setup);
    let own_mode = if permission.is_unrestricted() { "yolo" } else { "default" };
    option("--approval-mode", mode.unwrap_or(own_mode));
    if mode.is_some() && has_rules(&setup.permission) {
        option("--admin-policy", &context.work_file_path(POLICY_FILE));
    }
    if mode.is_none() {
        // As an admin policy it takes precedence over policies named by a project's settings; as a user policy it replaces
        // those in the user's folder.
        option("--admin-policy", &context.work_file_path(POLICY_FILE));
        option("--policy", &context.work_file_path(POLICY_FILE));
    }
    if let Some(model) = &spec.model {
        option("--model", model);
    }
    if let Some(session) = &spec.session {
        option("--resume", session.as_str());
    }
    for directory in &setup.extra_directories {
        option("--include-directories", directory);
    }
    if !setup.inherits(Inherited::McpServers) {
        argv.extend(mcp_config::allowlist_args(spec));
    }
    argv.extend(permitted_args(&setup.extra_args, EXTRA_ARGS)?);
    let mut set = vec![
        ("GEMINI_CLI_TRUST_WORKSPACE".to_owned(), EnvValue::Plain("true".to_owned())),
        // Gemini CLI would restart itself in a process that ignores signals.
        ("GEMINI_CLI_NO_RELAUNCH".to_owned(), EnvValue::Plain("true".to_owned())),
        ("NO_COLOR".to_owned(), EnvValue::Plain("1".to_owned())),
    ];
    let policy = if mode.is_some() { permission.rules_only_policy() } else { permission.full_policy() };
    let mut files = vec![WorkFile::plain(POLICY_FILE, policy)];
    let system = spec.system_prompt.trim();
    if !system.is_empty() && setup.prompt_mode == PromptMode::Replace {
        files.push(WorkFile::plain(SYSTEM_FILE, system));
        set.push(("GEMINI_SYSTEM_MD".to_owned(), EnvValue::Plain(context.work_file_path(SYSTEM_FILE))));
    }
    Ok(ProcessLaunch {
        argv,
        env: Vec::new(),
        optional_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
        env_overrides: set,
        feed: StdinFeed::Whole(full_prompt(spec).into_bytes()),
        directory: None,
        files,
        reader: Box::new(reader::GeminiStream::new(setup.output_schema.is_some())),
    })
}

fn has_rules(permission: &Permission) -> bool {
    let Permission { level: _, allow, ask, deny } = permission;
    !(allow.is_empty() && ask.is_empty() && deny.is_empty())
}

/// Returns the mode that corresponds to the level, if the user's rules apply and the agent has no list of tools. The program cannot
/// ask, so it denies what neither the mode nor the rules of user and agent allow.
fn inherited_mode(setup: &Setup) -> Option<&'static str> {
    let applies = setup.inherits(Inherited::Settings) && setup.tools.is_none();
    setup.permission.level.filter(|_| applies)?;
    // Even in its mode yolo, if the user's settings name any command, Gemini CLI denies all commands that they do not name.
    let modes = ByLevel { read_only: "plan", safe_edit: "auto_edit", yolo: "yolo" };
    Some(modes.select(&setup.permission))
}

/// Limits an ACP process to the servers of its session, and writes the limit of turns into its settings.
pub(crate) fn disable_other_servers(
    spec: &RunSpec,
    launch: &mut ProcessLaunch,
    context: &LaunchContext<'_>,
    user: &UserEnvironment<'_>,
) -> Result<(), String> {
    launch.argv.extend(mcp_config::allowlist_args(spec));
    let dotenv = config_home::dotenv_policy(spec, user)?;
    if spec.setup.max_turns.is_none() {
        return match dotenv {
            DotenvPolicy::Read => Ok(()),
            DotenvPolicy::Except(_) | DotenvPolicy::Ignored => {
                config_home::add_unchanged_home(launch, context, user, &dotenv)
            }
        };
    }
    let mut without_servers = spec.clone();
    without_servers.setup.mcp_servers.clear();
    without_servers.delegates = Delegates::Nobody;
    config_home::add_config_home(&without_servers, launch, context, user, &dotenv)
}

/// Returns a policy that only denies the tools that are not in the agent's list.
pub(crate) fn tool_list_policy(spec: &RunSpec) -> WorkFile {
    WorkFile::plain(
        POLICY_FILE,
        permission::unlisted_tools_policy(spec.setup.tools.as_deref().unwrap_or_default()),
    )
}

/// Returns the prompt. A system prompt that does not replace the program's own comes before it, because Gemini CLI has no option
/// to append one.
fn full_prompt(spec: &RunSpec) -> String {
    let system = spec.system_prompt.trim();
    let prompt = schema_prompt::prompt_with_schema(spec);
    match spec.setup.prompt_mode {
        PromptMode::Append if !system.is_empty() => escape_prompt(&format!("{system}\n\n{prompt}")),
        PromptMode::Append | PromptMode::Replace => escape_prompt(&prompt),
    }
}

#[cfg(test)]
mod tests;
