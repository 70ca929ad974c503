//! A permission in the words of goose: which tools there are. It has no rules about what they are used on, and where
//! files may be changed cannot be limited.

use domain::mcp_server::McpServer;
use domain::permission::{Level, Permission, Rule, ToolKind};

use crate::mcp_config;

/// The tools of the extension that works on files, with what they do.
const OWN: [(&str, ToolKind<'static>); 5] = [
    ("analyze", ToolKind::Search),
    ("edit", ToolKind::Edit),
    ("shell", ToolKind::Shell),
    ("tree", ToolKind::Read),
    ("write", ToolKind::Edit),
];

/// Tells whether a rule speaks of every use of this kind.
fn speaks(rule: &Rule, kind: ToolKind<'_>) -> bool {
    rule.pattern().is_none() && (rule.kind() == kind || rule.kind() == ToolKind::Everything)
}

/// Tells whether a kind of tool may be there: a rule that denies some of its uses takes all of it away.
fn may(permission: &Permission, kind: ToolKind<'_>) -> bool {
    let restricts = |rule: &Rule| rule.kind() == kind || rule.kind() == ToolKind::Everything;
    if permission.deny.iter().chain(&permission.ask).any(restricts) {
        return false;
    }
    if permission.allow.iter().any(|rule| speaks(rule, kind)) {
        return true;
    }
    match (permission.level.unwrap_or(Level::SafeEdit), kind) {
        (Level::Yolo, _) | (_, ToolKind::Read | ToolKind::Search) => true,
        (Level::SafeEdit, ToolKind::Edit) => true,
        (Level::SafeEdit | Level::ReadOnly, _) => false,
    }
}

/// Returns the tools of its own that the agent has.
pub(super) fn own(permission: &Permission, wanted: Option<&[String]>) -> Vec<&'static str> {
    let asked = |tool: &str, kind: ToolKind<'_>| {
        wanted.is_none_or(|wanted| wanted.iter().any(|name| name == tool || ToolKind::named(name) == kind))
    };
    OWN.iter()
        .filter(|(tool, kind)| may(permission, *kind) && asked(tool, *kind))
        .map(|(tool, _)| *tool)
        .collect()
}

/// What an agent has of a server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Of {
    Everything,
    Only(Vec<String>),
    Nothing,
}

/// Returns the tools of a server that the agent has.
pub(super) fn of_server(permission: &Permission, server: &McpServer) -> Of {
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

/// Names what a permission demands and goose cannot do.
pub(super) fn unenforceable(permission: &Permission) -> Vec<String> {
    let mut gaps = Vec::new();
    let edits = permission.level == Some(Level::SafeEdit) && may(permission, ToolKind::Edit);
    if edits && !permission.allow.iter().any(|rule| speaks(rule, ToolKind::Edit)) {
        gaps.push("the level safe-edit (it changes files outside its directory too)".to_owned());
    }
    let patterned = permission.allow.iter().filter(|rule| rule.pattern().is_some());
    gaps.extend(patterned.map(|rule| format!("the rule allow {rule}")));
    let shell = may(permission, ToolKind::Shell);
    for (word, rule) in permission
        .ask
        .iter()
        .map(|rule| ("ask", rule))
        .chain(permission.deny.iter().map(|rule| ("deny", rule)))
    {
        // What the shell can do, a rule about another tool does not prevent; and of a server that is whole, goose
        // cannot take one tool away.
        let said = match rule.kind() {
            ToolKind::Shell | ToolKind::Everything => true,
            ToolKind::Mcp { tool, .. } => tool.is_none(),
            ToolKind::Delegate => true,
            ToolKind::Read | ToolKind::Edit | ToolKind::Search | ToolKind::Fetch | ToolKind::WebSearch => {
                !shell
            }
            ToolKind::Other(_) => false,
        };
        if !said {
            gaps.push(format!("the rule {word} {rule}"));
        }
    }
    gaps
}
