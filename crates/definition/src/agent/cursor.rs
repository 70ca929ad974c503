//! `.cursor/agents`: the sub-agents of Cursor.

use domain::agent::{Agent, Format};
use domain::diagnostic::Diagnostic;
use domain::permission::Level;

use super::AgentFile;
use super::markdown::{self, Frontmatter};
use super::setup::take_flag;
use super::values::{take_description, take_inherited_model, take_unhonoured, vendor_agent};
use crate::text::{Fields, Findings};

/// Reads an agent. There is one exactly if no finding is an error.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    markdown::read(agent_file, Format::Cursor, Frontmatter::Optional, read_fields)
}

fn read_fields(
    mut fields: Fields<'_>,
    agent_file: AgentFile<'_>,
    findings: &mut Findings<'_>,
) -> Option<Agent> {
    let mut agent = vendor_agent("cursor", Format::Cursor, &mut fields, agent_file, findings);
    agent.description = take_description(&mut fields, findings);
    agent.model = take_inherited_model(&mut fields, findings);
    if take_flag(&mut fields, "readonly", findings) {
        agent.setup.permission.level = Some(Level::ReadOnly);
    }
    take_unhonoured(&mut fields, &[("is_background", "the caller decides whether it waits")], findings);
    fields.close(findings);
    Some(agent)
}
