//! Codex, controlled through its app server: JSON-RPC lines over standard input and output. `codex exec` is not used, because it
//! lacks approval requests, interruption, streamed text and typed errors.

mod acp;
mod approvals;
mod client;
mod errors;
mod mcp_servers;
mod output_redaction;
mod permission;
mod permission_overrides;
mod protocol;
mod provider_keys;
mod reader;
mod turn_items;
pub(crate) mod user_settings;
mod vendor;
mod versions;

use domain::inherit::Inherited;
use domain::run::RunSpec;
use domain::setup::{Context, PromptMode};
use serde_json::{Value, json};

use crate::contract::{EnvValue, LaunchContext, ProcessLaunch, StdinFeed, permitted_args};
use crate::user_environment::UserEnvironment;
use mcp_servers::CodexServers;
use permission::ApprovalPolicy;
use reader::{CodexStream, CodexStreamOptions};
pub use vendor::VENDOR;

const HOME_VARIABLE: &str = "CODEX_HOME";

/// Variables with which Codex finds its user, its service and its configuration.
pub(crate) const VARIABLES: &[&str] = &[
    "AZURE_OPENAI_API_KEY",
    "CODEX_ACCESS_TOKEN",
    "CODEX_API_KEY",
    "CODEX_CA_CERTIFICATE",
    HOME_VARIABLE,
    "CODEX_SQLITE_HOME",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_ORGANIZATION",
    "OPENAI_PROJECT",
    "OPENROUTER_API_KEY",
];

/// The secret ones among [`VARIABLES`].
const KEY_VARIABLES: &[&str] =
    &["AZURE_OPENAI_API_KEY", "CODEX_ACCESS_TOKEN", "CODEX_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"];

/// Arguments that an agent's file may add. None of them grants a permission.
const EXTRA_ARGS: &[&str] = &[
    "--strict-config",
    // The style of its answers, and the size of its context.
    "--config=compact_prompt",
    "--config=hide_agent_reasoning",
    "--config=model_auto_compact_token_limit",
    "--config=model_context_window",
    "--config=model_reasoning_effort",
    "--config=model_reasoning_summary",
    "--config=model_verbosity",
    "--config=personality",
    "--config=show_raw_agent_reasoning",
    "--config=tool_output_token_limit",
];

/// Returns the settings that an agent's file may set.
pub fn permitted_settings() -> impl Iterator<Item = &'static str> {
    EXTRA_ARGS.iter().filter_map(|argument| argument.strip_prefix("--config="))
}

fn apply_user_environment(
    spec: &RunSpec,
    launch: &mut ProcessLaunch,
    context: &LaunchContext<'_>,
    user: &UserEnvironment<'_>,
) -> Result<(), String> {
    let keys = provider_keys::key_variables(spec, user);
    if !keys.is_empty() {
        launch.optional_env.extend(keys.iter().cloned());
    }
    let user_servers = match spec.setup.inherits(Inherited::McpServers) {
        true => user_settings::user_server_names(spec, user),
        false => Vec::new(),
    };
    if !keys.is_empty() || !user_servers.is_empty() {
        let servers = CodexServers::for_run(spec, context)?;
        let options = CodexStreamOptions { user_servers, ..stream_options(spec, &servers, &keys) };
        launch.reader = Box::new(CodexStream::new(options));
    }
    Ok(())
}

fn prepare(spec: &RunSpec, context: &LaunchContext<'_>) -> Result<ProcessLaunch, String> {
    let program = context.require_program("codex")?;
    let servers = CodexServers::for_run(spec, context)?;
    let mut argv = program.argv.clone();
    argv.push("app-server".to_owned());
    for setting in versions::CONFIG_OVERRIDES {
        argv.extend(["-c".to_owned(), (*setting).to_owned()]);
    }
    argv.extend(permitted_args(&spec.setup.extra_args, EXTRA_ARGS)?);
    let home =
        spec.setup.vendor_settings.clone().map(|path| (HOME_VARIABLE.to_owned(), EnvValue::Plain(path)));
    Ok(ProcessLaunch {
        argv,
        env: servers.needed_variables.clone(),
        optional_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
        env_overrides: servers.variables().into_iter().chain(home).collect(),
        feed: StdinFeed::Open(protocol::opening_messages(&spec.directory)),
        directory: None,
        files: Vec::new(),
        reader: Box::new(CodexStream::new(stream_options(spec, &servers, &[]))),
    })
}

/// Returns what the stream must know about the run. `keys` are the user's key variables in addition to [`KEY_VARIABLES`].
fn stream_options(spec: &RunSpec, servers: &CodexServers, keys: &[String]) -> CodexStreamOptions {
    CodexStreamOptions {
        thread: thread_params(spec, servers, keys),
        turn: turn_params(spec),
        session: spec.session.as_ref().map(|session| session.as_str().to_owned()),
        fork: spec.fork,
        servers: servers.entries.clone(),
        user_servers: Vec::new(),
        structured: spec.setup.output_schema.is_some(),
    }
}

/// Returns the parameters that start or continue a conversation.
fn thread_params(spec: &RunSpec, servers: &CodexServers, keys: &[String]) -> Value {
    let setup = &spec.setup;
    let mut config = json!({});
    // Codex uses these tools without asking, so they are enabled only if the permission allows them without asking.
    if !permission::allows_silently(&setup.permission, "web_search") {
        config["web_search"] = json!("disabled");
    }
    if !permission::allows_silently(&setup.permission, "delegate") {
        // A dotted path, because a whole table would replace the one on the command line.
        config["features.multi_agent"] = json!(false);
    }
    if setup.context == Context::None {
        config["project_doc_max_bytes"] = json!(0);
    }
    // Codex's own keys are hidden from the commands that it runs, unless the agent names them.
    let own_keys = KEY_VARIABLES.iter().copied().filter(|key| !spec.env.iter().any(|name| name == key));
    let hidden: Vec<&str> = servers
        .hidden_from_commands()
        .into_iter()
        .chain(own_keys)
        .chain(provider_keys::hidden_from_commands(spec, keys))
        .collect();
    config["shell_environment_policy"] = json!({ "exclude": hidden });
    // The sandbox is set with the turn: for a conversation that may write, Codex would mark the directory as trusted in the
    // user's configuration, and the directory's files could then start programs.
    let mut thread = json!({
        "cwd": spec.directory, "sandbox": "read-only", "approvalsReviewer": "user",
        "approvalPolicy": ApprovalPolicy::from_permission(&setup.permission).as_str(), "config": config,
    });
    if !spec.system_prompt.trim().is_empty() {
        let key = match setup.prompt_mode {
            PromptMode::Append => "developerInstructions",
            PromptMode::Replace => "baseInstructions",
        };
        thread[key] = json!(spec.system_prompt);
    }
    if let Some(model) = &spec.model {
        thread["model"] = json!(model);
    }
    thread
}

/// Returns the parameters that start the only turn of a run.
fn turn_params(spec: &RunSpec) -> Value {
    let setup = &spec.setup;
    let mut turn = json!({
        "input": [{"type": "text", "text": spec.prompt}],
        "sandboxPolicy": permission::sandbox(&setup.permission, &setup.extra_directories),
    });
    if let Some(effort) = &setup.effort {
        turn["effort"] = json!(effort);
    }
    if let Some(schema) = &setup.output_schema {
        turn["outputSchema"] = schema.clone();
    }
    turn
}

#[cfg(test)]
mod tests;
