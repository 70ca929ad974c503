//! goose, with a recipe and its JSON lines. The recipe names all extensions of the run, so that none of the user's is loaded. A
//! continued session restores the extensions that it started with, whatever the recipe says: so the name of a session contains a
//! digest of them, and a session with others is refused.

mod acp;
mod client;
mod errors;
mod permission;
mod permission_overrides;
mod reader;
mod vendor;
pub(crate) mod versions;

use domain::agent::Delegates;
use domain::mcp_server::{McpServer, TextPiece, Transport, VariableText};
use domain::permission::{Level, Permission};
use domain::run::RunSpec;
use domain::setup::Context;
use serde_json::{Value, json};

use crate::contract::{
    EnvValue, LaunchContext, ProcessLaunch, SECRET_PREFIX, StdinFeed, WorkFile, permitted_args,
};
use crate::digest::digest;
use crate::mcp_config::{self, OWN_SERVER};
use crate::prompt_escape::escape_command;
use crate::server_tools::{self, ServerTools};
use crate::session_usage;
pub use vendor::VENDOR;

const RECIPE_FILE: &str = "recipe.json";
/// The variable that replaces all extensions of the user's settings.
pub(crate) const EXTENSIONS_VARIABLE: &str = "EXTENSIONS";
/// The variable that excludes the directory's own instructions.
pub(crate) const NO_CONTEXT_VARIABLE: (&str, &str) = ("CONTEXT_FILE_NAMES", "[]");
/// The default time-out for a tool of a server.
const TOOL_TIMEOUT_S: u64 = 3_600;

/// Variables with which goose finds its services and its configuration.
pub(crate) const VARIABLES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_HOST",
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_OPENAI_API_KEY",
    "AZURE_OPENAI_DEPLOYMENT_NAME",
    "AZURE_OPENAI_ENDPOINT",
    "DATABRICKS_HOST",
    "DATABRICKS_TOKEN",
    "GOOGLE_API_KEY",
    "GOOSE_DISABLE_KEYRING",
    "GOOSE_MODEL",
    "GOOSE_PATH_ROOT",
    "GOOSE_PROVIDER",
    "GROQ_API_KEY",
    "OLLAMA_HOST",
    "OPENAI_API_KEY",
    "OPENAI_BASE_PATH",
    "OPENAI_HOST",
    "OPENROUTER_API_KEY",
    "XAI_API_KEY",
];

/// Arguments that an agent's file may add. None of them grants a permission; `--provider` could, because some
/// providers are other agents' programs, which goose starts without any check.
const EXTRA_ARGS: &[&str] = &["--debug", "--max-tool-repetitions"];

fn stale_session(spec: &RunSpec, context: &LaunchContext<'_>) -> Option<String> {
    let extensions = run_extensions(spec, context).ok()?;
    session_name(spec, &session_digest(spec, &extensions)).err()
}

fn prepare(spec: &RunSpec, context: &LaunchContext<'_>) -> Result<ProcessLaunch, String> {
    let program = context.require_program("goose")?;
    let setup = &spec.setup;
    let extensions = run_extensions(spec, context)?;
    let session = session_name(spec, &session_digest(spec, &extensions))?;
    let mut argv = program.argv.clone();
    argv.extend(["run", "-q", "--output-format=stream-json"].map(ToOwned::to_owned));
    let recipe_file = recipe_file_name(spec);
    argv.push(format!("--recipe={}", context.work_file_path(&recipe_file)));
    argv.push(format!("--name={session}"));
    if spec.session.is_some() {
        argv.push("--resume".to_owned());
    }
    argv.extend(spec.model.iter().map(|model| format!("--model={model}")));
    argv.extend(setup.max_turns.iter().map(|turns| format!("--max-turns={turns}")));
    argv.extend(permitted_args(&setup.extra_args, EXTRA_ARGS)?);
    // The other modes ask, which ends a run if nobody can answer.
    let mut set = vec![("GOOSE_MODE".to_owned(), EnvValue::Plain("auto".to_owned()))];
    set.extend(extensions.set);
    if setup.context == Context::None {
        let (name, value) = NO_CONTEXT_VARIABLE;
        set.push((name.to_owned(), EnvValue::Plain(value.to_owned())));
    }
    Ok(ProcessLaunch {
        argv,
        env: extensions.needed,
        optional_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
        env_overrides: set,
        feed: StdinFeed::Nothing,
        directory: None,
        files: vec![WorkFile::plain(&recipe_file, recipe(spec, &extensions.entries))],
        reader: Box::new(reader::GooseStream::new(reader::GooseStreamOptions {
            structured: setup.output_schema.is_some(),
            used_before: session_usage::usage_before_run(spec, context),
            session,
            excluded_servers: extensions.excluded_servers,
        })),
    })
}

