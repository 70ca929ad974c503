//! `.claude/agents`: the sub-agents of Claude Code.

use domain::agent::{Agent, Format};
use domain::diagnostic::Diagnostic;
use domain::permission::{Level, Permission, ToolKind};
use domain::setup::{Isolation, PromptMode};

use super::AgentFile;
use super::markdown::{self, Frontmatter};
use super::servers::read_servers;
use super::setup::{RULES_MAX, read_effort, read_rules, read_turns};
use super::tools::read_tools;
use super::values::{ONLY_LOOKS, read_model, take_description, take_unhonoured, vendor_agent};
use crate::text::{Fields, Findings, Node, Place, Shape, choice, choice_or_warning, quoted};

const MINIMAL: &str = "begin the file with four lines: `---`, `name: NAME`, `description: TEXT`, `---`";

/// Reads an agent. There is one exactly if no finding is an error.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    markdown::read(agent_file, Format::Claude, Frontmatter::Required { hint: MINIMAL }, read_fields)
}

/// An installed plug-in of Claude Code.
#[derive(Debug, Clone, Copy)]
pub struct Plugin<'a> {
    /// What comes before the agent's own name: the name of the plug-in, and the folders below its folder of agents.
    pub prefix: &'a str,
    /// The folder of the plug-in, which its texts call `${CLAUDE_PLUGIN_ROOT}`.
    pub root: &'a str,
}

/// Reads an agent of a plug-in, named `plugin:agent`. As in Claude Code, the file needs no frontmatter, and a plug-in can
/// give its agents neither a permission nor servers.
pub fn read_plugin(agent_file: AgentFile<'_>, plugin: Plugin<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    let (agent, mut found) = markdown::read(
        agent_file,
        Format::Claude,
        Frontmatter::Optional,
        |mut fields, agent_file, findings| {
            let of_plugin = [
                ("permissionMode", "Claude Code does not take it from a plug-in"),
                ("mcpServers", "Claude Code does not take it from a plug-in"),
            ];
            take_unhonoured(&mut fields, &of_plugin, findings);
            read_fields(fields, agent_file, findings)
        },
    );
    let Some(mut agent) = agent else { return (None, found) };
    match format!("{}:{}", plugin.prefix, agent.name).parse() {
        Ok(name) => agent.name = name,
        Err(error) => {
            found.push(Diagnostic::error(agent_file.file, error.to_string()));
            return (None, found);
        }
    }
    agent.system_prompt = agent.system_prompt.replace("${CLAUDE_PLUGIN_ROOT}", plugin.root);
    (Some(agent), found)
}

/// What a mode means here.
#[derive(Clone, Copy)]
enum Mode {
    /// What no rule allows is asked about.
    Plain,
    Level(Level),
    /// A model of the vendor's decides.
    Auto,
}

const MODES: [(&str, Mode); 7] = [
    ("default", Mode::Plain),
    ("manual", Mode::Plain),
    // Beyond reading, only what a rule allows.
    ("dontAsk", Mode::Level(Level::ReadOnly)),
    ("acceptEdits", Mode::Level(Level::SafeEdit)),
    ("plan", Mode::Level(Level::ReadOnly)),
    ("bypassPermissions", Mode::Level(Level::Yolo)),
    ("auto", Mode::Auto),
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

/// Names tools that Claude Code may not have: it passes over them, and the agent is there without them.
fn warn_of_unknown_tools(tools: &[String], place: Place, findings: &mut Findings<'_>) {
    let is_unknown = |tool: &&String| {
        matches!(ToolKind::named(tool), ToolKind::Other(_)) && !OTHER_TOOLS.contains(&tool.as_str())
    };
    let unknown: Vec<String> = tools.iter().filter(is_unknown).map(|tool| quoted(tool)).collect();
    if unknown.is_empty() || tools.len() > RULES_MAX {
        return;
    }
    let message = format!("tools: Volery does not know {} as a tool of Claude Code", unknown.join(", "));
    findings.warning_with_hint(place, message, "an agent runs without a tool that Claude Code does not have");
}

/// Takes the level that a mode of Claude Code stands for. The program passes over a mode that it does not know.
pub(super) fn take_permission_mode(fields: &mut Fields<'_>, findings: &mut Findings<'_>) -> Option<Level> {
    const KEY: &str = "permissionMode";
    let node = fields.take(KEY)?;
    match choice_or_warning(node, KEY, &MODES, "the default level is used", findings) {
        Some(Mode::Level(level)) => Some(level),
        Some(Mode::Auto) => {
            let message =
                "permissionMode: auto is not honoured: what no rule allows is denied or asked about";
            findings.warning(node.place, message);
            None
        }
        Some(Mode::Plain) | None => None,
    }
}

/// Takes a value that Claude Code uses only if it has a certain shape. It passes over all others, so they are no errors.
fn take_shaped<'a>(
    fields: &mut Fields<'a>,
    key: &'static str,
    wanted: &str,
    fits: impl Fn(&Shape) -> bool,
    findings: &mut Findings<'_>,
) -> Option<&'a Node> {
    let node = fields.take(key)?;
    if fits(&node.shape) {
        return Some(node);
    }
    let message =
        format!("{key}: expected {wanted}, found {}; it is ignored, as in Claude Code", node.describe());
    findings.warning(node.place, message);
    None
}

