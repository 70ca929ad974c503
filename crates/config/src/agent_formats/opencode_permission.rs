//! `permission` and `tools` of opencode's agents. In opencode the last matching entry wins, here a denial does:
//! therefore an entry for all tools is resolved for each tool.

use domain::permission::{Level, Permission, ToolKind};
use domain::policy::Extent;

use super::setup::{RULES_MAX, parse_rule, report_too_many};
use crate::text::{Diagnostics, MapEntry, Node, NodeValue, quote, read_bool, read_choice};

#[derive(Debug, Clone, Copy, PartialEq)]
enum OpencodeDecision {
    Allow,
    Ask,
    Deny,
    /// Switched on, which has an effect only on a tool that was switched off before.
    Enabled,
}

const DECISIONS: [(&str, OpencodeDecision); 3] =
    [("allow", OpencodeDecision::Allow), ("ask", OpencodeDecision::Ask), ("deny", OpencodeDecision::Deny)];

/// The tools that a wildcard can match. Those of one line are one tool here.
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
/// Other names for editing.
const EDITS: [&str; 4] = ["write", "patch", "multiedit", "apply_patch"];

/// One decision about a tool, or about several.
struct PermissionEntry<'a> {
    tool: String,
    /// `*` matches every use.
    pattern: &'a str,
    decision: OpencodeDecision,
    node: &'a Node,
    key: &'static str,
}

impl PermissionEntry<'_> {
    fn restricts(&self) -> bool {
        matches!(self.decision, OpencodeDecision::Ask | OpencodeDecision::Deny)
    }
}

/// Reads both keys: `tools: {write: false}` and `permission: {edit: deny, bash: {"git *": allow}}`.
pub(super) fn read(
    tools: Option<&Node>,
    permission: Option<&Node>,
    diagnostics: &mut Diagnostics<'_>,
) -> Permission {
    let mut entries = tools.map(|node| read_tools(node, diagnostics)).unwrap_or_default();
    let later = permission.map(|node| read_permission(node, diagnostics)).unwrap_or_default();
    for (entries, key, node) in [(&entries, "tools", tools), (&later, "permission", permission)] {
        if let (true, Some(node)) = (entries.len() > RULES_MAX, node) {
            report_too_many(key, node, diagnostics);
            return Permission::default();
        }
    }
    // The newer key wins for a tool that both name.
    entries.retain(|earlier| {
        !later.iter().any(|later| canonical_tool(&later.tool) == canonical_tool(&earlier.tool))
    });
    entries.extend(later);
    let mut permission = Permission::default();
    match entries.iter().any(|entry| is_wildcard(&entry.tool)) {
        true => resolve_wildcards(&entries, &mut permission, diagnostics),
        false => add_each_tool(&entries, &mut permission, diagnostics),
    }
    for entry in entries
        .iter()
        .filter(|entry| entry.decision == OpencodeDecision::Enabled && is_denied(&permission, &entry.tool))
    {
        let message = format!("tools.{}: true allows nothing by itself, so the tool is denied", entry.tool);
        diagnostics.warning_with_hint(
            entry.node.location,
            message,
            format!("write permission: {{{}: allow}}", entry.tool),
        );
    }
    permission
}

/// Returns whether a tool needs a rule and no rule matches it.
fn is_denied(permission: &Permission, tool: &str) -> bool {
    let kind = ToolKind::from_name(tool);
    let beyond = matches!(kind, ToolKind::Shell | ToolKind::Fetch | ToolKind::WebSearch | ToolKind::Delegate);
    let mut rules = permission.allow.iter().chain(&permission.ask).chain(&permission.deny);
    beyond && permission.level_extent(kind) == Extent::Nothing && !rules.any(|rule| rule.is_about(kind))
}

fn read_tools<'a>(node: &'a Node, diagnostics: &mut Diagnostics<'_>) -> Vec<PermissionEntry<'a>> {
    let NodeValue::Map(entries) = &node.value else {
        let message = format!("tools: expected names with true or false, found {}", node.describe());
        diagnostics.error_with_hint(node.location, message, "write for example {write: false}");
        return Vec::new();
    };
    let parsed = entries.iter().filter_map(|entry| {
        let on = read_bool(&entry.node, &format!("tools.{}", entry.key), diagnostics)?;
        let decision = if on { OpencodeDecision::Enabled } else { OpencodeDecision::Deny };
        Some(PermissionEntry {
            tool: entry.key.clone(),
            pattern: "*",
            decision,
            node: &entry.node,
            key: "tools",
        })
    });
    parsed.collect()
}

