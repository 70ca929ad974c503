//! Translates a permission into a list of tools. Kimi Code has no rules about the arguments of a tool.

use domain::mcp_server::McpServer;
use domain::permission::{Permission, Rule, ToolKind};
use domain::policy::Extent;

use super::versions::TOOLS;
use crate::policy_translation::{self, UNBOUNDED_EDITS};
use crate::server_tools::{self, ServerTools};

/// Returns whether a kind of tool may be enabled.
fn is_allowed(permission: &Permission, kind: ToolKind<'_>) -> bool {
    // An agent that it calls has all tools, whatever its own are.
    if kind == ToolKind::Delegate && !permission.is_unrestricted() {
        return false;
    }
    permission.tool_extent(kind) != Extent::Nothing
}

/// Returns the built-in tools that the agent has.
pub(super) fn allowed_tools(permission: &Permission, listed: Option<&[String]>) -> Vec<&'static str> {
    policy_translation::enabled_tools(&TOOLS, listed, |kind| is_allowed(permission, kind))
}

/// Returns the tools of a server that the agent has, under the names that Kimi Code uses.
pub(super) fn allowed_server_tools(permission: &Permission, server: &McpServer) -> Vec<String> {
    let tool_name = |tool: &str| format!("mcp__{}__{tool}", server.name);
    match server_tools::allowed_tools(permission, server) {
        ServerTools::Everything => vec![tool_name("*")],
        ServerTools::Only(tools) => tools.iter().map(|tool| tool_name(tool)).collect(),
        ServerTools::Nothing => Vec::new(),
    }
}

/// Returns the allowing rules that Kimi Code cannot express, so that their tools are disabled.
pub(super) fn inexpressible_grants(permission: &Permission) -> Vec<String> {
    let is_expressible = |rule: &Rule| rule.pattern().is_none() && rule.kind() != ToolKind::Delegate;
    let missing = |rule: &&Rule| !is_expressible(rule) && !is_allowed(permission, rule.kind());
    permission.allow.iter().filter(missing).map(|rule| format!("the rule allow {rule}")).collect()
}

/// Returns the parts of a permission that Kimi Code cannot enforce.
pub(super) fn unenforceable(permission: &Permission) -> Vec<String> {
    let has_bounds = permission.level.is_some_and(|level| level.extent(ToolKind::Edit) == Extent::Directory);
    let allows_all_edits = |rule: &Rule| rule.pattern().is_none() && rule.kind() == ToolKind::Edit;
    let bounds_edits = has_bounds
        && is_allowed(permission, ToolKind::Edit)
        && !permission.allow.iter().any(allows_all_edits);
    let level = bounds_edits.then(|| UNBOUNDED_EDITS.to_owned());
    let has_shell = is_allowed(permission, ToolKind::Shell);
    level.into_iter().chain(policy_translation::unlisted_restrictions(permission, has_shell)).collect()
}
