//! `.claude/agents`: the sub-agents of Claude Code.

use domain::agent::{Agent, Format};
use domain::diagnostic::Diagnostic;
use domain::permission::Level;
use domain::setup::{Isolation, PromptMode};

use super::AgentFile;
use super::markdown::{self, Frontmatter};
use super::servers::read_servers;
use super::setup::{read_effort, read_rules, take_turns};
use super::tools::take_tools;
use super::values::{ONLY_LOOKS, take_description, take_inherited_model, take_unhonoured, vendor_agent};
use crate::text::{Fields, Findings, choice};

const MINIMAL: &str = "begin the file with four lines: `---`, `name: NAME`, `description: TEXT`, `---`";

/// Reads an agent. There is one exactly if no finding is an error.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    markdown::read(agent_file, Format::Claude, Frontmatter::Required { hint: MINIMAL }, read_fields)
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

fn read_fields(
    mut fields: Fields<'_>,
    agent_file: AgentFile<'_>,
    findings: &mut Findings<'_>,
) -> Option<Agent> {
    let mut agent = vendor_agent("claude", Format::Claude, &mut fields, agent_file, findings);
    agent.description = take_description(&mut fields, findings);
    agent.model = take_inherited_model(&mut fields, findings);
    let setup = &mut agent.setup;
    setup.prompt_mode = PromptMode::Replace;
    if let Some(node) = fields.take("disallowedTools") {
        setup.permission.deny = read_rules(node, "disallowedTools", findings);
    }
    if let Some(node) = fields.take("permissionMode") {
        match choice(node, "permissionMode", &MODES, findings) {
            Some(Mode::Level(level)) => setup.permission.level = Some(level),
            Some(Mode::Auto) => findings.warning(
                node.place,
                "permissionMode: auto is not honoured: what no rule allows is denied or asked about",
            ),
            Some(Mode::Plain) | None => {}
        }
    }
    setup.tools = take_tools(&mut fields, &mut setup.permission, findings);
    if setup.tools.as_deref() == Some(&["*".to_owned()]) {
        setup.tools = None;
    }
    setup.max_turns = take_turns(&mut fields, "maxTurns", findings);
    setup.effort = fields.take("effort").and_then(|node| read_effort(node, "effort", findings));
    if let Some(node) = fields.take("mcpServers") {
        setup.mcp_servers = read_servers(node, "mcpServers", findings);
    }
    if let Some(node) = fields.take("isolation") {
        let words = [("worktree", Isolation::Worktree), ("none", Isolation::None)];
        setup.isolation = choice(node, "isolation", &words, findings).unwrap_or_default();
    }
    let unhonoured = [
        ("skills", "no skill is loaded before the agent begins; name it in the system prompt"),
        ("hooks", "no hook of the file is run"),
        ("memory", "the agent gets no memory folder of its own"),
        ("background", "the caller decides whether it waits"),
        ("initialPrompt", "the caller's prompt comes first"),
        ("color", ONLY_LOOKS),
    ];
    take_unhonoured(&mut fields, &unhonoured, findings);
    fields.close(findings);
    Some(agent)
}
