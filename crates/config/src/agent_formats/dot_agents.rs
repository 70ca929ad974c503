//! `.agents/`: the markdown of sub-agents-skills, whose frontmatter names the program that runs the agent.

use domain::agent::{Agent, AgentFormat};
use domain::diagnostic::Diagnostic;

use super::AgentFile;
use super::markdown::{self, Frontmatter};
use super::plain::{PlainDefaults, describe};
use super::setup::{LEVELS, read_effort};
use super::shared_keys::{read_backend, read_model, take_name};
use crate::text::{Diagnostics, Fields, read_choice, read_text};

/// Reads an agent. The defaults supply a missing `run-agent`, model, effort or level.
pub fn read(agent_file: AgentFile<'_>, defaults: &PlainDefaults) -> (Option<Agent>, Vec<Diagnostic>) {
    let (mut agent, diagnostics) = markdown::read(
        agent_file,
        AgentFormat::DotAgents,
        Frontmatter::Optional,
        |fields, agent_file, diagnostics| read_fields(fields, agent_file, defaults, diagnostics),
    );
    if let Some(agent) = &mut agent
        && agent.description.is_empty()
    {
        agent.description = describe(&agent.system_prompt);
    }
    (agent, diagnostics)
}

/// Returns the readable part of a file with errors, so that all problems can be reported at once. Not to be run.
pub fn draft(agent_file: AgentFile<'_>, defaults: &PlainDefaults) -> Option<Agent> {
    let (draft, _) = markdown::draft(
        agent_file,
        AgentFormat::DotAgents,
        Frontmatter::Optional,
        |fields, agent_file, diagnostics| read_fields(fields, agent_file, defaults, diagnostics),
    );
    draft
}

fn read_fields(
    mut fields: Fields<'_>,
    agent_file: AgentFile<'_>,
    defaults: &PlainDefaults,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Agent> {
    let name = take_name(&mut fields, agent_file.stem, diagnostics);
    let description = fields.take("description").and_then(|node| read_text(node, "description", diagnostics));
    let backend = match fields.take("run-agent") {
        Some(node) => read_backend(node, "run-agent", diagnostics),
        None => Some(defaults.backend.clone()),
    };
    let model = fields.take("model").and_then(|node| read_model(node, diagnostics));
    let effort = fields.take("effort").and_then(|node| read_effort(node, "effort", diagnostics));
    let level =
        fields.take("permission").and_then(|node| read_choice(node, "permission", &LEVELS, diagnostics));
    fields.close(diagnostics);
    let mut agent = Agent::new(name?, backend?, agent_file.source(AgentFormat::DotAgents));
    agent.description = description.unwrap_or_default().trim().to_owned();
    agent.model = model.or_else(|| defaults.model.clone());
    agent.setup.effort = effort.or_else(|| defaults.effort.clone());
    agent.setup.permission.level = level.or(defaults.level);
    Some(agent)
}
