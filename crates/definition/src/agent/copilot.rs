//! `.github/agents`: the custom agents of GitHub Copilot, known by their file's name. The file may also be meant
//! for an editor, whose keys have no meaning here.

use domain::agent::{Agent, Format};
use domain::diagnostic::Diagnostic;

use super::AgentFile;
use super::markdown::{self, Frontmatter};
use super::servers::read_servers;
use super::setup::names;
use super::values::{display_name, new_agent, read_model, take_description, take_unhonoured};
use crate::text::{Fields, Findings, Node, Shape, choice};

/// Reads an agent. There is one exactly if no finding is an error, unless it is meant for another program.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    markdown::read(agent_file, Format::Copilot, Frontmatter::Optional, read_fields)
}

fn read_fields(
    mut fields: Fields<'_>,
    agent_file: AgentFile<'_>,
    findings: &mut Findings<'_>,
) -> Option<Agent> {
    // `name` is for people; the program finds the agent by its file.
    let stem = agent_file.stem.strip_suffix(".agent").unwrap_or(agent_file.stem);
    let name = display_name(stem, stem, fields.place, findings);
    fields.take("name");
    let mut agent = new_agent(name, "copilot", Format::Copilot, agent_file);
    agent.description = take_description(&mut fields, findings);
    if let Some(node) = fields.take("model") {
        agent.model = first_model(node, findings);
    }
    let tools = fields.take("tools").map(|node| names(node, "tools", findings));
    agent.setup.tools = tools.filter(|tools| !tools.iter().any(|tool| tool == "*"));
    if let Some(node) = fields.take("mcp-servers") {
        agent.setup.mcp_servers = read_servers(node, "mcp-servers", findings);
    }
    agent.setup.vendor_agent = Some(stem.to_owned());
    let targets = [("vscode", false), ("github-copilot", true)];
    let mut is_meant = true;
    if let Some(node) = fields.take("target") {
        is_meant = choice(node, "target", &targets, findings).unwrap_or(true);
        if !is_meant {
            findings.warning(node.place, "target: the agent is meant for vscode alone, so it is left out");
        }
    }
    let unhonoured = [
        ("disable-model-invocation", "whoever lists agents may also ask for them"),
        ("user-invocable", "whoever lists agents may also ask for them"),
        ("infer", "whoever lists agents may also ask for them"),
        ("metadata", "nothing reads it"),
        ("argument-hint", "only an editor shows it"),
        ("handoffs", "only an editor offers them"),
        ("agents", "the agent may not delegate; Volery's own format has delegates"),
    ];
    take_unhonoured(&mut fields, &unhonoured, findings);
    fields.close(findings);
    is_meant.then_some(agent)
}

/// Editors take a list of models in the order of preference.
fn first_model(node: &Node, findings: &mut Findings<'_>) -> Option<String> {
    let Shape::List(items) = &node.shape else { return read_model(node, findings) };
    if items.len() > 1 {
        findings.warning(node.place, "model: only the first of the list is used");
    }
    items.first().and_then(|item| read_model(item, findings))
}
