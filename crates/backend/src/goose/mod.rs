//! goose, by a recipe and its lines of JSON. The recipe names the only extensions of the run, so that none of the
//! user's is loaded. A continued session brings back the extensions that it began with, whatever the recipe says:
//! so the name of a session tells which those were, and one with others is refused.

mod reader;
mod tools;
pub(crate) mod versions;

use domain::agent::Delegates;
use domain::mcp_server::{McpServer, Piece, Transport, VariableText};
use domain::permission::{Level, Permission};
use domain::run::RunSpec;
use domain::setup::Context;
use serde_json::{Value, json};

use crate::contract::{
    Backend, Capabilities, Drive, Feed, Place, PrepareError, PriceList, ProcessDrive, SECRET_PREFIX, Setting,
    WorkFile, permitted_args,
};
use crate::cumulative;
use crate::digest::digest;
use crate::mcp_config::{self, OWN_SERVER};
use crate::plain_words::no_command;
use crate::program::Program;
use crate::server_tools::{self, Of};

const KIND: &str = "goose";
const RECIPE_FILE: &str = "recipe.json";
/// The variable that takes the place of all extensions in its user's settings.
pub(crate) const EXTENSIONS: &str = "EXTENSIONS";
/// The variable that leaves the directory's own instructions out.
pub(crate) const WITHOUT_CONTEXT: (&str, &str) = ("CONTEXT_FILE_NAMES", "[]");
/// How long a tool of a server may take, unless the agent's file says otherwise.
const TOOL_TIMEOUT_S: u64 = 3_600;

/// Variables that goose needs to know its services and its place.
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

/// Arguments that an agent's file may add: none of them grants anything.
const EXTRA_ARGS: &[&str] = &["--debug", "--max-tool-repetitions", "--provider"];

pub struct Goose;

impl Backend for Goose {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn program(&self) -> Option<&'static Program> {
        Some(&versions::PROGRAM)
    }

    fn variables(&self) -> Vec<&'static str> {
        VARIABLES.to_vec()
    }

    fn capabilities(&self, _options: &Value) -> Capabilities {
        Capabilities {
            system_prompt: true,
            model: true,
            session: true,
            names_sessions: true,
            usage: true,
            prices: PriceList::ByModel,
            tells_tools: true,
            process: true,
            tools: true,
            skips_context: true,
            mcp_servers: true,
            server_tools: true,
            server_timeouts: true,
            output_schema: true,
            max_turns: true,
            temperature: true,
            extra_args: EXTRA_ARGS,
            delegates: true,
            edits_anywhere: true,
            ..Capabilities::default()
        }
    }

    fn unenforceable(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        tools::unenforceable(permission)
    }

    fn stale_session(&self, spec: &RunSpec, place: &Place<'_>) -> Option<String> {
        let extensions = extensions(spec, place).ok()?;
        session(spec, &began_with(spec, &extensions)).err()
    }

    fn prepare(&self, spec: &RunSpec, place: &Place<'_>) -> Result<Drive, PrepareError> {
        let wrong = |reason: String| PrepareError { kind: KIND, reason };
        let found = place.program("goose").map_err(wrong)?;
        let setup = &spec.setup;
        let extensions = extensions(spec, place).map_err(wrong)?;
        let session = session(spec, &began_with(spec, &extensions)).map_err(wrong)?;
        let mut argv = found.argv.clone();
        argv.extend(["run", "-q", "--output-format=stream-json"].map(ToOwned::to_owned));
        let recipe_file = recipe_file(spec);
        argv.push(format!("--recipe={}", place.file(&recipe_file)));
        argv.push(format!("--name={session}"));
        if spec.session.is_some() {
            argv.push("--resume".to_owned());
        }
        argv.extend(spec.model.iter().map(|model| format!("--model={model}")));
        argv.extend(setup.max_turns.iter().map(|turns| format!("--max-turns={turns}")));
        argv.extend(permitted_args(&setup.extra_args, EXTRA_ARGS).map_err(wrong)?);
        // Its other modes ask, and end a run that nobody can answer.
        let mut set = vec![("GOOSE_MODE".to_owned(), Setting::Plain("auto".to_owned()))];
        set.extend(extensions.set);
        if setup.context == Context::None {
            let (name, value) = WITHOUT_CONTEXT;
            set.push((name.to_owned(), Setting::Plain(value.to_owned())));
        }
        Ok(Drive::Process(ProcessDrive {
            argv,
            env: extensions.needed,
            known_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
            set,
            feed: Feed::Nothing,
            files: vec![WorkFile::plain(&recipe_file, recipe(spec, &extensions.entries))],
            reader: Box::new(reader::Stream::new(reader::Expected {
                structured: setup.output_schema.is_some(),
                used_before: cumulative::used_before(spec, place),
                session,
                left_out: extensions.left_out,
            })),
        }))
    }
}

/// Returns the extensions of a process that speaks ACP, with none of its own tools but these. What may be done with them
/// is asked.
pub(crate) fn extensions_with_only(tools: &[String]) -> String {
    let free = Permission { level: Some(Level::Yolo), ..Permission::default() };
    let own = tools::own(&free, Some(tools));
    // An empty list would stand for all of them.
    let extension =
        |own| json!({"enabled": true, "type": "platform", "name": "developer", "available_tools": own});
    let all = if own.is_empty() { json!({}) } else { json!({"developer": extension(own)}) };
    all.to_string()
}

