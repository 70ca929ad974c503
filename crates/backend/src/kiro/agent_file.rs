//! The agent that Kiro is given in the directory it works in: prompt, servers and instructions of the run's own agent.

use domain::run::RunSpec;
use domain::setup::Context;
use serde_json::json;

use super::HOME_VARIABLE;
use crate::contract::{Place, SECRET_PREFIX, Setting, WorkFile};
use crate::mcp_config;

pub(super) const NAME: &str = "volery";
const HOME: &str = "kiro";

/// What Kiro reads by itself in a directory that it works in.
const INSTRUCTIONS: [&str; 2] = ["AGENTS.md", ".kiro/steering/**/*.md"];

/// Returns the directory that the run works in, below its work folder. If its servers are handed secrets, it goes with
/// the run's end.
pub(super) fn folder(spec: &RunSpec, name: &str) -> String {
    let prefix = if mcp_config::holds_secrets(spec) { SECRET_PREFIX } else { "" };
    format!("{prefix}{name}")
}

/// Returns the agent's file, for a run that works in a folder of its own.
pub(super) fn file(spec: &RunSpec, place: &Place<'_>, folder: &str) -> WorkFile {
    written(spec, place, &format!("{folder}/.kiro"))
}

/// Returns the agent's file as one of the user's, and the variable that leads there: for a run that works elsewhere.
pub(super) fn as_user(spec: &RunSpec, place: &Place<'_>) -> (WorkFile, (String, Setting)) {
    let file = written(spec, place, HOME);
    let folder = file.name.split('/').next().unwrap_or(HOME);
    let variable = (HOME_VARIABLE.to_owned(), Setting::Plain(place.file(folder)));
    (file, variable)
}

/// Its servers are all that the agent has: those of the user are left out.
fn written(spec: &RunSpec, place: &Place<'_>, folder: &str) -> WorkFile {
    let loads = spec.setup.context != Context::None;
    let resources: Vec<String> = INSTRUCTIONS
        .iter()
        .filter(|_| loads)
        .map(|file| format!("file://{}/{file}", spec.directory))
        .collect();
    let agent = json!({
        "name": NAME,
        "description": spec.agent.as_str(),
        "prompt": spec.system_prompt,
        "tools": ["*"],
        "mcpServers": mcp_config::servers(spec, place),
        "includeMcpJson": false,
        "resources": resources,
    });
    let name = format!("{folder}/agents/{NAME}.json");
    mcp_config::written(&name, &agent, spec)
}