fn read_permission<'a>(node: &'a Node, diagnostics: &mut Diagnostics<'_>) -> Vec<PermissionEntry<'a>> {
    let key = "permission";
    let NodeValue::Map(entries) = &node.value else {
        let decision = read_choice(node, key, &DECISIONS, diagnostics);
        let entry = decision.map(|decision| PermissionEntry {
            tool: "*".to_owned(),
            pattern: "*",
            decision,
            node,
            key,
        });
        return entry.into_iter().collect();
    };
    let mut parsed = Vec::new();
    for MapEntry { key: tool, node, .. } in entries {
        let name = format!("permission.{tool}");
        let mut one = |pattern: &'a str, node: &'a Node| {
            let decision = read_choice(node, &name, &DECISIONS, diagnostics);
            parsed.extend(decision.map(|decision| PermissionEntry {
                tool: tool.clone(),
                pattern,
                decision,
                node,
                key,
            }));
        };
        match &node.value {
            NodeValue::Map(patterns) => patterns.iter().for_each(|entry| one(&entry.key, &entry.node)),
            NodeValue::String(_)
            | NodeValue::List(_)
            | NodeValue::Null
            | NodeValue::Bool(_)
            | NodeValue::Integer(_)
            | NodeValue::Float(_)
            | NodeValue::DateTime => one("*", node),
        }
    }
    parsed
}

