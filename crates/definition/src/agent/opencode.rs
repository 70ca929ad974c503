//! `.opencode/agent` and `.opencode/agents`: the agents of opencode, named like their files unless a name stands in them.

use domain::agent::{Agent, Format};
use domain::diagnostic::Diagnostic;
use domain::setup::PromptMode;

use super::AgentFile;
use super::markdown::{self, Frontmatter};
use super::opencode_permission;
use super::setup::{read_effort, take_flag, take_turns};
use super::values::{ONLY_LOOKS, take_description, take_inherited_model, take_unhonoured, vendor_agent};
use crate::text::{Fields, Findings, choice};

/// Reads an agent. One that is switched off is none, without a finding.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    markdown::read(agent_file, Format::Opencode, Frontmatter::Optional, read_fields)
}

/// Who may ask for the agent.
#[derive(Clone, Copy)]
enum Mode {
    Direct,
    /// Only other agents of opencode.
    Below,
}

fn read_fields(
    mut fields: Fields<'_>,
    agent_file: AgentFile<'_>,
    findings: &mut Findings<'_>,
) -> Option<Agent> {
    let mut agent = vendor_agent("opencode", Format::Opencode, &mut fields, agent_file, findings);
    agent.description = take_description(&mut fields, findings);
    agent.model = take_inherited_model(&mut fields, findings);
    let setup = &mut agent.setup;
    setup.prompt_mode = PromptMode::Replace;
    let mut mode = Mode::Direct;
    if let Some(node) = fields.take("mode") {
        let modes = [("primary", Mode::Direct), ("subagent", Mode::Below), ("all", Mode::Direct)];
        mode = choice(node, "mode", &modes, findings).unwrap_or(mode);
    }
    // The program runs another agent without an error if it is asked for one that stands below others.
    if let Mode::Direct = mode {
        setup.vendor_agent = Some(agent_file.stem.to_owned());
    }
    // The older key says the same.
    let turns = [take_turns(&mut fields, "steps", findings), take_turns(&mut fields, "maxSteps", findings)];
    setup.max_turns = turns.into_iter().flatten().next();
    setup.effort = fields.take("variant").and_then(|node| read_effort(node, "variant", findings));
    let (tools, permission) = (fields.take("tools"), fields.take("permission"));
    setup.permission = opencode_permission::read(tools, permission, findings);
    let disabled = take_flag(&mut fields, "disable", findings);
    let unhonoured = [
        ("prompt", "the text below the frontmatter is the system prompt"),
        ("temperature", "opencode's default holds"),
        ("top_p", "opencode's default holds"),
        ("options", "opencode's default holds"),
        ("hidden", "the agent is listed like the others"),
        ("color", ONLY_LOOKS),
    ];
    take_unhonoured(&mut fields, &unhonoured, findings);
    fields.close(findings);
    (!disabled).then_some(agent)
}
