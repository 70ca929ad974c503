//! `.agents/`: the markdown of sub-agents-skills, whose frontmatter says which program runs the agent.

use domain::agent::{Agent, Format};
use domain::diagnostic::Diagnostic;

use super::AgentFile;
use super::markdown::{self, Frontmatter};
use super::plain::{PlainDefaults, describe};
use super::setup::{LEVELS, read_effort};
use super::values::{read_backend, read_model, take_name};
use crate::text::{Fields, Findings, choice, text};

/// Reads an agent. A file that says no `run-agent`, model, effort or level gets those of the defaults.
pub fn read(agent_file: AgentFile<'_>, defaults: &PlainDefaults) -> (Option<Agent>, Vec<Diagnostic>) {
    let (mut agent, found) = markdown::read(
        agent_file,
        Format::DotAgents,
        Frontmatter::Optional,
        |fields, agent_file, findings| read_fields(fields, agent_file, defaults, findings),
    );
    if let Some(agent) = &mut agent
        && agent.description.is_empty()
    {
        agent.description = describe(&agent.system_prompt);
    }
    (agent, found)
}

/// Returns what can be read of a file with errors, so that all that is wrong can be told at once. Not to be run.
pub fn draft(agent_file: AgentFile<'_>, defaults: &PlainDefaults) -> Option<Agent> {
    let (draft, _) = markdown::draft(
        agent_file,
        Format::DotAgents,
        Frontmatter::Optional,
        |fields, agent_file, findings| read_fields(fields, agent_file, defaults, findings),
    );
    draft
}

fn read_fields(
    mut fields: Fields<'_>,
    agent_file: AgentFile<'_>,
    defaults: &PlainDefaults,
    findings: &mut Findings<'_>,
) -> Option<Agent> {
    let name = take_name(&mut fields, agent_file.stem, findings);
    let description = fields.take("description").and_then(|node| text(node, "description", findings));
    let backend = match fields.take("run-agent") {
        Some(node) => read_backend(node, "run-agent", findings),
        None => Some(defaults.backend.clone()),
    };
    let model = fields.take("model").and_then(|node| read_model(node, findings));
    let effort = fields.take("effort").and_then(|node| read_effort(node, "effort", findings));
    let level = fields.take("permission").and_then(|node| choice(node, "permission", &LEVELS, findings));
    fields.close(findings);
    let mut agent = Agent::new(name?, backend?, agent_file.source(Format::DotAgents));
    agent.description = description.unwrap_or_default().trim().to_owned();
    agent.model = model.or_else(|| defaults.model.clone());
    agent.setup.effort = effort.or_else(|| defaults.effort.clone());
    agent.setup.permission.level = level.or(defaults.level);
    Some(agent)
}
