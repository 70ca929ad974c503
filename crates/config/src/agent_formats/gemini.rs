//! `.gemini/agents`: the sub-agents of Gemini CLI.

use domain::agent::{Agent, AgentFormat};
use domain::diagnostic::Diagnostic;
use domain::setup::PromptMode;

use super::AgentFile;
use super::markdown::{self, Frontmatter};
use super::mcp_servers::read_servers;
use super::setup::{read_temperature, read_tool_names, take_turns};
use super::shared_keys::{
    COSMETIC_ONLY, take_description, take_inherited_model, take_unsupported, vendor_agent,
};
use crate::text::{Bounds, Diagnostics, Fields, read_choice, read_integer};

const MINIMAL: &str = "begin the file with four lines: `---`, `name: NAME`, `description: TEXT`, `---`";
const MINUTE_MS: u64 = 60_000;

/// Reads an agent. Returns `None` exactly if there is an error.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    markdown::read(agent_file, AgentFormat::Gemini, Frontmatter::Required { hint: MINIMAL }, read_fields)
}

#[derive(Clone, Copy, PartialEq)]
enum AgentKind {
    Local,
    Remote,
}

fn read_fields(
    mut fields: Fields<'_>,
    agent_file: AgentFile<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Agent> {
    if let Some(node) = fields.take("kind") {
        let kinds = [("local", AgentKind::Local), ("remote", AgentKind::Remote)];
        if read_choice(node, "kind", &kinds, diagnostics) == Some(AgentKind::Remote) {
            let hint = "give the agent a kind: local and a system prompt";
            diagnostics.error_with_hint(node.location, "kind: a remote agent cannot be run", hint);
            // The other keys of such a file are different ones.
            return None;
        }
    }
    let mut agent = vendor_agent("gemini", AgentFormat::Gemini, &mut fields, agent_file, diagnostics);
    agent.description = take_description(&mut fields, diagnostics);
    agent.model = take_inherited_model(&mut fields, diagnostics);
    let setup = &mut agent.setup;
    setup.prompt_mode = PromptMode::Replace;
    let tools = fields.take("tools").map(|node| read_tool_names(node, "tools", diagnostics));
    setup.tools = tools.filter(|tools| !tools.iter().any(|tool| tool == "*"));
    // The program accepts only the first spelling; its documentation uses both.
    for key in ["mcp_servers", "mcpServers"] {
        if let Some(node) = fields.take(key) {
            setup.mcp_servers = read_servers(node, key, diagnostics);
            break;
        }
    }
    setup.max_turns = take_turns(&mut fields, "max_turns", diagnostics);
    if let Some(node) = fields.take("timeout_mins") {
        let minutes = read_integer(node, "timeout_mins", Bounds::from(1).up_to(60 * 24 * 365), diagnostics);
        agent.limits.timeout_ms = minutes.map(|minutes| minutes * MINUTE_MS);
    }
    setup.temperature = fields.take("temperature").and_then(|node| read_temperature(node, diagnostics));
    take_unsupported(&mut fields, &[("display_name", COSMETIC_ONLY)], diagnostics);
    fields.close(diagnostics);
    Some(agent)
}
