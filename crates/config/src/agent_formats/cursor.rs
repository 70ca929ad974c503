//! `.cursor/agents`: the sub-agents of Cursor.

use domain::agent::{Agent, AgentFormat};
use domain::diagnostic::Diagnostic;
use domain::permission::Level;

use super::AgentFile;
use super::markdown::{self, Frontmatter};
use super::setup::take_flag;
use super::shared_keys::{take_description, take_inherited_model, take_unsupported, vendor_agent};
use crate::text::{Diagnostics, Fields};

/// Reads an agent. Returns `None` exactly if there is an error.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    markdown::read(agent_file, AgentFormat::Cursor, Frontmatter::Optional, read_fields)
}

fn read_fields(
    mut fields: Fields<'_>,
    agent_file: AgentFile<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Agent> {
    let mut agent = vendor_agent("cursor", AgentFormat::Cursor, &mut fields, agent_file, diagnostics);
    agent.description = take_description(&mut fields, diagnostics);
    agent.model = take_inherited_model(&mut fields, diagnostics);
    if take_flag(&mut fields, "readonly", diagnostics) {
        agent.setup.permission.level = Some(Level::ReadOnly);
    }
    take_unsupported(&mut fields, &[("is_background", "the caller decides whether it waits")], diagnostics);
    fields.close(diagnostics);
    Some(agent)
}
