//! A tool for the answer of an agent that may not write files. Kiro takes an agent's servers from the agent's own file
//! only, so the run gets a folder of Kiro's kind with a copy of that file, and our server in it.

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

/// What a run needs for the tool.
pub(super) struct AnswerTool {
    /// The name of the copy: Kiro would prefer a project's file of the same name.
    pub(super) agent: String,
    pub(super) file: WorkFile,
    pub(super) variable: (String, Setting),
}

/// Returns the agent's file with our server, if the agent answers by it.
pub(super) fn prepare(spec: &RunSpec, place: &Place<'_>) -> Option<AnswerTool> {
    let submit = spec.setup.submit_result.as_ref()?;
    let mut file = submit.vendor_file.clone();
    let mut servers = mcp_config::servers(spec, place);
    let program = place.own_program.display().to_string();
    servers.insert(SERVER.to_owned(), json!({"command": program, "args": [SUBMIT_COMMAND], "env": {}}));
    let agent = format!("volery-{}", spec.agent);
    file.insert("name".to_owned(), Value::String(agent.clone()));
    file.insert("mcpServers".to_owned(), Value::Object(servers));
    add(&mut file, "tools", &format!("@{SERVER}"));
    add(&mut file, "allowedTools", TRUSTED);
    if let Some(Value::String(prompt)) = file.get_mut("prompt") {
        *prompt = beside(prompt, &spec.source);
    }
    // A folder with secrets goes with the run's end.
    let name = format!("{FOLDER}/agents/{agent}.json");
    let file = WorkFile::with_variables(&name, Value::Object(file).to_string(), mcp_config::variables(spec));
    let folder = file.name.split('/').next().unwrap_or(FOLDER);
    let variable = (HOME_VARIABLE.to_owned(), Setting::Plain(place.file(folder)));
    Some(AnswerTool { agent, file, variable })
}

/// Returns the prompt of an agent that answers by the tool.
pub(super) fn prompt(spec: &RunSpec, prompt: &str) -> String {
    format!("{}\n\n{}", super::in_directory(&spec.directory, prompt), INSTRUCTION.trim_end())
}

/// Adds an entry to a list, unless the list is absent and so stands for everything.
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
