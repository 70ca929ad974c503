//! Qwen Code, controlled through a JSON stream in both directions, so that Volery decides about its permission requests. Its own
//! option for a schema is not used: with it, Qwen Code accepts no input stream, and at `safe-edit` it would edit anywhere.

mod acp;
mod client;
mod errors;
mod permission;
mod project_settings;
mod reader;
mod run_settings;
mod vendor;
pub(crate) mod versions;

use domain::agent::Delegates;
use domain::permission::Permission;
use domain::run::{RunSpec, Usage};
use domain::setup::{Context, PromptMode};
use serde_json::{Map, Value, json};

use crate::contract::{Backend, EnvValue, LaunchContext, ProcessLaunch, StdinFeed, WorkFile, permitted_args};
use crate::mcp_config::{self, OWN_SERVER};
use crate::prompt_escape::escape_prompt;
use crate::schema_prompt;
use crate::user_environment::UserEnvironment;
pub(crate) use project_settings::PROJECT_SETTINGS;
pub use vendor::VENDOR;

const MCP_FILE: &str = "mcp.json";
const SYSTEM_FILE: &str = "system.md";
/// The argument that excludes the directory's own instructions.
pub(crate) const NO_CONTEXT_ARGUMENT: &str = "--bare";

/// The idle time-out for calls of Volery's own server. The run's own limits end a call earlier.
const OWN_SERVER_TIMEOUT_MS: u64 = 24 * 60 * 60 * 1_000;

/// Variables with which Qwen Code finds its user, its service and its configuration.
pub(crate) const VARIABLES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_MODEL",
    "BAILIAN_CODING_PLAN_API_KEY",
    "DASHSCOPE_API_KEY",
    "GEMINI_API_KEY",
    "GEMINI_MODEL",
    "GOOGLE_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_CLOUD_PROJECT",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_MODEL",
    "QWEN_HOME",
    "QWEN_MODEL",
];

/// Arguments that an agent's file may add. None of them grants a permission.
const EXTRA_ARGS: &[&str] = &[
    "--auth-type",
    "--debug",
    "--fallback-model",
    "--max-subagent-depth",
    "--max-tool-calls",
    "--max-wall-time",
    "--output-style",
];

fn prepare(spec: &RunSpec, context: &LaunchContext<'_>) -> Result<ProcessLaunch, String> {
    let program = context.require_program("qwen")?;
    let setup = &spec.setup;
    let capabilities = VENDOR.capabilities(&spec.backend.options);
    if let Some(reason) = capabilities.system_prompt_problem(&spec.system_prompt, setup.prompt_mode) {
        return Err(reason);
    }
    let servers = mcp_servers(spec, context);
    let mut files = vec![mcp_config::config_work_file(MCP_FILE, &json!({ "mcpServers": servers }), spec)];
    let mut argv = program.argv.clone();
    let mut option = |flag: &str, value: &str| argv.push(format!("{flag}={value}"));
    option("--output-format", "stream-json");
    option("--mcp-config", &context.work_file_path(&files[0].name));
    for rule in permission::excluded_tools(&setup.permission, setup.tools.as_deref()) {
        option("--exclude-tools", &rule);
    }
    option("--input-format", "stream-json");
    option("--approval-mode", "default");
    if spec.delegates != Delegates::Nobody {
        option("--allowed-tools", &format!("mcp__{OWN_SERVER}"));
    }
    let mut set = vec![("QWEN_CODE_SUPPRESS_YOLO_WARNING".to_owned(), EnvValue::Plain("1".to_owned()))];
    if spec.delegates != Delegates::Nobody {
        let timeout = EnvValue::Plain(OWN_SERVER_TIMEOUT_MS.to_string());
        set.push(("QWEN_CODE_MCP_TOOL_IDLE_TIMEOUT_MS".to_owned(), timeout));
    }
    let system = spec.system_prompt.trim();
    match setup.prompt_mode {
        _ if system.is_empty() => {}
        PromptMode::Replace => {
            files.push(WorkFile::plain(SYSTEM_FILE, system));
            set.push(("QWEN_SYSTEM_MD".to_owned(), EnvValue::Plain(context.work_file_path(SYSTEM_FILE))));
        }
        PromptMode::Append => option("--append-system-prompt", system),
    }
    argv.extend(mcp_config::allowlist_args(spec));
    argv.extend(optional_args(spec));
    argv.extend(permitted_args(&setup.extra_args, EXTRA_ARGS)?);
    let feed = StdinFeed::Open(opening_messages(spec)?);
    let used_before =
        if spec.session.is_some() { context.prior_session_usage } else { Some(Usage::default()) };
    Ok(ProcessLaunch {
        argv,
        env: Vec::new(),
        optional_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
        env_overrides: set,
        feed,
        directory: None,
        files,
        reader: Box::new(reader::QwenStream::new(
            reader::QwenDialect::new(used_before),
            setup.output_schema.is_some(),
        )),
    })
}

