//! `.claude/agents`: the sub-agents of Claude Code.

use domain::agent::{Agent, AgentFormat};
use domain::diagnostic::Diagnostic;
use domain::permission::{Level, Permission, ToolKind};
use domain::setup::{Isolation, PromptMode};

use super::AgentFile;
use super::markdown::{self, Frontmatter};
use super::mcp_servers::read_servers;
use super::setup::{RULES_MAX, read_effort, read_rules, read_turns};
use super::shared_keys::{COSMETIC_ONLY, read_model, take_description, take_unsupported, vendor_agent};
use super::tool_list::read_tools;
use crate::text::{Diagnostics, Fields, Node, NodeValue, quote, read_choice, read_choice_or_warn};

const MINIMAL: &str = "begin the file with four lines: `---`, `name: NAME`, `description: TEXT`, `---`";

/// Reads an agent. Returns `None` exactly if there is an error.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    markdown::read(agent_file, AgentFormat::Claude, Frontmatter::Required { hint: MINIMAL }, read_fields)
}

/// An installed plug-in of Claude Code.
#[derive(Debug, Clone, Copy)]
pub struct Plugin<'a> {
    /// The prefix of the agent's name: the name of the plug-in, and the folders below its folder of agents.
    pub prefix: &'a str,
    /// The folder of the plug-in, which its texts call `${CLAUDE_PLUGIN_ROOT}`.
    pub root: &'a str,
}

/// Reads an agent of a plug-in, named `plugin:agent`. As in Claude Code, the file needs no frontmatter, and a plug-in
/// can give its agents neither a permission nor servers.
pub fn read_plugin(agent_file: AgentFile<'_>, plugin: Plugin<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    let (agent, mut diagnostics) = markdown::read(
        agent_file,
        AgentFormat::Claude,
        Frontmatter::Optional,
        |mut fields, agent_file, diagnostics| {
            let ignored_in_plugins = [
                ("permissionMode", "Claude Code does not take it from a plug-in"),
                ("mcpServers", "Claude Code does not take it from a plug-in"),
            ];
            take_unsupported(&mut fields, &ignored_in_plugins, diagnostics);
            read_fields(fields, agent_file, diagnostics)
        },
    );
    let Some(mut agent) = agent else { return (None, diagnostics) };
    match format!("{}:{}", plugin.prefix, agent.name).parse() {
        Ok(name) => agent.name = name,
        Err(error) => {
            diagnostics.push(Diagnostic::error(agent_file.file, error.to_string()));
            return (None, diagnostics);
        }
    }
    agent.system_prompt = agent.system_prompt.replace("${CLAUDE_PLUGIN_ROOT}", plugin.root);
    (Some(agent), diagnostics)
}

/// The meaning of a permission mode.
#[derive(Clone, Copy)]
enum PermissionMode {
    /// Volery asks about everything that no rule allows.
    Default,
    Level(Level),
    /// The vendor's model decides.
    Auto,
}

const MODES: [(&str, PermissionMode); 7] = [
    ("default", PermissionMode::Default),
    ("manual", PermissionMode::Default),
    // Beyond reading, only rules allow anything.
    ("dontAsk", PermissionMode::Level(Level::ReadOnly)),
    ("acceptEdits", PermissionMode::Level(Level::SafeEdit)),
    ("plan", PermissionMode::Level(Level::ReadOnly)),
    ("bypassPermissions", PermissionMode::Level(Level::Yolo)),
    ("auto", PermissionMode::Auto),
];

/// Tools of Claude Code that have no counterpart in other programs.
const OTHER_TOOLS: [&str; 22] = [
    "AskUserQuestion",
    "BashOutput",
    "EnterPlanMode",
    "EnterWorktree",
    "ExitPlanMode",
    "ExitWorktree",
    "KillBash",
    "KillShell",
    "ListMcpResourcesTool",
    "LSP",
    "Monitor",
    "ReadMcpResourceTool",
    "SendMessage",
    "Skill",
    "SlashCommand",
    "TaskCreate",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "TodoRead",
    "TodoWrite",
    "ToolSearch",
];

/// Warns of tools that Claude Code may not have: it ignores them, and the agent runs without them.
fn warn_of_unknown_tools(tools: &[String], node: &Node, diagnostics: &mut Diagnostics<'_>) {
    let is_unknown = |tool: &&String| {
        matches!(ToolKind::from_name(tool), ToolKind::Other(_)) && !OTHER_TOOLS.contains(&tool.as_str())
    };
    let unknown: Vec<&String> = tools.iter().filter(is_unknown).collect();
    let Some(first) = unknown.first().filter(|_| tools.len() <= RULES_MAX) else { return };
    // An item of a list has a location of its own; several names in one text have one together.
    let items = if let NodeValue::List(items) = &node.value { items.as_slice() } else { &[] };
    let is_first = |name: &str| name.trim().strip_prefix(first.as_str()).is_some_and(ends_name);
    let names_first =
        |item: &&Node| matches!(&item.value, NodeValue::String(text) if text.split(',').any(is_first));
    let location = items.iter().find(names_first).unwrap_or(node).location;
    let unknown: Vec<String> = unknown.into_iter().map(|tool| quote(tool)).collect();
    let message = format!("tools: Volery does not know {} as a tool of Claude Code", unknown.join(", "));
    diagnostics.warning_with_hint(
        location,
        message,
        "an agent runs without a tool that Claude Code does not have",
    );
}