/// Returns the extensions of a process that speaks ACP, without the one that hands work to agents of its own: those use their
/// tools without asking anybody.
pub(crate) fn extensions_without_delegation() -> String {
    let mut all: Value = serde_json::from_str(versions::EXTENSIONS).unwrap_or_default();
    if let Some(all) = all.as_object_mut() {
        all.remove(versions::DELEGATION);
    }
    all.to_string()
}

/// Returns the digest of what goose brings back with a session.
fn began_with(spec: &RunSpec, extensions: &Extensions) -> String {
    digest(&json!([extensions.entries, spec.system_prompt, spec.setup.output_schema]).to_string())
}

/// Returns the name of the session: a new one, or the given one if it began with the same extensions.
fn session(spec: &RunSpec, digest: &str) -> Result<String, String> {
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
    /// Variables of servers, which goose takes from its own.
    set: Vec<(String, Setting)>,
    needed: Vec<String>,
    /// Servers none of whose tools the agent may use.
    left_out: Vec<String>,
}

fn extensions(spec: &RunSpec, place: &Place<'_>) -> Result<Extensions, String> {
    let setup = &spec.setup;
    let mut all = Extensions::default();
    let own = tools::own(&setup.permission, setup.tools.as_deref());
    if !own.is_empty() {
        all.entries.push(json!({"type": "builtin", "name": "developer", "available_tools": own}));
    }
    for server in &setup.mcp_servers {
        let tools = match server_tools::of_server(&setup.permission, server) {
            Of::Nothing => {
                all.left_out.push(server.name.clone());
                continue;
            }
            Of::Everything => Vec::new(),
            Of::Only(tools) => tools,
        };
        let mut entry = all.entry(server)?;
        entry["available_tools"] = json!(tools);
        entry["timeout"] =
            json!(server.timeout_ms.map_or(TOOL_TIMEOUT_S, |timeout_ms| timeout_ms.div_ceil(1_000)));
        all.entries.push(entry);
    }
    if spec.delegates != Delegates::Nobody {
        let program = place.own_program.display().to_string();
        all.entries.push(json!({"type": "stdio", "name": OWN_SERVER, "cmd": program, "args": ["serve"],
            "timeout": TOOL_TIMEOUT_S}));
    }
    Ok(all)
}

impl Extensions {
    /// Returns a server as a recipe names it. Goose writes all of that into its own store of sessions, so a value that
    /// comes from the environment is named and not written.
    fn entry(&mut self, server: &McpServer) -> Result<Value, String> {
        let refused = |what: &str| {
            format!("{what} of the MCP server {} holds a variable, which goose would store", server.name)
        };
        match &server.transport {
            Transport::Stdio { command, args, env } => {
                if !args.iter().all(VariableText::is_literal) {
                    return Err(refused("an argument"));
                }
                let mut names = Vec::new();
                let mut literal = serde_json::Map::new();
                for (name, text) in env {
                    match &text.pieces()[..] {
                        [Piece::Variable { name: variable, default: None }] => {
                            self.set.push((name.clone(), Setting::From((*variable).to_owned())));
                            self.needed.push((*variable).to_owned());
                            names.push(name.clone());
                        }
                        _ if text.is_literal() => {
                            literal.insert(name.clone(), json!(text.as_str()));
                        }
                        _ => return Err(refused("a part of a value")),
                    }
                }
                Ok(
                    json!({"type": "stdio", "name": server.name, "cmd": command, "args": args, "envs": literal,
                    "env_keys": names}),
                )
            }
            Transport::Http { url, headers } => {
                if !url.is_literal() {
                    return Err(refused("the address"));
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

/// Returns what the recipe is called: one that hands values to servers goes with the run's end.
fn recipe_file(spec: &RunSpec) -> String {
    let prefix = if mcp_config::holds_secrets(spec) { SECRET_PREFIX } else { "" };
    format!("{prefix}{RECIPE_FILE}")
}

/// Returns the recipe. It is a template to goose, so that no brace may stand in its texts as it is.
fn recipe(spec: &RunSpec, extensions: &[Value]) -> String {
    let mut recipe = json!({"version": "1.0.0", "title": "volery", "description": format!("The agent {}", spec.agent),
        "prompt": no_command(&spec.prompt), "extensions": extensions});
    if !spec.system_prompt.trim().is_empty() {
        recipe["instructions"] = json!(spec.system_prompt);
    }
    if let Some(schema) = &spec.setup.output_schema {
        recipe["response"] = json!({ "json_schema": schema });
    }
    if let Some(temperature) = spec.setup.temperature {
        // With a recipe, goose does not look at GOOSE_TEMPERATURE.
        recipe["settings"] = json!({ "temperature": temperature.degrees() });
    }
    without_braces(&recipe.to_string())
}

/// Returns the same JSON with the opening braces of its strings written as numbers.
fn without_braces(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for character in json.chars() {
        match character {
            '{' if in_string => out.push_str("\\u007b"),
            _ => out.push(character),
        }
        in_string = in_string != (character == '"' && !escaped);
        escaped = character == '\\' && !escaped;
    }
    out
}

#[cfg(test)]
mod tests;