/// Returns the extensions of an ACP process, limited to these built-in tools. The process asks before it uses them.
pub(crate) fn extensions_with_tools(tools: &[String]) -> String {
    let unrestricted = Permission { level: Some(Level::Yolo), ..Permission::default() };
    let tool_names = permission::built_in_tools(&unrestricted, Some(tools));
    // An empty list would enable all of them.
    let extension = |tool_names| json!({"enabled": true, "type": "platform", "name": "developer", "available_tools": tool_names});
    let all = if tool_names.is_empty() { json!({}) } else { json!({"developer": extension(tool_names)}) };
    all.to_string()
}

/// Returns the extensions of an ACP process without delegation: agents that goose starts use their tools without asking.
pub(crate) fn extensions_without_delegation() -> String {
    let mut all: Value = serde_json::from_str(versions::DEFAULT_EXTENSIONS).unwrap_or_default();
    if let Some(all) = all.as_object_mut() {
        all.remove(versions::DELEGATION_EXTENSION);
    }
    all.to_string()
}

/// Returns the digest of what goose restores with a session.
fn session_digest(spec: &RunSpec, extensions: &Extensions) -> String {
    digest(&json!([extensions.entries, spec.system_prompt, spec.setup.output_schema]).to_string())
}

/// Returns the name of the session: a new one, or the requested one if it started with the same extensions.
fn session_name(spec: &RunSpec, digest: &str) -> Result<String, String> {
    match &spec.session {
        None => Ok(format!("{}-{digest}", spec.id)),
        Some(session) if session.as_str().ends_with(&format!("-{digest}")) => Ok(session.as_str().to_owned()),
        Some(session) => Err(format!(
            "the session {} began with other tools, servers or instructions, which goose would bring back",
            session.as_str()
        )),
    }
}

/// The extensions of a run.
#[derive(Default)]
struct Extensions {
    entries: Vec<Value>,
    /// Variables of servers, which goose reads from its own environment.
    set: Vec<(String, EnvValue)>,
    needed: Vec<String>,
    /// Servers of which the agent may not use any tool.
    excluded_servers: Vec<String>,
}

fn run_extensions(spec: &RunSpec, context: &LaunchContext<'_>) -> Result<Extensions, String> {
    let setup = &spec.setup;
    let mut extensions = Extensions::default();
    let built_in = permission::built_in_tools(&setup.permission, setup.tools.as_deref());
    if !built_in.is_empty() {
        extensions.entries.push(json!({"type": "builtin", "name": "developer", "available_tools": built_in}));
    }
    for server in &setup.mcp_servers {
        let tools = match server_tools::allowed_tools(&setup.permission, server) {
            ServerTools::Nothing => {
                extensions.excluded_servers.push(server.name.clone());
                continue;
            }
            ServerTools::Everything => Vec::new(),
            ServerTools::Only(tools) => tools,
        };
        let mut entry = extensions.entry(server)?;
        entry["available_tools"] = json!(tools);
        entry["timeout"] =
            json!(server.timeout_ms.map_or(TOOL_TIMEOUT_S, |timeout_ms| timeout_ms.div_ceil(1_000)));
        extensions.entries.push(entry);
    }
    if spec.delegates != Delegates::Nobody {
        let program = context.current_exe.display().to_string();
        extensions
            .entries
            .push(json!({"type": "stdio", "name": OWN_SERVER, "cmd": program, "args": ["serve"],
            "timeout": TOOL_TIMEOUT_S}));
    }
    Ok(extensions)
}

