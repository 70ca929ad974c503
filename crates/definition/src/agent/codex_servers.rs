//! The MCP servers of Codex' agents. Beside what other programs have, Codex documents which tools of a server are left
//! out and which are asked about; these become rules.

use domain::mcp_server::McpServer;
use domain::permission::{Permission, Rule, ToolKind};

use super::servers::read_servers;
use crate::text::{Entry, Fields, Findings, Node, Shape, choice, quoted, text, text_or_list};

const SERVERS: &str = "mcp_servers";
/// What only Codex has.
const OWN_KEYS: [&str; 3] = ["disabled_tools", "default_tools_approval_mode", "tools"];

/// When somebody is asked before a tool is used.
#[derive(Clone, Copy, PartialEq)]
enum Approval {
    /// The server is the agent's own, and there to be used.
    Unasked,
    Asked,
}

/// Which tools write is not known here, so all of them are asked about.
const MODES: [(&str, Approval); 4] = [
    ("auto", Approval::Unasked),
    ("approve", Approval::Unasked),
    ("prompt", Approval::Asked),
    ("writes", Approval::Asked),
];

/// Reads the servers, and puts into the permission what may be done with their tools.
pub(super) fn read(node: &Node, permission: &mut Permission, findings: &mut Findings<'_>) -> Vec<McpServer> {
    let Shape::Map(entries) = &node.shape else { return read_servers(node, SERVERS, findings) };
    let (shared, own): (Vec<Entry>, Vec<Node>) = entries.iter().map(|entry| part(entry, findings)).unzip();
    let mut servers = read_servers(&Node { place: node.place, shape: Shape::Map(shared) }, SERVERS, findings);
    for (entry, own) in entries.iter().zip(&own) {
        let server = servers.iter_mut().find(|server| server.name == entry.key);
        let rules = Rules { server: &entry.key, permission, findings };
        rules.read(own, server);
    }
    servers
}

/// Parts the keys that only Codex has from the others.
fn part(entry: &Entry, findings: &mut Findings<'_>) -> (Entry, Node) {
    let node = |shape| Node { place: entry.node.place, shape };
    let Shape::Map(entries) = &entry.node.shape else {
        return (entry.clone(), node(Shape::Map(Vec::new())));
    };
    let entries = entries.iter().cloned();
    let (own, mut shared): (Vec<Entry>, Vec<Entry>) =
        entries.partition(|entry| OWN_KEYS.contains(&entry.key.as_str()));
    for entry in shared.iter_mut().filter(|entry| entry.key == "env_vars") {
        if let Shape::List(items) = &mut entry.node.shape {
            *items = items.iter().filter_map(|item| variable(item, findings)).collect();
        }
    }
    (Entry { node: node(Shape::Map(shared)), ..entry.clone() }, node(Shape::Map(own)))
}

/// Returns the name of a variable that may stand in a table, unless its value is on another machine.
fn variable(item: &Node, findings: &mut Findings<'_>) -> Option<Node> {
    let Shape::Map(_) = &item.shape else { return Some(item.clone()) };
    let within = format!("{SERVERS}.env_vars");
    let mut fields = Fields::open(item, &within, findings)?;
    let name = fields.take("name").cloned();
    let source = fields.take("source").and_then(|node| text(node, &fields.name("source"), findings));
    fields.close(findings);
    if name.is_none() {
        findings.error(item.place, format!("the key {within}.name is missing"));
    }
    if source.is_some_and(|source| source != "local") {
        let message =
            format!("{within}.source is not honoured: only variables of this machine are handed over");
        findings.warning(item.place, message);
        return None;
    }
    name
}

/// Reads what becomes rules about one server.
struct Rules<'a, 'b, 'c> {
    server: &'a str,
    permission: &'b mut Permission,
    findings: &'b mut Findings<'c>,
}

impl Rules<'_, '_, '_> {
    fn read(mut self, own: &Node, server: Option<&mut McpServer>) {
        let Some(mut fields) = Fields::open(own, SERVERS, self.findings) else { return };
        let default = fields.take("default_tools_approval_mode");
        let default = default
            .and_then(|node| choice(node, &fields.name("default_tools_approval_mode"), &MODES, self.findings))
            .unwrap_or(Approval::Unasked);
        // One that is switched off, or wrong, has no tools to speak of.
        let is_there = server.is_some();
        if is_there {
            self.rule(None, default, own);
        }
        if let Some(node) = fields.take("disabled_tools") {
            let disabled = text_or_list(node, &fields.name("disabled_tools"), self.findings);
            if let Some(tools) = server.and_then(|server| server.tools.as_mut()) {
                tools.retain(|tool| !disabled.contains(tool));
            }
            for tool in disabled.iter().filter(|_| is_there) {
                match rule_for(self.server, Some(tool)) {
                    Some(rule) => self.permission.deny.push(rule),
                    None => self.unspoken(tool, node),
                }
            }
        }
        match fields.take("tools") {
            Some(Node { shape: Shape::Map(tools), .. }) => {
                for tool in tools {
                    self.tool(tool, default, is_there);
                }
            }
            Some(Node { place, .. }) => {
                let message = format!("{SERVERS}.tools: expected a table for each tool");
                self.findings.error_with_hint(*place, message, "enabled_tools is the list of those to use");
            }
            None => {}
        }
        fields.close(self.findings);
    }

    /// Reads what is said about one tool.
    fn tool(&mut self, entry: &Entry, default: Approval, is_there: bool) {
        let within = format!("{SERVERS}.tools");
        let Some(mut fields) = Fields::open(&entry.node, &within, self.findings) else { return };
        if let Some(node) = fields.take("approval_mode")
            && let Some(approval) = choice(node, &fields.name("approval_mode"), &MODES, self.findings)
            && is_there
            && approval != default
        {
            match approval {
                Approval::Asked => self.rule(Some(&entry.key), approval, node),
                Approval::Unasked => {
                    let message = format!(
                        "{within}.{}.approval_mode is not honoured: all tools of the server are asked about",
                        entry.key
                    );
                    self.findings.warning(node.place, message);
                }
            }
        }
        fields.close(self.findings);
    }

    fn rule(&mut self, tool: Option<&str>, approval: Approval, node: &Node) {
        match (rule_for(self.server, tool), approval) {
            (Some(rule), Approval::Unasked) => self.permission.allow.push(rule),
            (Some(rule), Approval::Asked) => self.permission.ask.push(rule),
            (None, _) => self.unspoken(tool.unwrap_or(self.server), node),
        }
    }

    fn unspoken(&mut self, name: &str, node: &Node) {
        let message = format!("{SERVERS}: no rule can name {}, so none holds for it", quoted(name));
        self.findings.warning(node.place, message);
    }
}

/// Returns the rule that speaks of a tool of a server, or of all; nothing for a name that would stand for another.
fn rule_for(server: &str, tool: Option<&str>) -> Option<Rule> {
    let spelling = match tool {
        Some(tool) => format!("mcp__{server}__{tool}"),
        None => format!("mcp__{server}"),
    };
    let rule: Rule = spelling.parse().ok()?;
    (rule.kind() == ToolKind::Mcp { server, tool } && rule.pattern().is_none()).then_some(rule)
}
