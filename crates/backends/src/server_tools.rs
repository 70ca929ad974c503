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
        let used = ToolKind::Mcp { server: &server.name, tool };
        permission.restricting_rules().any(|(_, rule)| rule.restricts(used))
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::registry;

    fn denying(rule: &str) -> Permission {
        serde_json::from_value(json!({"level": "yolo", "deny": [rule]})).unwrap()
    }

    #[test]
    fn a_denial_with_a_star_applies_to_the_tools_that_it_matches() {
        let transport = json!({"stdio": {"command": "/s"}});
        let server = json!({"name": "github", "transport": transport, "tools": ["list", "delete_repo"]});
        let server: McpServer = serde_json::from_value(server).unwrap();
        let tools = |rule: &str| allowed_tools(&denying(rule), &server);
        assert_eq!(tools("mcp__github__delete_*"), ServerTools::Only(vec!["list".to_owned()]));
        assert_eq!(tools("mcp__*"), ServerTools::Nothing);
        assert_eq!(tools("mcp__gitlab*"), ServerTools::Only(server.tools.clone().unwrap()));
    }

    #[test]
    fn a_program_that_compares_names_as_texts_does_not_enforce_a_star() {
        for kind in ["gemini", "copilot", "opencode"] {
            let backend = registry::by_kind(kind).unwrap();
            let gaps = |rule: &str| backend.unenforceable(&denying(rule), &Value::Null);
            for rule in ["mcp__*", "mcp__github__delete_*"] {
                assert_eq!(gaps(rule), [format!("the rule deny {rule}")], "{kind}");
            }
            assert_eq!(gaps("mcp__github"), [""; 0], "{kind}");
        }
    }
}