/// Returns whether a tool's name ends where this text begins: a pattern in parentheses may follow it.
fn ends_name(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('(')
}

/// Takes the level for a permission mode of Claude Code. The program ignores an unknown mode.
pub(super) fn take_permission_mode(
    fields: &mut Fields<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Level> {
    const KEY: &str = "permissionMode";
    let node = fields.take(KEY)?;
    match read_choice_or_warn(node, KEY, &MODES, "the default level is used", diagnostics) {
        Some(PermissionMode::Level(level)) => Some(level),
        Some(PermissionMode::Auto) => {
            let message =
                "permissionMode: auto is not honoured: what no rule allows is denied or asked about";
            diagnostics.warning(node.location, message);
            None
        }
        Some(PermissionMode::Default) | None => None,
    }
}

/// Takes a value that Claude Code uses only if it has a certain type. It ignores all others, so they are not errors.
fn take_if<'a>(
    fields: &mut Fields<'a>,
    key: &'static str,
    expected: &str,
    fits: impl Fn(&NodeValue) -> bool,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<&'a Node> {
    let node = fields.take(key)?;
    if fits(&node.value) {
        return Some(node);
    }
    let message =
        format!("{key}: expected {expected}, found {}; it is ignored, as in Claude Code", node.describe());
    diagnostics.warning(node.location, message);
    None
}

/// Takes the tools. In Claude Code, a value that is neither a text nor a list gives the agent no tools at all, and so
/// does a key without a value; an item of a list that is not a text is ignored. A single `*` means all tools.
fn take_listed_tools(
    fields: &mut Fields<'_>,
    permission: &mut Permission,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Vec<String>> {
    const KEY: &str = "tools";
    let node = fields.take_even_empty(KEY)?;
    let is_text = |item: &Node| matches!(item.value, NodeValue::String(_));
    let tools = match &node.value {
        NodeValue::String(_) => read_tools(node, permission, diagnostics),
        NodeValue::List(items) => {
            for item in items.iter().filter(|item| !is_text(item)) {
                let message = format!("{KEY}: {} names no tool and is ignored", item.describe());
                diagnostics.warning(item.location, message);
            }
            let texts = items.iter().filter(|item| is_text(item)).cloned().collect();
            let node = Node { location: node.location, value: NodeValue::List(texts) };
            read_tools(&node, permission, diagnostics)
        }
        NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::DateTime
        | NodeValue::Map(_) => {
            let message = format!(
                "{KEY}: expected names of tools, found {}; the agent has no tools, as in Claude Code",
                node.describe()
            );
            diagnostics.warning_with_hint(
                node.location,
                message,
                "remove the key to give the agent all tools",
            );
            Vec::new()
        }
    };
    if tools == ["*"] {
        return None;
    }
    warn_of_unknown_tools(&tools, node, diagnostics);
    Some(tools)
}

fn read_fields(
    mut fields: Fields<'_>,
    agent_file: AgentFile<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Agent> {
    let mut agent = vendor_agent("claude", AgentFormat::Claude, &mut fields, agent_file, diagnostics);
    agent.description = take_description(&mut fields, diagnostics);
    let is_text = |value: &NodeValue| matches!(value, NodeValue::String(_));
    let model = take_if(&mut fields, "model", "the name of a model", is_text, diagnostics);
    agent.model = model.and_then(|node| read_model(node, diagnostics)).filter(|model| model != "inherit");
    let setup = &mut agent.setup;
    setup.prompt_mode = PromptMode::Replace;
    if let Some(node) = fields.take("disallowedTools") {
        setup.permission.deny = read_rules(node, "disallowedTools", diagnostics);
    }
    setup.permission.level = take_permission_mode(&mut fields, diagnostics);
    setup.tools = take_listed_tools(&mut fields, &mut setup.permission, diagnostics);
    let is_positive = |value: &NodeValue| matches!(value, NodeValue::Integer(1..));
    let turns = take_if(&mut fields, "maxTurns", "a number above 0", is_positive, diagnostics);
    setup.max_turns = turns.and_then(|node| read_turns(node, "maxTurns", diagnostics));
    let effort = take_if(&mut fields, "effort", "a word for an effort", is_text, diagnostics);
    setup.effort = effort.and_then(|node| read_effort(node, "effort", diagnostics));
    let has_servers = |value: &NodeValue| matches!(value, NodeValue::Map(_) | NodeValue::List(_));
    let servers = take_if(&mut fields, "mcpServers", "servers by name", has_servers, diagnostics);
    if let Some(node) = servers {
        setup.mcp_servers = read_servers(node, "mcpServers", diagnostics);
    }
    if let Some(node) = fields.take("isolation") {
        let words = [("worktree", Isolation::Worktree), ("none", Isolation::None)];
        setup.isolation = read_choice(node, "isolation", &words, diagnostics).unwrap_or_default();
    }
    let unsupported = [
        ("skills", "no skill is loaded before the agent begins; name it in the system prompt"),
        ("hooks", "Volery runs no hook of the file; Claude Code runs them if it starts the agent by itself"),
        ("memory", "the agent gets no memory folder of its own"),
        ("background", "the caller decides whether it waits"),
        ("initialPrompt", "the caller's prompt comes first"),
        ("color", COSMETIC_ONLY),
    ];
    take_unsupported(&mut fields, &unsupported, diagnostics);
    fields.close(diagnostics);
    Some(agent)
}
