//! Determines which tools of its MCP servers an agent has, for programs that take a list of tools and cannot ask.

use domain::mcp_server::McpServer;
use domain::permission::{Permission, ToolKind};
use domain::policy::Extent;

use crate::mcp_config;

/// The tools of a server that an agent has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ServerTools {
    Everything,
    Only(Vec<String>),
    Nothing,
}

/// Returns the tools of a server that the agent has.
pub(crate) fn allowed_tools(permission: &Permission, server: &McpServer) -> ServerTools {
    let denied = |tool: Option<&str>| {
        permission.restricting_rules().any(|(_, rule)| match rule.kind() {
            ToolKind::Everything => true,
            ToolKind::Mcp { server: rule_server, tool: None } => rule_server == server.name,
            ToolKind::Mcp { server: rule_server, tool: rule_tool } => {
                rule_server == server.name && tool.is_some() && rule_tool == tool
            }
            _ => false,
        })
    };
    if denied(None) {
        return ServerTools::Nothing;
    }
    let whole = ToolKind::Mcp { server: &server.name, tool: None };
    let all = permission.level_extent(whole) == Extent::Everything
        || mcp_config::is_implicitly_allowed(permission, &server.name)
        || permission.grants_kind(whole);
    let single = permission.allow.iter().filter_map(|rule| match (rule.kind(), rule.pattern()) {
        (ToolKind::Mcp { server: rule_server, tool: Some(tool) }, None) if rule_server == server.name => {
            Some(tool.to_owned())
        }
        _ => None,
    });
    let tools: Vec<String> = match (&server.tools, all) {
        (None, true) => return ServerTools::Everything,
        (Some(tools), true) => tools.clone(),
        (visible, false) => {
            single.filter(|tool| visible.as_ref().is_none_or(|visible| visible.contains(tool))).collect()
        }
    };
    let tools: Vec<String> = tools.into_iter().filter(|tool| !denied(Some(tool))).collect();
    if tools.is_empty() { ServerTools::Nothing } else { ServerTools::Only(tools) }
}
