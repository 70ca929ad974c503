//! A copy of an agent's own file, for a run with other servers. Kiro reads an agent's servers only from its file, so the run gets a
//! folder with a copy: without servers that the file includes from elsewhere, and with a server of Volery for the answer of an agent
//! that may not write files.

use std::path::Path;

use domain::run::RunSpec;
use serde_json::{Map, Value, json};

use super::HOME_VARIABLE;
use crate::contract::{EnvValue, LaunchContext, WorkFile};
use crate::mcp_config::{self, SUBMIT_COMMAND};

/// The name of the server. Kiro allows letters, digits and underscores.
const ANSWER_SERVER: &str = "volery_answer";
/// The name of the tool in the list of tools that need no confirmation.
pub(super) const ANSWER_TOOL: &str = "@volery_answer/submit_result";
/// The text after the prompt.
const ANSWER_INSTRUCTION: &str = include_str!("answer_tool.md");
const FOLDER: &str = "kiro";
/// The keys with which a file includes the servers of the user's and the project's settings.
const INCLUDE_KEYS: [&str; 2] = ["includeMcpJson", "useLegacyMcpJson"];

/// The copy, and how Kiro finds it.
pub(super) struct AgentCopy {
    /// The name of the copy, which differs from the original: Kiro would prefer a project's file of the same name.
    pub(super) agent: String,
    /// The agent answers with Volery's tool.
    pub(super) has_answer_tool: bool,
    pub(super) file: WorkFile,
    pub(super) variable: (String, EnvValue),
}

/// The key of a server for its disabled tools.
const DENIED_TOOLS_KEY: &str = "disabledTools";

pub(super) fn copy_agent(spec: &RunSpec, context: &LaunchContext<'_>) -> Option<AgentCopy> {
    let submit = spec.setup.submit_result.as_ref().map(|submit| &submit.vendor_file);
    let mut file = submit.or(spec.setup.vendor_file.as_ref())?.clone();
    let mut servers = mcp_config::servers(spec, context);
    copy_denials(&file, &mut servers);
    let program = context.current_exe.display().to_string();
    if submit.is_some() {
        servers.insert(
            ANSWER_SERVER.to_owned(),
            json!({"command": program, "args": [SUBMIT_COMMAND], "env": {}}),
        );
        add_to_list(&mut file, "tools", &format!("@{ANSWER_SERVER}"));
        add_to_list(&mut file, "allowedTools", ANSWER_TOOL);
    }
    for key in INCLUDE_KEYS {
        if let Some(included) = file.get_mut(key) {
            *included = Value::Bool(false);
        }
    }
    let agent = format!("volery-{}", spec.agent);
    file.insert("name".to_owned(), Value::String(agent.clone()));
    file.insert("mcpServers".to_owned(), Value::Object(servers));
    if let Some(Value::String(prompt)) = file.get_mut("prompt") {
        *prompt = absolute_prompt_file(prompt, &spec.source);
    }
    // A folder with secrets is deleted when the run ends.
    let name = format!("{FOLDER}/agents/{agent}.json");
    let file = mcp_config::config_work_file(&name, &Value::Object(file), spec);
    let folder = file.name.split('/').next().unwrap_or(FOLDER);
    let variable = (HOME_VARIABLE.to_owned(), EnvValue::Plain(context.work_file_path(folder)));
    Some(AgentCopy { agent, has_answer_tool: submit.is_some(), file, variable })
}

/// Copies the disabled tools of servers.
fn copy_denials(file: &Map<String, Value>, servers: &mut Map<String, Value>) {
    for (name, server) in servers {
        let denied_tools = file.get("mcpServers").and_then(|all| all.get(name)?.get(DENIED_TOOLS_KEY));
        if let Some(denied_tools) = denied_tools {
            server[DENIED_TOOLS_KEY] = denied_tools.clone();
        }
    }
}

pub(super) fn prompt_with_answer_tool(spec: &RunSpec, prompt: &str) -> String {
    format!("{}\n\n{}", super::prompt_in_directory(&spec.directory, prompt), ANSWER_INSTRUCTION.trim_end())
}

/// Adds an entry to a list, unless it contains a wildcard. An absent list means no tools, so it is created.
fn add_to_list(file: &mut Map<String, Value>, key: &str, entry: &str) {
    let is_absent = !file.contains_key(key);
    match file.get_mut(key) {
        Some(Value::Array(list)) if !list.iter().any(|existing| existing == "*") => list.push(json!(entry)),
        _ if is_absent => {
            file.insert(key.to_owned(), json!([entry]));
        }
        _ => {}
    }
}

/// Makes a reference to a file absolute that is relative to the agent's own file.
fn absolute_prompt_file(prompt: &str, source: &str) -> String {
    let Some(path) = prompt.strip_prefix("file://") else { return prompt.to_owned() };
    let folder = Path::new(source).parent().unwrap_or(Path::new("/"));
    if path.starts_with(['/', '~', '$']) {
        return prompt.to_owned();
    }
    format!("file://{}", folder.join(path.trim_start_matches("./")).display())
}
