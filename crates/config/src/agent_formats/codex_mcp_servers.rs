//! The MCP servers of Codex' agents. In addition to the keys of other programs, Codex has keys for disabled tools and
//! for tools that need approval; these become rules.

use domain::mcp_server::McpServer;
use domain::permission::{Permission, Rule, ToolKind};

use super::mcp_servers::read_servers;
use crate::text::{
    Diagnostics, Fields, MapEntry, Node, NodeValue, quote, read_choice, read_text, read_text_or_list,
};

const SERVERS: &str = "mcp_servers";
/// Keys that only Codex has.
const OWN_KEYS: [&str; 3] = ["disabled_tools", "default_tools_approval_mode", "tools"];

/// Whether a tool needs approval.
#[derive(Clone, Copy, PartialEq)]
enum Approval {
    /// The agent's own server needs no approval.
    Automatic,
    Prompt,
}

/// It is not known which tools write, so all of them need approval.
const MODES: [(&str, Approval); 4] = [
    ("auto", Approval::Automatic),
    ("approve", Approval::Automatic),
    ("prompt", Approval::Prompt),
    ("writes", Approval::Prompt),
];

/// Reads the servers, and adds rules for their tools to the permission.
pub(super) fn read(
    node: &Node,
    permission: &mut Permission,
    diagnostics: &mut Diagnostics<'_>,
) -> Vec<McpServer> {
    let NodeValue::Map(entries) = &node.value else { return read_servers(node, SERVERS, diagnostics) };
    let (shared, own): (Vec<MapEntry>, Vec<Node>) =
        entries.iter().map(|entry| split_own_keys(entry, diagnostics)).unzip();
    let mut servers =
        read_servers(&Node { location: node.location, value: NodeValue::Map(shared) }, SERVERS, diagnostics);
    for (entry, own) in entries.iter().zip(&own) {
        let server = servers.iter_mut().find(|server| server.name == entry.key);
        let rules = ServerRules { server: &entry.key, permission, diagnostics };
        rules.read(own, server);
    }
    servers
}

/// Separates the keys that only Codex has from the others.
fn split_own_keys(entry: &MapEntry, diagnostics: &mut Diagnostics<'_>) -> (MapEntry, Node) {
    let node = |value| Node { location: entry.node.location, value };
    let NodeValue::Map(entries) = &entry.node.value else {
        return (entry.clone(), node(NodeValue::Map(Vec::new())));
    };
    let entries = entries.iter().cloned();
    let (own, mut shared): (Vec<MapEntry>, Vec<MapEntry>) =
        entries.partition(|entry| OWN_KEYS.contains(&entry.key.as_str()));
    for entry in shared.iter_mut().filter(|entry| entry.key == "env_vars") {
        if let NodeValue::List(items) = &mut entry.node.value {
            *items = items.iter().filter_map(|item| read_local_variable(item, diagnostics)).collect();
        }
    }
    (MapEntry { node: node(NodeValue::Map(shared)), ..entry.clone() }, node(NodeValue::Map(own)))
}

/// Returns the name of a variable, which may be a table, unless its value is on another machine.
fn read_local_variable(item: &Node, diagnostics: &mut Diagnostics<'_>) -> Option<Node> {
    let NodeValue::Map(_) = &item.value else { return Some(item.clone()) };
    let within = format!("{SERVERS}.env_vars");
    let mut fields = Fields::open(item, &within, diagnostics)?;
    let name = fields.take("name").cloned();
    let source = fields.take("source").and_then(|node| read_text(node, &fields.name("source"), diagnostics));
    fields.close(diagnostics);
    if name.is_none() {
        diagnostics.error(item.location, format!("the key {within}.name is missing"));
    }
    if source.is_some_and(|source| source != "local") {
        let message =
            format!("{within}.source is not honoured: only variables of this machine are handed over");
        diagnostics.warning(item.location, message);
        return None;
    }
    name
}

