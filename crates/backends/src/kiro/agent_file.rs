//! The agent definition that is written for a run: the prompt, servers and instructions of the run's agent in the format of Kiro.

use domain::run::RunSpec;
use domain::setup::Context;
use serde_json::json;

use super::HOME_VARIABLE;
use crate::contract::{EnvValue, LaunchContext, SECRET_PREFIX, WorkFile};
use crate::mcp_config;

pub(super) const NAME: &str = "volery";
const HOME_FOLDER: &str = "kiro";

/// Instructions that Kiro reads by itself in its working directory.
const INSTRUCTIONS: [&str; 2] = ["AGENTS.md", ".kiro/steering/**/*.md"];

/// Returns the name of the working directory below the run's work folder. If it contains secrets of servers, it is deleted when the
/// run ends.
pub(super) fn session_folder(spec: &RunSpec, name: &str) -> String {
    let prefix = if mcp_config::holds_secrets(spec) { SECRET_PREFIX } else { "" };
    format!("{prefix}{name}")
}

/// Returns the agent's file as one of the project, for a run with a working directory of its own.
pub(super) fn project_agent(spec: &RunSpec, context: &LaunchContext<'_>, folder: &str) -> WorkFile {
    agent_file(spec, context, &format!("{folder}/.kiro"))
}

/// Returns the agent's file as one of the user, and the variable with its folder: for a run in another working directory.
pub(super) fn user_agent(spec: &RunSpec, context: &LaunchContext<'_>) -> (WorkFile, (String, EnvValue)) {
    let file = agent_file(spec, context, HOME_FOLDER);
    let folder = file.name.split('/').next().unwrap_or(HOME_FOLDER);
    let variable = (HOME_VARIABLE.to_owned(), EnvValue::Plain(context.work_file_path(folder)));
    (file, variable)
}

/// The agent has only its own servers: those of the user are excluded.
fn agent_file(spec: &RunSpec, context: &LaunchContext<'_>, folder: &str) -> WorkFile {
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
        "mcpServers": mcp_config::servers(spec, context),
        "includeMcpJson": false,
        "resources": resources,
    });
    let name = format!("{folder}/agents/{NAME}.json");
    mcp_config::config_work_file(&name, &agent, spec)
}