/// Adds the rules of entries without wildcards, tool by tool.
fn add_each_tool(
    entries: &[PermissionEntry<'_>],
    permission: &mut Permission,
    diagnostics: &mut Diagnostics<'_>,
) {
    let mut tools: Vec<&str> = Vec::new();
    for entry in entries {
        if !tools.contains(&entry.tool.as_str()) {
            tools.push(&entry.tool);
        }
    }
    for tool in tools {
        let own: Vec<&PermissionEntry<'_>> = entries
            .iter()
            .filter(|entry| entry.tool == tool && entry.decision != OpencodeDecision::Enabled)
            .collect();
        add_patterns(tool, &own, permission, diagnostics);
    }
}

/// Resolves entries with wildcards for each tool.
fn resolve_wildcards(
    entries: &[PermissionEntry<'_>],
    permission: &mut Permission,
    diagnostics: &mut Diagnostics<'_>,
) {
    let mut tools: Vec<Vec<&str>> = TOOLS.iter().map(|tools| tools.to_vec()).collect();
    for entry in entries.iter().filter(|entry| !is_wildcard(&entry.tool)) {
        if !tools.iter().flatten().any(|tool| *tool == canonical_tool(&entry.tool)) {
            tools.push(vec![&entry.tool]);
        }
    }
    let resolved: Vec<(&str, Vec<&PermissionEntry<'_>>)> =
        tools.iter().map(|tools| effective_entries(tools, entries, diagnostics)).collect();
    let rest = entries.iter().rev().find(|entry| entry.tool == "*" && entry.pattern == "*");
    let is_rest = |one: &PermissionEntry<'_>| rest.is_some_and(|rest| std::ptr::eq(one, rest));
    let follows_rest = |entries: &[&PermissionEntry<'_>]| matches!(entries, [one] if is_rest(one));
    match rest {
        Some(rest) if resolved.iter().all(|(_, entries)| follows_rest(entries)) => {
            return add(permission, rest, "*", diagnostics);
        }
        Some(rest)
            if rest.decision == OpencodeDecision::Allow
                && resolved.iter().all(|(_, entries)| !reopens(entries)) =>
        {
            add(permission, rest, "*", diagnostics);
        }
        // Tools without an entry are denied too; for unknown tools only a level can express that.
        Some(rest) if rest.decision == OpencodeDecision::Deny => permission.level = Some(Level::ReadOnly),
        Some(_) | None => {}
    }
    let everything = permission.allow.iter().any(|rule| rule.kind() == ToolKind::Everything);
    for (tool, entries) in resolved {
        let by_level = permission.level == Some(Level::ReadOnly) && is_beyond(permission.level, tool);
        if !follows_rest(&entries) || !(everything || by_level) {
            add_patterns(tool, &entries, permission, diagnostics);
        }
    }
}

/// Returns the name of a group of tools that are one tool here, and the entries in force for it.
fn effective_entries<'t, 'a, 'b>(
    tools: &[&'t str],
    entries: &'b [PermissionEntry<'a>],
    diagnostics: &mut Diagnostics<'_>,
) -> (&'t str, Vec<&'b PermissionEntry<'a>>) {
    let is_named = |tool: &&&str| entries.iter().any(|entry| canonical_tool(&entry.tool) == **tool);
    let meant = tools.iter().find(is_named).or(tools.first()).copied().unwrap_or_default();
    let counts = entries_in_force(meant, entries);
    let words = |entries: &[&PermissionEntry<'_>]| -> Vec<(String, OpencodeDecision)> {
        entries.iter().map(|entry| (entry.pattern.to_owned(), entry.decision)).collect()
    };
    for other in tools.iter().filter(|tool| **tool != meant) {
        let others = entries_in_force(other, entries);
        if let (true, Some(last)) = (words(&others) != words(&counts), counts.last().or(others.last())) {
            let message = format!("{}: {other} is decided as {meant} is: both are one tool here", last.key);
            diagnostics.warning(last.node.location, message);
        }
    }
    (meant, counts)
}

/// Returns the entries in force for a tool: the last one for every use, and those after it.
fn entries_in_force<'a, 'b>(tool: &str, entries: &'b [PermissionEntry<'a>]) -> Vec<&'b PermissionEntry<'a>> {
    let mut counts: Vec<&PermissionEntry<'_>> = Vec::new();
    let mut is_restricted = false;
    for entry in entries.iter().filter(|entry| matches(&entry.tool, tool)) {
        let was_restricted = is_restricted;
        if entry.pattern == "*" {
            counts.clear();
            is_restricted = false;
        }
        if entry.decision != OpencodeDecision::Enabled || was_restricted {
            counts.push(entry);
            is_restricted |= entry.restricts();
        }
    }
    counts
}

/// Returns whether something is allowed again after it was restricted.
fn reopens(entries: &[&PermissionEntry<'_>]) -> bool {
    entries.iter().skip_while(|entry| !entry.restricts()).any(|entry| !entry.restricts())
}

/// Adds the rules for one tool. Both orders have the same meaning if the entry for all other uses comes first and a
/// level can express it.
fn add_patterns(
    tool: &str,
    entries: &[&PermissionEntry<'_>],
    permission: &mut Permission,
    diagnostics: &mut Diagnostics<'_>,
) {
    for (at, one) in entries.iter().enumerate() {
        if reopens(&entries[at..]) && one.restricts() {
            if at == 0 && one.pattern == "*" && leave_to_level(permission, one.decision, tool) {
                if one.decision == OpencodeDecision::Ask {
                    let message =
                        format!("permission.{tool}: what no pattern allows is denied instead of asked for");
                    let hint = "opencode can ask nobody while it runs; allow what the agent may do";
                    diagnostics.warning_with_hint(one.node.location, message, hint);
                }
                continue;
            }
            let pattern = quote(one.pattern);
            let message =
                format!("permission.{tool}: {pattern} stands before what is allowed, and still counts");
            let hint = "write what is allowed first; a denial beats it";
            diagnostics.warning_with_hint(one.node.location, message, hint);
        }
        let spelling = match one.pattern {
            "*" => tool.to_owned(),
            pattern => format!("{tool}({pattern})"),
        };
        add(permission, one, &spelling, diagnostics);
    }
}

/// Restricts a tool with the level, which allow rules beat, and returns whether a level can express that.
fn leave_to_level(permission: &mut Permission, decision: OpencodeDecision, tool: &str) -> bool {
    if ToolKind::from_name(tool) == ToolKind::Edit {
        permission.level = Some(Level::ReadOnly);
    }
    let can = is_beyond(permission.level, tool);
    if can && decision == OpencodeDecision::Deny {
        permission.level.get_or_insert(Level::SafeEdit);
    }
    can
}

fn add(
    permission: &mut Permission,
    entry: &PermissionEntry<'_>,
    spelling: &str,
    diagnostics: &mut Diagnostics<'_>,
) {
    let rule = parse_rule(spelling, entry.key, entry.node, diagnostics);
    let rules = match entry.decision {
        OpencodeDecision::Allow | OpencodeDecision::Enabled => &mut permission.allow,
        OpencodeDecision::Ask => &mut permission.ask,
        OpencodeDecision::Deny => &mut permission.deny,
    };
    rules.extend(rule);
}

/// Returns whether a level does not allow a tool without a rule; yolo is never passed here.
fn is_beyond(level: Option<Level>, tool: &str) -> bool {
    let kind = ToolKind::from_name(tool);
    let needs_rule = matches!(
        kind,
        ToolKind::Edit | ToolKind::Shell | ToolKind::Fetch | ToolKind::WebSearch | ToolKind::Delegate
    );
    needs_rule && level.unwrap_or(Level::SafeEdit).extent(kind) == Extent::Nothing
}

/// Returns whether an entry matches several known tools.
fn is_wildcard(key: &str) -> bool {
    key.contains('*') && TOOLS.iter().copied().flatten().any(|tool| matches(key, tool))
}

/// Returns the canonical name of a tool.
fn canonical_tool(key: &str) -> &str {
    if EDITS.contains(&key) { "edit" } else { key }
}

/// `*` matches anything.
fn matches(key: &str, tool: &str) -> bool {
    let Some((head, rest)) = canonical_tool(key).split_once('*') else {
        return canonical_tool(key) == canonical_tool(tool);
    };
    let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    let inner = tool.strip_prefix(head).and_then(|inner| inner.strip_suffix(tail));
    let Some(mut left) = inner else { return false };
    for part in middle.split('*') {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    true
}
