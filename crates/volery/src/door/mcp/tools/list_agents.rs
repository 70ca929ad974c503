//! `list_agents`: who can be delegated to.

use domain::diagnostic::Diagnostic;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::call::Call;
use super::catalogue::{Hints, NativeTool, Reply};
use super::report::fit;
use crate::app::{self, AgentList, AgentView, AppError};

/// How much is shown of a description.
const DESCRIPTION_BYTES: usize = 1 << 10;
const AGENTS_MAX: usize = 200;
const PROBLEMS_MAX: usize = 20;

pub(super) struct ListAgents;

/// List the agents that tasks can be delegated to, with what each is for and when to use or avoid it. Call this
/// before the first run_agent, and choose by description, not by name alone.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Input {
    /// The absolute path of a directory; the agents of its project are listed. Left out: the project that this
    /// server was started in.
    directory: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    /// The directory of the project.
    project: String,
    agents: Vec<Agent>,
    /// How many more there are than are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<usize>,
    /// What is wrong with the files that define agents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
    /// What to do next, where something is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Agent {
    name: String,
    description: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    use_when: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    avoid_when: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    capabilities: Vec<String>,
    /// What a caller gives beside the prompt, in run_agent's inputs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inputs: Vec<Wanted>,
    /// true: no file defines it. It is a program that is installed here, for any task. Prefer an agent that is made for
    /// the task, where there is one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    built_in: bool,
    /// How the agent is driven.
    backend: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Why it cannot run as things are, and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Wanted {
    name: String,
    /// The type of the value.
    kind: String,
    required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
}

impl NativeTool for ListAgents {
    const NAME: &'static str = "list_agents";
    const TITLE: &'static str = "List agents";
    const HINTS: Hints = Hints::LOOKS;
    const SEARCH_HINT: &'static str = "which sub-agents can I delegate to";

    type Input = Input;
    type Output = Output;

    async fn call(call: &Call<'_>, input: Input) -> Result<Reply<Output>, AppError> {
        let list = call.door.app.list_agents(app::ListAgents { directory: input.directory }).await?;
        let more = list.agents.len().saturating_sub(AGENTS_MAX);
        let next = list.agents.is_empty().then(|| nothing_to_offer(&list));
        Ok(Reply::Done(Output {
            next,
            project: list.project,
            agents: list.agents.into_iter().take(AGENTS_MAX).map(Agent::from).collect(),
            more: (more > 0).then_some(more),
            problems: list.diagnostics.iter().take(PROBLEMS_MAX).map(Diagnostic::to_string).collect(),
        }))
    }
}

fn nothing_to_offer(list: &AgentList) -> String {
    if list.diagnostics.is_empty() {
        let place = format!("{}/.volery/agents/", list.project);
        format!(
            "No agents are defined. They are markdown files in {place}; another project is named by directory."
        )
    } else {
        "No agent can be used: tell your user about the problems.".into()
    }
}

impl From<AgentView> for Agent {
    fn from(view: AgentView) -> Self {
        Self {
            name: view.name,
            description: fit(&view.description, DESCRIPTION_BYTES).to_owned(),
            use_when: view.use_when,
            avoid_when: view.avoid_when,
            capabilities: view.capabilities,
            inputs: view.inputs.into_iter().map(Wanted::from).collect(),
            built_in: view.built_in,
            backend: view.backend,
            model: view.model,
            problem: view.problem,
        }
    }
}

impl From<domain::agent::Input> for Wanted {
    fn from(input: domain::agent::Input) -> Self {
        let domain::agent::Input { name, kind, required, default, description } = input;
        let description = fit(&description, DESCRIPTION_BYTES).to_owned();
        Self { name, kind, required, default, description }
    }
}