/// Reads the keys that become rules about one server.
struct ServerRules<'a, 'b, 'c> {
    server: &'a str,
    permission: &'b mut Permission,
    diagnostics: &'b mut Diagnostics<'c>,
}

impl ServerRules<'_, '_, '_> {
    fn read(mut self, own: &Node, server: Option<&mut McpServer>) {
        let Some(mut fields) = Fields::open(own, SERVERS, self.diagnostics) else { return };
        let default = fields.take("default_tools_approval_mode");
        let default = default
            .and_then(|node| {
                read_choice(node, &fields.name("default_tools_approval_mode"), &MODES, self.diagnostics)
            })
            .unwrap_or(Approval::Automatic);
        // A disabled or invalid server has no tools.
        let is_enabled = server.is_some();
        if is_enabled {
            self.add_rule(None, default, own);
        }
        if let Some(node) = fields.take("disabled_tools") {
            let disabled = read_text_or_list(node, &fields.name("disabled_tools"), self.diagnostics);
            if let Some(tools) = server.and_then(|server| server.tools.as_mut()) {
                tools.retain(|tool| !disabled.contains(tool));
            }
            for tool in disabled.iter().filter(|_| is_enabled) {
                match rule_for(self.server, Some(tool)) {
                    Some(rule) => self.permission.deny.push(rule),
                    None => self.warn_of_unnameable(tool, node),
                }
            }
        }
        match fields.take("tools") {
            Some(Node { value: NodeValue::Map(tools), .. }) => {
                for tool in tools {
                    self.read_tool(tool, default, is_enabled);
                }
            }
            Some(Node { location, .. }) => {
                let message = format!("{SERVERS}.tools: expected a table for each tool");
                self.diagnostics.error_with_hint(
                    *location,
                    message,
                    "enabled_tools is the list of those to use",
                );
            }
            None => {}
        }
        fields.close(self.diagnostics);
    }

    /// Reads the settings of one tool.
    fn read_tool(&mut self, entry: &MapEntry, default: Approval, is_enabled: bool) {
        let within = format!("{SERVERS}.tools");
        let Some(mut fields) = Fields::open(&entry.node, &within, self.diagnostics) else { return };
        if let Some(node) = fields.take("approval_mode")
            && let Some(approval) = read_choice(node, &fields.name("approval_mode"), &MODES, self.diagnostics)
            && is_enabled
            && approval != default
        {
            match approval {
                Approval::Prompt => self.add_rule(Some(&entry.key), approval, node),
                Approval::Automatic => {
                    let message = format!(
                        "{within}.{}.approval_mode is not honoured: all tools of the server are asked about",
                        entry.key
                    );
                    self.diagnostics.warning(node.location, message);
                }
            }
        }
        fields.close(self.diagnostics);
    }

    fn add_rule(&mut self, tool: Option<&str>, approval: Approval, node: &Node) {
        match (rule_for(self.server, tool), approval) {
            (Some(rule), Approval::Automatic) => self.permission.allow.push(rule),
            (Some(rule), Approval::Prompt) => self.permission.ask.push(rule),
            (None, _) => self.warn_of_unnameable(tool.unwrap_or(self.server), node),
        }
    }

    fn warn_of_unnameable(&mut self, name: &str, node: &Node) {
        let message = format!("{SERVERS}: no rule can name {}, so none holds for it", quote(name));
        self.diagnostics.warning(node.location, message);
    }
}

/// Returns the rule for a tool of a server, or for all its tools; `None` for a name that the rule would not match
/// exactly.
fn rule_for(server: &str, tool: Option<&str>) -> Option<Rule> {
    let spelling = match tool {
        Some(tool) => format!("mcp__{server}__{tool}"),
        None => format!("mcp__{server}"),
    };
    let rule: Rule = spelling.parse().ok()?;
    (rule.kind() == ToolKind::Mcp { server, tool } && rule.pattern().is_none()).then_some(rule)
}
