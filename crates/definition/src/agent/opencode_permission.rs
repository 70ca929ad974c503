//! `permission` and `tools` of opencode's agents. There the last entry that matches counts, here a denial does: what an
//! entry for all tools leaves of the others is worked out for each tool.

use domain::permission::{Level, Permission, ToolKind};

use super::setup::{RULES_MAX, parse_rule, too_many};
use crate::text::{Entry, Findings, Node, Shape, choice, flag, quoted};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Decision {
    Allow,
    Ask,
    Deny,
    /// Switched on, which says something only of what was switched off before.
    On,
}

const DECISIONS: [(&str, Decision); 3] =
    [("allow", Decision::Allow), ("ask", Decision::Ask), ("deny", Decision::Deny)];

/// The tools that an entry for several may mean. Those of one line are one tool here.
const TOOLS: [&[&str]; 11] = [
    &["read", "list"],
    &["grep", "glob"],
    &["edit"],
    &["bash"],
    &["webfetch"],
    &["websearch"],
    &["codesearch"],
    &["task"],
    &["todowrite", "todoread"],
    &["skill"],
    &["lsp"],
];
/// Other words for editing.
const EDITS: [&str; 4] = ["write", "patch", "multiedit", "apply_patch"];

/// One decision about a tool, or about several.
struct Said<'a> {
    tool: String,
    /// `*` stands for every use.
    pattern: &'a str,
    decision: Decision,
    node: &'a Node,
    key: &'static str,
}

impl Said<'_> {
    fn restricts(&self) -> bool {
        matches!(self.decision, Decision::Ask | Decision::Deny)
    }
}

/// Reads both keys: `tools: {write: false}` and `permission: {edit: deny, bash: {"git *": allow}}`.
pub(super) fn read(
    tools: Option<&Node>,
    permission: Option<&Node>,
    findings: &mut Findings<'_>,
) -> Permission {
    let mut said = tools.map(|node| read_tools(node, findings)).unwrap_or_default();
    let later = permission.map(|node| read_permission(node, findings)).unwrap_or_default();
    for (said, key, node) in [(&said, "tools", tools), (&later, "permission", permission)] {
        if let (true, Some(node)) = (said.len() > RULES_MAX, node) {
            too_many(key, node, findings);
            return Permission::default();
        }
    }
    // The newer key has the last word about a tool that both name.
    said.retain(|earlier| !later.iter().any(|later| plain(&later.tool) == plain(&earlier.tool)));
    said.extend(later);
    let mut permission = Permission::default();
    match said.iter().any(|said| means_several(&said.tool)) {
        true => settle(&said, &mut permission, findings),
        false => take_each(&said, &mut permission, findings),
    }
    for said in said.iter().filter(|said| said.decision == Decision::On && is_denied(&permission, &said.tool))
    {
        let message = format!("tools.{}: true allows nothing by itself, so the tool is denied", said.tool);
        findings.warning_with_hint(
            said.node.place,
            message,
            format!("write permission: {{{}: allow}}", said.tool),
        );
    }
    permission
}

/// Tells whether no rule speaks of a tool that is beyond what an agent may do without one.
fn is_denied(permission: &Permission, tool: &str) -> bool {
    let kind = ToolKind::named(tool);
    let beyond = matches!(kind, ToolKind::Shell | ToolKind::Fetch | ToolKind::WebSearch | ToolKind::Delegate);
    let mut rules = permission.allow.iter().chain(&permission.ask).chain(&permission.deny);
    beyond
        && permission.level != Some(Level::Yolo)
        && !rules.any(|rule| rule.kind() == kind || rule.kind() == ToolKind::Everything)
}

fn read_tools<'a>(node: &'a Node, findings: &mut Findings<'_>) -> Vec<Said<'a>> {
    let Shape::Map(entries) = &node.shape else {
        let message = format!("tools: expected names with true or false, found {}", node.describe());
        findings.error_with_hint(node.place, message, "write for example {write: false}");
        return Vec::new();
    };
    let said = entries.iter().filter_map(|entry| {
        let on = flag(&entry.node, &format!("tools.{}", entry.key), findings)?;
        let decision = if on { Decision::On } else { Decision::Deny };
        Some(Said { tool: entry.key.clone(), pattern: "*", decision, node: &entry.node, key: "tools" })
    });
    said.collect()
}