/// Returns the arguments that limit an ACP process to the tools of the agent's list.
pub(crate) fn tool_list_args(spec: &RunSpec) -> Vec<String> {
    let excluded = permission::excluded_tools(&Permission::default(), spec.setup.tools.as_deref());
    excluded.into_iter().map(|tool| format!("--exclude-tools={tool}")).collect()
}

/// Limits an ACP process to the servers of its session, and adds the settings of the run.
pub(crate) fn disable_other_servers(
    spec: &RunSpec,
    launch: &mut ProcessLaunch,
    context: &LaunchContext<'_>,
    user: &UserEnvironment<'_>,
) -> Result<(), String> {
    launch.argv.extend(mcp_config::allowlist_args(spec));
    run_settings::add_system_settings(spec, launch, context, user)
}

/// Returns the options that depend on one setting each.
fn optional_args(spec: &RunSpec) -> Vec<String> {
    let setup = &spec.setup;
    let mut argv = Vec::new();
    let mut option = |flag: &str, value: Option<String>| {
        argv.extend(value.map(|value| format!("{flag}={value}")));
    };
    option("--model", spec.model.clone());
    option("--resume", spec.session.as_ref().map(|session| session.as_str().to_owned()));
    option("--max-session-turns", setup.max_turns.map(|turns| turns.to_string()));
    for directory in &setup.extra_directories {
        option("--add-dir", Some(directory.clone()));
    }
    argv.extend(spec.fork.then(|| "--fork-session".to_owned()));
    argv.extend((setup.context == Context::None).then(|| NO_CONTEXT_ARGUMENT.to_owned()));
    argv
}

/// Returns the MCP servers in the format of Qwen Code.
fn mcp_servers(spec: &RunSpec, context: &LaunchContext<'_>) -> Map<String, Value> {
    let mut servers = mcp_config::servers(spec, context);
    for server in &spec.setup.mcp_servers {
        let entry = &mut servers[&server.name];
        *entry = mcp_config::with_tool_limits(entry.take(), server);
    }
    servers
}

/// Returns the first messages: the initialization, and the prompt.
fn opening_messages(spec: &RunSpec) -> Result<Vec<u8>, String> {
    let mut request =
        json!({"subtype": "initialize", "timeout": {"canUseTool": versions::DECISION_TIMEOUT_MS}});
    if let Some(effort) = &spec.setup.effort {
        if !versions::EFFORTS.contains(&effort.as_str()) {
            let efforts = versions::EFFORTS.join(", ");
            return Err(format!("the effort {effort:?} is not one of {efforts}"));
        }
        request["effort"] = json!(effort);
    }
    let initialize =
        json!({"type": "control_request", "request_id": "volery-initialize", "request": request});
    let message = json!({"role": "user", "content": escape_prompt(&schema_prompt::prompt_with_schema(spec))});
    let user = json!({"type": "user", "session_id": "", "message": message, "parent_tool_use_id": null});
    Ok(format!("{initialize}\n{user}\n").into_bytes())
}

#[cfg(test)]
mod tests;