/// Takes the tools. To Claude Code, a value that is no text and no list gives the agent no tool at all, and so does a key
/// without a value; an item of a list that is no text gives nothing.
fn take_listed_tools(
    fields: &mut Fields<'_>,
    permission: &mut Permission,
    findings: &mut Findings<'_>,
) -> Option<Vec<String>> {
    const KEY: &str = "tools";
    let node = fields.take_even_empty(KEY)?;
    let is_text = |item: &Node| matches!(item.shape, Shape::Text(_));
    match &node.shape {
        Shape::Text(_) => Some(read_tools(node, permission, findings)),
        Shape::List(items) => {
            for item in items.iter().filter(|item| !is_text(item)) {
                let message = format!("{KEY}: {} names no tool and is ignored", item.describe());
                findings.warning(item.place, message);
            }
            let texts = items.iter().filter(|item| is_text(item)).cloned().collect();
            let node = Node { place: node.place, shape: Shape::List(texts) };
            Some(read_tools(&node, permission, findings))
        }
        Shape::Nothing
        | Shape::Truth(_)
        | Shape::Integer(_)
        | Shape::Number(_)
        | Shape::Moment
        | Shape::Map(_) => {
            let message = format!(
                "{KEY}: expected names of tools, found {}; the agent has no tools, as in Claude Code",
                node.describe()
            );
            findings.warning_with_hint(node.place, message, "remove the key to give the agent all tools");
            Some(Vec::new())
        }
    }
}

fn read_fields(
    mut fields: Fields<'_>,
    agent_file: AgentFile<'_>,
    findings: &mut Findings<'_>,
) -> Option<Agent> {
    let mut agent = vendor_agent("claude", Format::Claude, &mut fields, agent_file, findings);
    agent.description = take_description(&mut fields, findings);
    let is_text = |shape: &Shape| matches!(shape, Shape::Text(_));
    let model = take_shaped(&mut fields, "model", "the name of a model", is_text, findings);
    agent.model = model.and_then(|node| read_model(node, findings)).filter(|model| model != "inherit");
    let setup = &mut agent.setup;
    setup.prompt_mode = PromptMode::Replace;
    if let Some(node) = fields.take("disallowedTools") {
        setup.permission.deny = read_rules(node, "disallowedTools", findings);
    }
    setup.permission.level = take_permission_mode(&mut fields, findings);
    setup.tools = take_listed_tools(&mut fields, &mut setup.permission, findings);
    if setup.tools.as_deref() == Some(&["*".to_owned()]) {
        setup.tools = None;
    }
    warn_of_unknown_tools(setup.tools.as_deref().unwrap_or_default(), fields.place, findings);
    let is_positive = |shape: &Shape| matches!(shape, Shape::Integer(1..));
    let turns = take_shaped(&mut fields, "maxTurns", "a number above 0", is_positive, findings);
    setup.max_turns = turns.and_then(|node| read_turns(node, "maxTurns", findings));
    let effort = take_shaped(&mut fields, "effort", "a word for an effort", is_text, findings);
    setup.effort = effort.and_then(|node| read_effort(node, "effort", findings));
    let has_servers = |shape: &Shape| matches!(shape, Shape::Map(_) | Shape::List(_));
    let servers = take_shaped(&mut fields, "mcpServers", "servers by name", has_servers, findings);
    if let Some(node) = servers {
        setup.mcp_servers = read_servers(node, "mcpServers", findings);
    }
    if let Some(node) = fields.take("isolation") {
        let words = [("worktree", Isolation::Worktree), ("none", Isolation::None)];
        setup.isolation = choice(node, "isolation", &words, findings).unwrap_or_default();
    }
    let unhonoured = [
        ("skills", "no skill is loaded before the agent begins; name it in the system prompt"),
        ("hooks", "Volery runs no hook of the file; Claude Code runs them if it starts the agent by itself"),
        ("memory", "the agent gets no memory folder of its own"),
        ("background", "the caller decides whether it waits"),
        ("initialPrompt", "the caller's prompt comes first"),
        ("color", ONLY_LOOKS),
    ];
    take_unhonoured(&mut fields, &unhonoured, findings);
    fields.close(findings);
    Some(agent)
}
