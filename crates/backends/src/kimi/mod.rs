//! Kimi Code, headless, with its JSON lines. It cannot ask in this mode, so a permission disables whole tools. An agent file contains
//! the tools, the system prompt, and a prompt that is too long for an argument. A configuration directory of the run contains the
//! agent's MCP servers, and not the user's.
//!
//! An agent file only applies to a new session: a continued session has the tools and the system prompt that it started with. So
//! the name of a session contains a digest of them, and a session with others is replayed in a new one.

mod acp;
mod client;
pub(crate) mod config_home;
mod errors;
mod permission;
mod permission_overrides;
mod reader;
mod vendor;
mod versions;

use domain::run::RunSpec;
use domain::setup::PromptMode;
use serde_json::json;

use crate::contract::{EnvValue, LaunchContext, ProcessLaunch, StdinFeed, WorkFile, permitted_args};
use crate::digest::digest;
use crate::prompt_with_system::{ARGUMENT_BYTES_MAX, to_argument};
use crate::schema_prompt;
pub use vendor::VENDOR;
use versions::{BASE_PROMPT_VARIABLE, EMPTY_VARIABLE, INSTRUCTIONS_VARIABLE};

const AGENT_FILE: &str = "agent.md";
/// The heading before a prompt in the agent file, and the prompt that refers to it.
const TASK_HEADING: &str = include_str!("task.md");
const TASK_REFERENCE: &str = "Do what stands under the heading TASK at the end of your instructions.";

/// Variables with which Kimi Code finds its user, its service and its configuration.
pub(crate) const VARIABLES: &[&str] = &[
    "KIMI_API_KEY",
    "KIMI_CODE_BASE_URL",
    "KIMI_CODE_HOME",
    "KIMI_MODEL_API_KEY",
    "KIMI_MODEL_BASE_URL",
    "KIMI_MODEL_MAX_CONTEXT_SIZE",
    "KIMI_MODEL_MAX_OUTPUT_SIZE",
    "KIMI_MODEL_NAME",
    "KIMI_MODEL_PROVIDER_TYPE",
];

/// Arguments that an agent's file may add. None of them grants a permission.
const EXTRA_ARGS: &[&str] = &["--skills-dir"];

fn stale_session(spec: &RunSpec, _context: &LaunchContext<'_>) -> Option<String> {
    resumable_session(spec).err()
}

fn prepare(spec: &RunSpec, context: &LaunchContext<'_>) -> Result<ProcessLaunch, String> {
    let program = context.require_program("kimi")?;
    let setup = &spec.setup;
    let mut argv = program.argv.clone();
    argv.push("--output-format=stream-json".to_owned());
    let mut files = Vec::new();
    match resumable_session(spec)? {
        Some(session) => argv.push(format!("--session={session}")),
        None => {
            argv.push(format!("--agent-file={}", context.work_file_path(AGENT_FILE)));
            files.push(WorkFile::plain(AGENT_FILE, agent_file_text(spec)));
        }
    }
    argv.extend(spec.model.iter().map(|model| format!("--model={model}")));
    argv.extend(setup.extra_directories.iter().map(|directory| format!("--add-dir={directory}")));
    argv.extend(permitted_args(&setup.extra_args, EXTRA_ARGS)?);
    let prompt = schema_prompt::prompt_with_schema(spec);
    let prompt = if exceeds_argument(&prompt) { TASK_REFERENCE.to_owned() } else { to_argument(&prompt) };
    argv.push(format!("--prompt={prompt}"));
    let set = [("KIMI_CODE_NO_AUTO_UPDATE", "1"), ("KIMI_DISABLE_TELEMETRY", "1"), ("NO_COLOR", "1")];
    let set = set.map(|(name, value)| (name.to_owned(), EnvValue::Plain(value.to_owned())));
    Ok(ProcessLaunch {
        argv,
        env: Vec::new(),
        optional_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
        env_overrides: set.into(),
        feed: StdinFeed::Nothing,
        directory: None,
        files,
        reader: Box::new(reader::KimiStream::new(setup.output_schema.is_some(), session_digest(spec))),
    })
}

/// Returns whether a prompt is too long for an argument.
fn exceeds_argument(prompt: &str) -> bool {
    prompt.len() > ARGUMENT_BYTES_MAX
}

/// Returns the session to continue, under the name of Kimi Code. It is an error if the session must be replayed in a new one.
fn resumable_session(spec: &RunSpec) -> Result<Option<String>, String> {
    let Some(session) = &spec.session else { return Ok(None) };
    let Some(session) = session.as_str().strip_suffix(&format!("-{}", session_digest(spec))) else {
        return Err("it began with other tools or another system prompt, which kimi would keep".to_owned());
    };
    if exceeds_argument(&schema_prompt::prompt_with_schema(spec)) {
        return Err("kimi takes a prompt of this length only for a new session".to_owned());
    }
    Ok(Some(session.to_owned()))
}

/// Returns the digest of what a session keeps of the agent that started it.
fn session_digest(spec: &RunSpec) -> String {
    digest(&agent_definition(spec))
}

/// Returns the agent file, with the prompt if it is too long for an argument.
fn agent_file_text(spec: &RunSpec) -> String {
    let agent = agent_definition(spec);
    let prompt = schema_prompt::prompt_with_schema(spec);
    if exceeds_argument(&prompt) {
        format!("{agent}{TASK_HEADING}{}\n", escape_variables(&prompt))
    } else {
        agent
    }
}

/// Escapes a text so that Kimi Code finds no variables in it. Variables are replaced only once, so an empty one can split `${`.
fn escape_variables(text: &str) -> String {
    text.replace("${", &format!("${EMPTY_VARIABLE}{{"))
}

/// Returns the definition of the agent: its tools, and the system prompt. All other tools are disabled.
fn agent_definition(spec: &RunSpec) -> String {
    let setup = &spec.setup;
    let built_in = permission::allowed_tools(&setup.permission, setup.tools.as_deref())
        .into_iter()
        .map(ToOwned::to_owned);
    let server_tools = setup
        .mcp_servers
        .iter()
        .flat_map(|server| permission::allowed_server_tools(&setup.permission, server));
    let tools: Vec<String> = built_in.chain(server_tools).collect();
    let system = escape_variables(spec.system_prompt.trim());
    let body = match setup.prompt_mode {
        PromptMode::Replace if !system.is_empty() => format!("{system}\n\n{INSTRUCTIONS_VARIABLE}"),
        PromptMode::Append | PromptMode::Replace => format!("{BASE_PROMPT_VARIABLE}\n\n{system}"),
    };
    // JSON is valid YAML, and handles quoting.
    let frontmatter = json!({"name": "volery", "description": "An agent of volery.", "tools": tools});
    format!("---\n{frontmatter}\n---\n{}\n", body.trim())
}

#[cfg(test)]
mod tests;
