//! What an agent has of its MCP servers, for programs that are told which tools there are and cannot be asked.

use domain::mcp_server::McpServer;
use domain::permission::{Level, Permission, Rule, ToolKind};

use crate::mcp_config;

/// What an agent has of a server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Everything,
    Only(Vec<String>),
    Nothing,
}

/// Returns the tools of a server that the agent has.
pub(crate) fn of_server(permission: &Permission, server: &McpServer) -> Of {
    let denied = |tool: Option<&str>| {
        permission.deny.iter().chain(&permission.ask).any(|rule| match rule.kind() {
            ToolKind::Everything => true,
            ToolKind::Mcp { server: named, tool: None } => named == server.name,
            ToolKind::Mcp { server: named, tool: of } => named == server.name && tool.is_some() && of == tool,
            _ => false,
        })
    };
    if denied(None) {
        return Of::Nothing;
    }
    let whole = ToolKind::Mcp { server: &server.name, tool: None };
    let all = permission.level == Some(Level::Yolo)
        || mcp_config::is_meant(permission, &server.name)
        || permission.allow.iter().any(|rule| speaks(rule, whole));
    let single = permission.allow.iter().filter_map(|rule| match (rule.kind(), rule.pattern()) {
        (ToolKind::Mcp { server: named, tool: Some(tool) }, None) if named == server.name => {
            Some(tool.to_owned())
        }
        _ => None,
    });
    let tools: Vec<String> = match (&server.tools, all) {
        (None, true) => return Of::Everything,
        (Some(tools), true) => tools.clone(),
        (seen, false) => single.filter(|tool| seen.as_ref().is_none_or(|seen| seen.contains(tool))).collect(),
    };
    let tools: Vec<String> = tools.into_iter().filter(|tool| !denied(Some(tool))).collect();
    if tools.is_empty() { Of::Nothing } else { Of::Only(tools) }
}

/// Tells whether a rule speaks of every use of this kind.
pub(crate) fn speaks(rule: &Rule, kind: ToolKind<'_>) -> bool {
    rule.pattern().is_none() && (rule.kind() == kind || rule.kind() == ToolKind::Everything)
}