impl Extensions {
    /// Returns a server in the format of a recipe. goose stores the recipe with the session, so values from the environment are
    /// only referenced.
    fn entry(&mut self, server: &McpServer) -> Result<Value, String> {
        let error = |what: &str| {
            format!("{what} of the MCP server {} holds a variable, which goose would store", server.name)
        };
        match &server.transport {
            Transport::Stdio { command, args, env } => {
                if !args.iter().all(VariableText::is_literal) {
                    return Err(error("an argument"));
                }
                let mut names = Vec::new();
                let mut literals = serde_json::Map::new();
                for (name, text) in env {
                    match &text.pieces()[..] {
                        [TextPiece::Variable { name: variable, default: None }] => {
                            self.set.push((name.clone(), EnvValue::FromVariable((*variable).to_owned())));
                            self.needed.push((*variable).to_owned());
                            names.push(name.clone());
                        }
                        _ if text.is_literal() => {
                            literals.insert(name.clone(), json!(text.as_str()));
                        }
                        _ => return Err(error("a part of a value")),
                    }
                }
                Ok(
                    json!({"type": "stdio", "name": server.name, "cmd": command, "args": args, "envs": literals,
                    "env_keys": names}),
                )
            }
            Transport::Http { url, headers } => {
                if !url.is_literal() {
                    return Err(error("the address"));
                }
                let names: Vec<&str> = headers.values().flat_map(VariableText::variables).collect();
                self.needed.extend(names.iter().map(|name| (*name).to_owned()));
                Ok(json!({"type": "streamable_http", "name": server.name, "uri": url, "headers": headers,
                    "env_keys": names}))
            }
            Transport::Sse { .. } => {
                Err(format!("goose does not know the transport sse of the MCP server {}", server.name))
            }
        }
    }
}

/// Returns the name of the recipe. A recipe with secrets is deleted when the run ends.
fn recipe_file_name(spec: &RunSpec) -> String {
    let prefix = if mcp_config::holds_secrets(spec) { SECRET_PREFIX } else { "" };
    format!("{prefix}{RECIPE_FILE}")
}

/// Returns the recipe. goose treats it as a template, so braces in its texts are escaped.
fn recipe(spec: &RunSpec, extensions: &[Value]) -> String {
    let mut recipe = json!({"version": "1.0.0", "title": "volery", "description": format!("The agent {}", spec.agent),
        "prompt": escape_command(&spec.prompt), "extensions": extensions});
    if !spec.system_prompt.trim().is_empty() {
        recipe["instructions"] = json!(spec.system_prompt);
    }
    if let Some(schema) = &spec.setup.output_schema {
        recipe["response"] = json!({ "json_schema": schema });
    }
    if let Some(temperature) = spec.setup.temperature {
        // With a recipe, goose ignores GOOSE_TEMPERATURE.
        recipe["settings"] = json!({ "temperature": temperature.degrees() });
    }
    escape_braces(&recipe.to_string())
}

/// Escapes the opening braces within the strings of a JSON text.
fn escape_braces(json: &str) -> String {
    let mut escaped_json = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for character in json.chars() {
        match character {
            '{' if in_string => escaped_json.push_str("\\u007b"),
            _ => escaped_json.push(character),
        }
        in_string = in_string != (character == '"' && !escaped);
        escaped = character == '\\' && !escaped;
    }
    escaped_json
}

#[cfg(test)]
mod tests;
