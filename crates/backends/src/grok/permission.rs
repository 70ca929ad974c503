//! Translates a permission for Grok: a kernel sandbox for the level, and rules that deny.

use domain::permission::{Permission, Rule, ToolKind};
use domain::policy::Extent;

use crate::policy_translation::{ByLevel, renamed_rule};

/// Rules that are denied at `read-only`: the sandbox alone would allow writes in temporary folders.
const WRITE_RULES: [&str; 3] = ["Bash", "Edit", "Write"];
const ALL_RULES: [&str; 6] = ["Bash", "Edit", "Write", "Read", "Grep", "WebFetch"];
/// The tools with which a model finds and calls tools of MCP servers. The servers of the user and the project are not the agent's.
pub(super) const SERVER_TOOLS: [&str; 2] = ["search_tool", "use_tool"];

pub(super) fn sandbox(permission: &Permission) -> &'static str {
    ByLevel { read_only: "read-only", safe_edit: "workspace", yolo: "off" }.select(permission)
}

/// Returns the rules to deny. Grok cannot ask in this mode, so `ask` rules deny. Where the user's settings apply, only the sandbox
/// enforces the level, as with sub-agents-mcp.
pub(super) fn denied_rules(permission: &Permission, by_sandbox: bool) -> Vec<String> {
    let read_only = permission.level_extent(ToolKind::Edit) == Extent::Nothing && !by_sandbox;
    let level = WRITE_RULES.iter().filter(|_| read_only).map(|rule| (*rule).to_owned());
    let rules = permission.restricting_rules().flat_map(|(_, rule)| rule_spellings(rule));
    level.chain(rules).collect()
}

/// Returns the built-in tools to disable.
pub(super) fn removed_tools(permission: &Permission) -> Vec<&'static str> {
    permission.restricting_rules().filter_map(|(_, rule)| removable_tool(rule)).collect()
}

/// Returns the rules that Grok cannot enforce: rules that allow more than the level, and rules that the shell would circumvent.
pub(super) fn unenforceable(permission: &Permission) -> Vec<String> {
    let mut gaps: Vec<String> =
        permission.allow.iter().map(|rule| format!("the rule allow {rule}")).collect();
    let has_shell = !denied_rules(permission, false).iter().any(|rule| rule == "Bash");
    for (list, rule) in permission.restricting_rules() {
        let about_files = matches!(rule.kind(), ToolKind::Read | ToolKind::Edit | ToolKind::Search);
        let is_expressible =
            !rule_spellings(rule).is_empty() || removable_tool(rule).is_some() || is_mcp_rule(rule);
        if !is_expressible || (about_files && has_shell) {
            gaps.push(format!("the rule {list} {rule}"));
        }
    }
    gaps
}

fn rule_spellings(rule: &Rule) -> Vec<String> {
    let names: &[&str] = match rule.kind() {
        ToolKind::Shell => &["Bash"],
        ToolKind::Edit => &["Edit", "Write"],
        ToolKind::Read => &["Read"],
        ToolKind::Search => &["Grep"],
        ToolKind::Fetch => &["WebFetch"],
        ToolKind::Everything => &ALL_RULES,
        ToolKind::WebSearch
        | ToolKind::Delegate
        | ToolKind::Mcp { .. }
        | ToolKind::Env
        | ToolKind::Other(_) => &[],
    };
    renamed_rule(rule, names.iter().copied()).collect()
}

fn removable_tool(rule: &Rule) -> Option<&'static str> {
    match rule.kind() {
        ToolKind::WebSearch if rule.pattern().is_none() => Some("web_search"),
        ToolKind::Delegate if rule.pattern().is_none() => Some("Agent"),
        _ => None,
    }
}

/// Returns whether a rule is about tools that are disabled anyway.
fn is_mcp_rule(rule: &Rule) -> bool {
    matches!(rule.kind(), ToolKind::Mcp { .. })
}
