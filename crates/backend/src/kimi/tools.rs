//! A permission in the words of Kimi Code: which tools there are. Nothing can be said about what they are used on.

use domain::mcp_server::McpServer;
use domain::permission::{Level, Permission, Rule, ToolKind};

use super::versions::TOOLS;
use crate::server_tools::{self, Of};

/// Tells whether a kind of tool may be there: a rule that denies some of its uses takes all of it away.
fn may(permission: &Permission, kind: ToolKind<'_>) -> bool {
    let speaks = |rule: &Rule| rule.kind() == kind || rule.kind() == ToolKind::Everything;
    // An agent that it hands work to has all tools, whatever its own are.
    if kind == ToolKind::Delegate && !is_free(permission) {
        return false;
    }
    if permission.deny.iter().chain(&permission.ask).any(speaks) {
        return false;
    }
    if permission.allow.iter().any(|rule| rule.pattern().is_none() && speaks(rule)) {
        return true;
    }
    match (permission.level.unwrap_or(Level::SafeEdit), kind) {
        (Level::Yolo, _) | (_, ToolKind::Read | ToolKind::Search) => true,
        (level, ToolKind::Edit) => level == Level::SafeEdit,
        (Level::SafeEdit | Level::ReadOnly, _) => false,
    }
}

/// Tells whether nothing is held back.
fn is_free(permission: &Permission) -> bool {
    permission.level == Some(Level::Yolo) && permission.deny.is_empty() && permission.ask.is_empty()
}

/// Returns the tools that the agent has.
pub(super) fn allowed(permission: &Permission, wanted: Option<&[String]>) -> Vec<&'static str> {
    let asked = |tool: &str, kind: ToolKind<'_>| {
        wanted.is_none_or(|wanted| wanted.iter().any(|name| name == tool || ToolKind::named(name) == kind))
    };
    let tools = TOOLS.iter().filter(|(tool, kind)| may(permission, *kind) && asked(tool, *kind));
    tools.map(|(tool, _)| *tool).collect()
}

/// Returns the tools that the agent has of a server, as they are called there.
pub(super) fn of_server(permission: &Permission, server: &McpServer) -> Vec<String> {
    let named = |tool: &str| format!("mcp__{}__{tool}", server.name);
    match server_tools::of_server(permission, server) {
        Of::Everything => vec![named("*")],
        Of::Only(tools) => tools.iter().map(|tool| named(tool)).collect(),
        Of::Nothing => Vec::new(),
    }
}

/// Names what a permission allows and Kimi Code has no words for, so that it is not there.
pub(super) fn ungranted(permission: &Permission) -> Vec<String> {
    let has_words = |rule: &Rule| rule.pattern().is_none() && rule.kind() != ToolKind::Delegate;
    let missing = |rule: &&Rule| !has_words(rule) && !may(permission, rule.kind());
    permission.allow.iter().filter(missing).map(|rule| format!("the rule allow {rule}")).collect()
}

/// Names what a permission demands and Kimi Code cannot do.
pub(super) fn unenforceable(permission: &Permission) -> Vec<String> {
    let mut gaps = Vec::new();
    let edits = permission.level == Some(Level::SafeEdit) && may(permission, ToolKind::Edit);
    let unlimited = |rule: &Rule| rule.pattern().is_none() && rule.kind() == ToolKind::Edit;
    if edits && !permission.allow.iter().any(unlimited) {
        gaps.push("the level safe-edit (it changes files outside its directory too)".to_owned());
    }
    let shell = may(permission, ToolKind::Shell);
    let lists = [("ask", &permission.ask), ("deny", &permission.deny)];
    for (word, rule) in lists.into_iter().flat_map(|(word, rules)| rules.iter().map(move |rule| (word, rule)))
    {
        // What the shell can do, a rule about another tool does not prevent; and of a server that is whole, one tool
        // cannot be taken away.
        let said = match rule.kind() {
            ToolKind::Shell | ToolKind::Everything | ToolKind::Delegate => true,
            ToolKind::Mcp { tool, .. } => tool.is_none(),
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
