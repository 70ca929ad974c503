//! `.opencode/agent` and `.opencode/agents`: the agents of opencode, named like their files.

use domain::agent::{Agent, Format};
use domain::diagnostic::Diagnostic;
use domain::permission::{Level, Permission, Rule, ToolKind};
use domain::setup::PromptMode;

use super::AgentFile;
use super::markdown::{self, Frontmatter};
use super::setup::{parse_rule, read_effort, take_flag, take_turns};
use super::values::{ONLY_LOOKS, take_description, take_inherited_model, take_unhonoured, vendor_agent};
use crate::text::{Entry, Fields, Findings, Node, Shape, choice, flag, quoted};

/// Reads an agent. One that is switched off is none, without a finding.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    markdown::read(agent_file, Format::Opencode, Frontmatter::Optional, read_fields)
}

#[derive(Clone, Copy)]
enum Decision {
    Allow,
    Ask,
    Deny,
}

/// Who may ask for the agent.
#[derive(Clone, Copy)]
enum Mode {
    Direct,
    /// Only other agents of opencode.
    Below,
}

const DECISIONS: [(&str, Decision); 3] =
    [("allow", Decision::Allow), ("ask", Decision::Ask), ("deny", Decision::Deny)];

fn read_fields(
    mut fields: Fields<'_>,
    agent_file: AgentFile<'_>,
    findings: &mut Findings<'_>,
) -> Option<Agent> {
    let mut agent = vendor_agent("opencode", Format::Opencode, &mut fields, agent_file, findings);
    agent.description = take_description(&mut fields, findings);
    agent.model = take_inherited_model(&mut fields, findings);
    let setup = &mut agent.setup;
    setup.prompt_mode = PromptMode::Replace;
    let mut mode = Mode::Direct;
    if let Some(node) = fields.take("mode") {
        let modes = [("primary", Mode::Direct), ("subagent", Mode::Below), ("all", Mode::Direct)];
        mode = choice(node, "mode", &modes, findings).unwrap_or(mode);
    }
    // The program runs another agent without an error if it is asked for one that stands below others.
    if let Mode::Direct = mode {
        setup.vendor_agent = Some(agent_file.stem.to_owned());
    }
    // The older key says the same.
    let turns = [take_turns(&mut fields, "steps", findings), take_turns(&mut fields, "maxSteps", findings)];
    setup.max_turns = turns.into_iter().flatten().next();
    setup.effort = fields.take("variant").and_then(|node| read_effort(node, findings));
    if let Some(node) = fields.take("tools") {
        read_tools(node, &mut setup.permission, findings);
    }
    if let Some(node) = fields.take("permission") {
        read_permission(node, &mut setup.permission, findings);
    }
    let disabled = take_flag(&mut fields, "disable", findings);
    let unhonoured = [
        ("prompt", "the text below the frontmatter is the system prompt"),
        ("temperature", "opencode's default holds"),
        ("top_p", "opencode's default holds"),
        ("options", "opencode's default holds"),
        ("hidden", "the agent is listed like the others"),
        ("color", ONLY_LOOKS),
    ];
    take_unhonoured(&mut fields, &unhonoured, findings);
    fields.close(findings);
    (!disabled).then_some(agent)
}

/// Reads `tools: {write: false}`: what is switched off is denied; switching on what is on anyway says nothing.
fn read_tools(node: &Node, permission: &mut Permission, findings: &mut Findings<'_>) {
    let Shape::Map(entries) = &node.shape else {
        let message = format!("tools: expected names with true or false, found {}", node.describe());
        findings.error_with_hint(node.place, message, "write for example {write: false}");
        return;
    };
    for entry in entries {
        let on = flag(&entry.node, &format!("tools.{}", entry.key), findings);
        let rule = parse_rule(&entry.key, "tools", &entry.node, findings);
        if on == Some(false) {
            permission.deny.extend(rule);
        }
    }
}

/// Reads `permission: {edit: deny, bash: {"git *": allow}}`, or one word for everything.
fn read_permission(node: &Node, permission: &mut Permission, findings: &mut Findings<'_>) {
    let Shape::Map(entries) = &node.shape else {
        let decision = choice(node, "permission", &DECISIONS, findings);
        let rule = parse_rule("*", "permission", node, findings);
        add(permission, decision, rule);
        return;
    };
    for entry in entries {
        let name = format!("permission.{}", entry.key);
        let Shape::Map(patterns) = &entry.node.shape else {
            let decision = choice(&entry.node, &name, &DECISIONS, findings);
            add(permission, decision, parse_rule(&entry.key, "permission", &entry.node, findings));
            continue;
        };
        read_patterns(&entry.key, patterns, permission, findings);
    }
}

/// Reads the patterns of one tool. In opencode the last that matches counts, and here a denial does: both mean the same if
/// what holds for the rest stands first and is what holds anyway.
fn read_patterns(tool: &str, patterns: &[Entry], permission: &mut Permission, findings: &mut Findings<'_>) {
    let name = format!("permission.{tool}");
    let decided: Vec<(&Entry, Option<Decision>)> =
        patterns.iter().map(|entry| (entry, choice(&entry.node, &name, &DECISIONS, findings))).collect();
    let allowed_later = |from: usize| {
        decided[from + 1..].iter().any(|(_, decision)| matches!(decision, Some(Decision::Allow)))
    };
    for (at, (pattern, decision)) in decided.iter().enumerate() {
        let restricts = matches!(decision, Some(Decision::Ask | Decision::Deny));
        if restricts && allowed_later(at) {
            if at == 0 && pattern.key == "*" && is_beyond_levels(tool) {
                if let Some(Decision::Deny) = decision {
                    permission.level.get_or_insert(Level::SafeEdit);
                }
                continue;
            }
            let message =
                format!("{name}: {} stands before what is allowed, and still counts", quoted(&pattern.key));
            let hint = "write what is allowed first; a denial beats it";
            findings.warning_with_hint(pattern.node.place, message, hint);
        }
        let spelling = match pattern.key.as_str() {
            "*" => tool.to_owned(),
            pattern => format!("{tool}({pattern})"),
        };
        add(permission, *decision, parse_rule(&spelling, &name, &pattern.node, findings));
    }
}

/// Tells whether a tool is one that no level but the highest allows by itself.
fn is_beyond_levels(tool: &str) -> bool {
    let kind = ToolKind::named(tool);
    matches!(kind, ToolKind::Shell | ToolKind::Fetch | ToolKind::WebSearch | ToolKind::Delegate)
}

fn add(permission: &mut Permission, decision: Option<Decision>, rule: Option<Rule>) {
    let rules = match decision {
        Some(Decision::Allow) => &mut permission.allow,
        Some(Decision::Ask) => &mut permission.ask,
        Some(Decision::Deny) => &mut permission.deny,
        None => return,
    };
    rules.extend(rule);
}
