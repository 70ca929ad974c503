//! `.gemini/agents`: the sub-agents of Gemini CLI.

use domain::agent::{Agent, Format};
use domain::diagnostic::Diagnostic;
use domain::setup::PromptMode;

use super::AgentFile;
use super::markdown::{self, Frontmatter};
use super::servers::read_servers;
use super::setup::{names, read_temperature, take_turns};
use super::values::{ONLY_LOOKS, take_description, take_inherited_model, take_unhonoured, vendor_agent};
use crate::text::{Bounds, Fields, Findings, amount, choice};

const MINIMAL: &str = "begin the file with four lines: `---`, `name: NAME`, `description: TEXT`, `---`";
const MINUTE_MS: u64 = 60_000;

/// Reads an agent. There is one exactly if no finding is an error.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    markdown::read(agent_file, Format::Gemini, Frontmatter::Required { hint: MINIMAL }, read_fields)
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Local,
    Remote,
}

fn read_fields(
    mut fields: Fields<'_>,
    agent_file: AgentFile<'_>,
    findings: &mut Findings<'_>,
) -> Option<Agent> {
    if let Some(node) = fields.take("kind") {
        let kinds = [("local", Kind::Local), ("remote", Kind::Remote)];
        if choice(node, "kind", &kinds, findings) == Some(Kind::Remote) {
            let hint = "give the agent a kind: local and a system prompt";
            findings.error_with_hint(node.place, "kind: a remote agent cannot be run", hint);
            // The rest of such a file is written in other words.
            return None;
        }
    }
    let mut agent = vendor_agent("gemini", Format::Gemini, &mut fields, agent_file, findings);
    agent.description = take_description(&mut fields, findings);
    agent.model = take_inherited_model(&mut fields, findings);
    let setup = &mut agent.setup;
    setup.prompt_mode = PromptMode::Replace;
    let tools = fields.take("tools").map(|node| names(node, "tools", findings));
    setup.tools = tools.filter(|tools| !tools.iter().any(|tool| tool == "*"));
    // The program itself knows only the first spelling, and its documentation both.
    for key in ["mcp_servers", "mcpServers"] {
        if let Some(node) = fields.take(key) {
            setup.mcp_servers = read_servers(node, key, findings);
            break;
        }
    }
    setup.max_turns = take_turns(&mut fields, "max_turns", findings);
    if let Some(node) = fields.take("timeout_mins") {
        let minutes = amount(node, "timeout_mins", Bounds::from(1).up_to(60 * 24 * 365), findings);
        agent.limits.timeout_ms = minutes.map(|minutes| minutes * MINUTE_MS);
    }
    setup.temperature = fields.take("temperature").and_then(|node| read_temperature(node, findings));
    take_unhonoured(&mut fields, &[("display_name", ONLY_LOOKS)], findings);
    fields.close(findings);
    Some(agent)
}
