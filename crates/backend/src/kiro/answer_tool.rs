//! A copy of an agent's own file, for a run that shall have other servers than the file says. Kiro takes an agent's servers
//! from there only, so the run gets a folder of Kiro's kind with the copy: without those that the file includes from
//! elsewhere, and with a server of ours for the answer of an agent that may not write files.

use std::path::Path;

use domain::run::RunSpec;
use serde_json::{Map, Value, json};

use super::HOME_VARIABLE;
use crate::contract::{Place, Setting, WorkFile};
use crate::mcp_config::{self, SUBMIT_COMMAND};

/// What the server is called. Kiro takes letters, digits and underscores.
const SERVER: &str = "volery_answer";
/// How the tool is named among those that need no question.
pub(super) const TRUSTED: &str = "@volery_answer/submit_result";
/// Put after the prompt.
const INSTRUCTION: &str = include_str!("answer_tool.md");
const FOLDER: &str = "kiro";
/// By these a file adds the servers of its user's and the project's settings.
const INCLUDING: [&str; 2] = ["includeMcpJson", "useLegacyMcpJson"];

/// What a run needs for the copy.
pub(super) struct OwnCopy {
    /// The name of the copy: Kiro would prefer a project's file of the same name.
    pub(super) agent: String,
    /// It has our tool for its answer.
    pub(super) answer_tool: bool,
    pub(super) file: WorkFile,
    pub(super) variable: (String, Setting),
}

/// The key of a server for tools that it shall not offer.
const DENIED: &str = "disabledTools";

/// Returns the copy, if the agent needs one.
pub(super) fn prepare(spec: &RunSpec, place: &Place<'_>) -> Option<OwnCopy> {
    let submit = spec.setup.submit_result.as_ref().map(|submit| &submit.vendor_file);
    let mut file = submit.or(spec.setup.vendor_file.as_ref())?.clone();
    let mut servers = mcp_config::servers(spec, place);
    keep_denials(&file, &mut servers);
    let program = place.own_program.display().to_string();
    if submit.is_some() {
        servers.insert(SERVER.to_owned(), json!({"command": program, "args": [SUBMIT_COMMAND], "env": {}}));
        add(&mut file, "tools", &format!("@{SERVER}"));
        add(&mut file, "allowedTools", TRUSTED);
    }
    for key in INCLUDING {
        if let Some(included) = file.get_mut(key) {
            *included = Value::Bool(false);
        }
    }
    let agent = format!("volery-{}", spec.agent);
    file.insert("name".to_owned(), Value::String(agent.clone()));
    file.insert("mcpServers".to_owned(), Value::Object(servers));
    if let Some(Value::String(prompt)) = file.get_mut("prompt") {
        *prompt = beside(prompt, &spec.source);
    }
    // A folder with secrets goes with the run's end.
    let name = format!("{FOLDER}/agents/{agent}.json");
    let file = mcp_config::written(&name, &Value::Object(file), spec);
    let folder = file.name.split('/').next().unwrap_or(FOLDER);
    let variable = (HOME_VARIABLE.to_owned(), Setting::Plain(place.file(folder)));
    Some(OwnCopy { agent, answer_tool: submit.is_some(), file, variable })
}

/// Copies what the file says that servers shall not offer.
fn keep_denials(file: &Map<String, Value>, servers: &mut Map<String, Value>) {
    for (name, server) in servers {
        let theirs = file.get("mcpServers").and_then(|all| all.get(name)?.get(DENIED));
        if let Some(denied) = theirs {
            server[DENIED] = denied.clone();
        }
    }
}

/// Returns the prompt of an agent that answers by the tool.
pub(super) fn prompt(spec: &RunSpec, prompt: &str) -> String {
    format!("{}\n\n{}", super::in_directory(&spec.directory, prompt), INSTRUCTION.trim_end())
}

/// Adds an entry to a list, which is made if it is absent, since an absent one stands for nothing. One that stands for
/// everything has it already.
fn add(file: &mut Map<String, Value>, key: &str, entry: &str) {
    let absent = !file.contains_key(key);
    match file.get_mut(key) {
        Some(Value::Array(list)) if !list.iter().any(|known| known == "*") => list.push(json!(entry)),
        _ if absent => {
            file.insert(key.to_owned(), json!([entry]));
        }
        _ => {}
    }
}

/// Returns a reference to a file that stands beside the agent's own as one that does not depend on it.
fn beside(prompt: &str, source: &str) -> String {
    let Some(path) = prompt.strip_prefix("file://") else { return prompt.to_owned() };
    let folder = Path::new(source).parent().unwrap_or(Path::new("/"));
    if path.starts_with(['/', '~', '$']) {
        return prompt.to_owned();
    }
    format!("file://{}", folder.join(path.trim_start_matches("./")).display())
}
