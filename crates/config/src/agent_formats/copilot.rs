//! `.github/agents`: the custom agents of GitHub Copilot, named by their files. A file may also be for an editor,
//! whose keys have no effect here.

use domain::agent::{Agent, AgentFormat};
use domain::diagnostic::Diagnostic;

use super::AgentFile;
use super::markdown::{self, Frontmatter};
use super::mcp_servers::read_servers;
use super::setup::read_tool_names;
use super::shared_keys::{name_from_display_name, new_agent, read_model, take_description, take_unsupported};
use crate::text::{Diagnostics, Fields, Node, NodeValue, read_choice};

/// Reads an agent. The result is `None` exactly if there is an error, or if the file is for another program.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    markdown::read(agent_file, AgentFormat::Copilot, Frontmatter::Optional, read_fields)
}

fn read_fields(
    mut fields: Fields<'_>,
    agent_file: AgentFile<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Agent> {
    // `name` is for people; the program finds the agent by its file.
    let stem = agent_file.stem.strip_suffix(".agent").unwrap_or(agent_file.stem);
    let name = name_from_display_name(stem, stem, fields.location, diagnostics);
    fields.take("name");
    let mut agent = new_agent(name, "copilot", AgentFormat::Copilot, agent_file);
    agent.description = take_description(&mut fields, diagnostics);
    if let Some(node) = fields.take("model") {
        agent.model = first_model(node, diagnostics);
    }
    let tools = fields.take("tools").map(|node| read_tool_names(node, "tools", diagnostics));
    agent.setup.tools = tools.filter(|tools| !tools.iter().any(|tool| tool == "*"));
    if let Some(node) = fields.take("mcp-servers") {
        agent.setup.mcp_servers = read_servers(node, "mcp-servers", diagnostics);
    }
    agent.setup.vendor_agent = Some(stem.to_owned());
    let targets = [("vscode", false), ("github-copilot", true)];
    let mut is_for_copilot_cli = true;
    if let Some(node) = fields.take("target") {
        is_for_copilot_cli = read_choice(node, "target", &targets, diagnostics).unwrap_or(true);
        if !is_for_copilot_cli {
            diagnostics
                .warning(node.location, "target: the agent is meant for vscode alone, so it is left out");
        }
    }
    let unsupported = [
        ("disable-model-invocation", "whoever lists agents may also ask for them"),
        ("user-invocable", "whoever lists agents may also ask for them"),
        ("infer", "whoever lists agents may also ask for them"),
        ("metadata", "nothing reads it"),
        ("argument-hint", "only an editor shows it"),
        ("handoffs", "only an editor offers them"),
        ("agents", "the agent may not delegate; Volery's own format has delegates"),
    ];
    take_unsupported(&mut fields, &unsupported, diagnostics);
    fields.close(diagnostics);
    is_for_copilot_cli.then_some(agent)
}

/// Editors accept a list of models in the order of preference.
fn first_model(node: &Node, diagnostics: &mut Diagnostics<'_>) -> Option<String> {
    let NodeValue::List(items) = &node.value else { return read_model(node, diagnostics) };
    if items.len() > 1 {
        diagnostics.warning(node.location, "model: only the first of the list is used");
    }
    items.first().and_then(|item| read_model(item, diagnostics))
}