fn read_permission<'a>(node: &'a Node, findings: &mut Findings<'_>) -> Vec<Said<'a>> {
    let key = "permission";
    let Shape::Map(entries) = &node.shape else {
        let decision = choice(node, key, &DECISIONS, findings);
        let said = decision.map(|decision| Said { tool: "*".to_owned(), pattern: "*", decision, node, key });
        return said.into_iter().collect();
    };
    let mut said = Vec::new();
    for Entry { key: tool, node, .. } in entries {
        let name = format!("permission.{tool}");
        let mut one = |pattern: &'a str, node: &'a Node| {
            let decision = choice(node, &name, &DECISIONS, findings);
            said.extend(decision.map(|decision| Said { tool: tool.clone(), pattern, decision, node, key }));
        };
        match &node.shape {
            Shape::Map(patterns) => patterns.iter().for_each(|entry| one(&entry.key, &entry.node)),
            Shape::Text(_)
            | Shape::List(_)
            | Shape::Nothing
            | Shape::Truth(_)
            | Shape::Integer(_)
            | Shape::Number(_)
            | Shape::Moment => one("*", node),
        }
    }
    said
}

/// Takes entries of which none stands for several tools: each tool by itself.
fn take_each(said: &[Said<'_>], permission: &mut Permission, findings: &mut Findings<'_>) {
    let mut tools: Vec<&str> = Vec::new();
    for said in said {
        if !tools.contains(&said.tool.as_str()) {
            tools.push(&said.tool);
        }
    }
    for tool in tools {
        let own: Vec<&Said<'_>> =
            said.iter().filter(|said| said.tool == tool && said.decision != Decision::On).collect();
        take_patterns(tool, &own, permission, findings);
    }
}

/// Works out what holds for each tool where entries stand for several.
fn settle(said: &[Said<'_>], permission: &mut Permission, findings: &mut Findings<'_>) {
    let mut tools: Vec<Vec<&str>> = TOOLS.iter().map(|tools| tools.to_vec()).collect();
    for said in said.iter().filter(|said| !means_several(&said.tool)) {
        if !tools.iter().flatten().any(|tool| *tool == plain(&said.tool)) {
            tools.push(vec![&said.tool]);
        }
    }
    let settled: Vec<(&str, Vec<&Said<'_>>)> =
        tools.iter().map(|tools| counting(tools, said, findings)).collect();
    let rest = said.iter().rev().find(|said| said.tool == "*" && said.pattern == "*");
    let is_rest = |one: &Said<'_>| rest.is_some_and(|rest| std::ptr::eq(one, rest));
    let follows_rest = |said: &[&Said<'_>]| matches!(said, [one] if is_rest(one));
    match rest {
        Some(rest) if settled.iter().all(|(_, said)| follows_rest(said)) => {
            return add(permission, rest, "*", findings);
        }
        Some(rest) if rest.decision == Decision::Allow && settled.iter().all(|(_, said)| !reopens(said)) => {
            add(permission, rest, "*", findings);
        }
        // What no entry names is denied too, which only a level says of tools that are not known.
        Some(rest) if rest.decision == Decision::Deny => permission.level = Some(Level::ReadOnly),
        Some(_) | None => {}
    }
    let everything = permission.allow.iter().any(|rule| rule.kind() == ToolKind::Everything);
    for (tool, said) in settled {
        let by_level = permission.level == Some(Level::ReadOnly) && is_beyond(permission.level, tool);
        if !follows_rest(&said) || !(everything || by_level) {
            take_patterns(tool, &said, permission, findings);
        }
    }
}

/// Returns which of the tools that are one here is meant, and what counts about it.
fn counting<'t, 'a, 'b>(
    tools: &[&'t str],
    said: &'b [Said<'a>],
    findings: &mut Findings<'_>,
) -> (&'t str, Vec<&'b Said<'a>>) {
    let is_named = |tool: &&&str| said.iter().any(|said| plain(&said.tool) == **tool);
    let meant = tools.iter().find(is_named).or(tools.first()).copied().unwrap_or_default();
    let counts = last_words(meant, said);
    let words = |said: &[&Said<'_>]| -> Vec<(String, Decision)> {
        said.iter().map(|said| (said.pattern.to_owned(), said.decision)).collect()
    };
    for other in tools.iter().filter(|tool| **tool != meant) {
        let others = last_words(other, said);
        if let (true, Some(last)) = (words(&others) != words(&counts), counts.last().or(others.last())) {
            let message = format!("{}: {other} is decided as {meant} is: both are one tool here", last.key);
            findings.warning(last.node.place, message);
        }
    }
    (meant, counts)
}

/// Returns what counts of the entries about a tool: the last that stands for every use, and what follows it.
fn last_words<'a, 'b>(tool: &str, said: &'b [Said<'a>]) -> Vec<&'b Said<'a>> {
    let mut counts: Vec<&Said<'_>> = Vec::new();
    let mut is_restricted = false;
    for said in said.iter().filter(|said| matches(&said.tool, tool)) {
        let was_restricted = is_restricted;
        if said.pattern == "*" {
            counts.clear();
            is_restricted = false;
        }
        if said.decision != Decision::On || was_restricted {
            counts.push(said);
            is_restricted |= said.restricts();
        }
    }
    counts
}

/// Tells whether something is allowed again after it was restricted.
fn reopens(said: &[&Said<'_>]) -> bool {
    said.iter().skip_while(|said| !said.restricts()).any(|said| !said.restricts())
}

/// Takes what is said about one tool. Both orders mean the same if what holds for the rest stands first and a level says it.
fn take_patterns(tool: &str, said: &[&Said<'_>], permission: &mut Permission, findings: &mut Findings<'_>) {
    for (at, one) in said.iter().enumerate() {
        if reopens(&said[at..]) && one.restricts() {
            if at == 0 && one.pattern == "*" && leave_to_level(permission, one.decision, tool) {
                if one.decision == Decision::Ask {
                    let message =
                        format!("permission.{tool}: what no pattern allows is denied instead of asked for");
                    let hint = "opencode can ask nobody while it runs; allow what the agent may do";
                    findings.warning_with_hint(one.node.place, message, hint);
                }
                continue;
            }
            let pattern = quoted(one.pattern);
            let message =
                format!("permission.{tool}: {pattern} stands before what is allowed, and still counts");
            let hint = "write what is allowed first; a denial beats it";
            findings.warning_with_hint(one.node.place, message, hint);
        }
        let spelling = match one.pattern {
            "*" => tool.to_owned(),
            pattern => format!("{tool}({pattern})"),
        };
        add(permission, one, &spelling, findings);
    }
}

/// Restricts a tool by the level, which what is allowed beats, and tells whether a level can.
fn leave_to_level(permission: &mut Permission, decision: Decision, tool: &str) -> bool {
    if ToolKind::named(tool) == ToolKind::Edit {
        permission.level = Some(Level::ReadOnly);
    }
    let can = is_beyond(permission.level, tool);
    if can && decision == Decision::Deny {
        permission.level.get_or_insert(Level::SafeEdit);
    }
    can
}

fn add(permission: &mut Permission, said: &Said<'_>, spelling: &str, findings: &mut Findings<'_>) {
    let rule = parse_rule(spelling, said.key, said.node, findings);
    let rules = match said.decision {
        Decision::Allow | Decision::On => &mut permission.allow,
        Decision::Ask => &mut permission.ask,
        Decision::Deny => &mut permission.deny,
    };
    rules.extend(rule);
}

/// Tells whether a tool is one that a level does not allow by itself; the highest is never meant.
fn is_beyond(level: Option<Level>, tool: &str) -> bool {
    match ToolKind::named(tool) {
        ToolKind::Shell | ToolKind::Fetch | ToolKind::WebSearch | ToolKind::Delegate => true,
        ToolKind::Edit => level == Some(Level::ReadOnly),
        ToolKind::Read
        | ToolKind::Search
        | ToolKind::Mcp { .. }
        | ToolKind::Everything
        | ToolKind::Other(_) => false,
    }
}

/// Tells whether an entry stands for several tools that are known.
fn means_several(key: &str) -> bool {
    key.contains('*') && TOOLS.iter().copied().flatten().any(|tool| matches(key, tool))
}

/// Returns the word for a tool.
fn plain(key: &str) -> &str {
    if EDITS.contains(&key) { "edit" } else { key }
}

/// `*` stands for anything.
fn matches(key: &str, tool: &str) -> bool {
    let Some((head, rest)) = plain(key).split_once('*') else { return plain(key) == plain(tool) };
    let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    let inner = tool.strip_prefix(head).and_then(|inner| inner.strip_suffix(tail));
    let Some(mut left) = inner else { return false };
    for part in middle.split('*') {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    true
}
