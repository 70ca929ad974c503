//! Translates a permission into the tools that Qwen Code must refuse by itself, without asking.

use domain::permission::{Level, Permission, Rule, ToolKind};
use domain::policy::Extent;

use super::versions::{self, ASK_USER_TOOL, UNCONFIRMED_TOOLS};
use crate::policy_translation;

/// Returns the rules that its options cannot express, or that it would not ask about.
pub(super) fn unenforceable(permission: &Permission) -> Vec<String> {
    let inexpressible = permission.deny.iter().filter(|rule| rule.spelling().contains(','));
    let unconfirmed = permission
        .ask
        .iter()
        .filter(|rule| matches!(rule.kind(), ToolKind::Read | ToolKind::Search | ToolKind::Everything));
    let inexpressible = inexpressible.map(|rule| format!("the rule deny {rule}"));
    inexpressible.chain(unconfirmed.map(|rule| format!("the rule ask {rule}"))).collect()
}

/// Returns the tools and rules to refuse, because Qwen Code allows some uses without asking. If a run may execute commands, edit
/// tools are not refused but asked about: otherwise Qwen Code would refuse every command that writes.
pub(super) fn excluded_tools(permission: &Permission, tools: Option<&[String]>) -> Vec<String> {
    let mut excluded = vec![ASK_USER_TOOL.to_owned()];
    excluded.extend(permission.deny.iter().flat_map(rule_names));
    let is_mentioned = |kind: ToolKind<'_>| permission.opens_kind(kind);
    let is_above_level = |kind: ToolKind<'_>| {
        let level = permission.level.filter(|_| matches!(kind, ToolKind::Shell | ToolKind::Edit));
        let is_denied = level.is_some_and(|level| level.extent(kind) == Extent::Nothing);
        is_denied && !is_mentioned(ToolKind::Shell) && !is_mentioned(kind)
    };
    if permission.level.is_some_and(Level::is_limited) {
        let unmentioned = UNCONFIRMED_TOOLS.into_iter().filter(|tool| !is_mentioned(ToolKind::Other(tool)));
        excluded.extend(unmentioned.map(ToOwned::to_owned));
    }
    for (kind, kind_tools) in versions::all_tools() {
        let is_above_level = is_above_level(kind);
        let is_excluded =
            |tool: &&str| is_above_level || tools.is_some_and(|tools| !is_listed(kind, tool, tools));
        excluded.extend(kind_tools.iter().copied().filter(is_excluded).map(ToOwned::to_owned));
    }
    excluded.sort_unstable();
    excluded.dedup();
    excluded
}

/// Returns whether a list contains a tool. A name of the program stands for that tool alone, any other name for all tools of its
/// kind; so does `edit`, which is both.
fn is_listed(kind: ToolKind<'_>, tool: &str, tools: &[String]) -> bool {
    let is_own =
        |name: &str| name.contains('_') && versions::all_tools().any(|(_, tools)| tools.contains(&name));
    tools.iter().any(|name| match ToolKind::from_name(name) {
        _ if is_own(name) => name == tool,
        listed_kind => listed_kind == kind || listed_kind == ToolKind::Everything || name == tool,
    })
}

/// Returns a rule with the program's names of tools. Patterns have the same format.
fn rule_names(rule: &Rule) -> Vec<String> {
    let names: Vec<String> = match rule.kind() {
        ToolKind::Everything => versions::all_tools().flat_map(|(_, tools)| to_strings(tools)).collect(),
        ToolKind::Mcp { server, tool: Some(tool) } => vec![format!("mcp__{server}__{tool}")],
        ToolKind::Mcp { server, tool: None } => vec![format!("mcp__{server}")],
        ToolKind::Other(name) => vec![name.to_owned()],
        kind => to_strings(versions::tools_for(kind)),
    };
    policy_translation::renamed_rule(rule, names.iter().map(String::as_str)).collect()
}

fn to_strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
