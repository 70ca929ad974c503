//! Translates a permission for Codex: a sandbox for the commands, and when it has to ask.
//!
//! Codex reads files with commands, and its sandbox is the kernel's: within it nothing needs to be asked. Whatever it
//! asks for is beyond it, since a command that was accepted is also tried without the sandbox.

use domain::permission::{Ground, Level, Permission, Rule, Ruling, ToolKind};
use serde_json::{Value, json};

use crate::mcp_config::OWN_SERVER;

/// When Codex asks, in its own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asking {
    /// About nothing: everything is allowed.
    Never,
    /// About what is beyond the sandbox.
    Beyond,
    /// About every command and every edit.
    Everything,
}

impl Asking {
    /// Rules that restrict commands or edits need to see all of them.
    pub(super) fn of(permission: &Permission) -> Self {
        let watched =
            |rule: &Rule| matches!(rule.kind(), ToolKind::Shell | ToolKind::Edit | ToolKind::Everything);
        if restricting(permission).any(watched) {
            return Self::Everything;
        }
        let free = permission.level == Some(Level::Yolo) && restricting(permission).next().is_none();
        if free { Self::Never } else { Self::Beyond }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Beyond => "on-request",
            Self::Everything => "untrusted",
        }
    }

    /// Returns how the tools of an agent's MCP server are approved.
    pub(super) fn of_tools(self) -> &'static str {
        match self {
            Self::Never => "approve",
            Self::Beyond | Self::Everything => "prompt",
        }
    }
}

/// Returns how the tools of our own server are approved: that the agent may delegate is its permission.
pub(super) fn own_tools(permission: &Permission) -> &'static str {
    let speaks = |rule: &Rule| match rule.kind() {
        ToolKind::Mcp { server, .. } => server == OWN_SERVER,
        kind => kind == ToolKind::Everything,
    };
    if restricting(permission).any(speaks) { "prompt" } else { "approve" }
}

/// Returns the sandbox of a turn.
pub(super) fn sandbox(permission: &Permission, extra_directories: &[String]) -> Value {
    match permission.level {
        Some(Level::ReadOnly) => json!({"type": "readOnly", "networkAccess": false}),
        // TMPDIR is a folder of the run's own; what is in `/tmp` is others'.
        Some(Level::SafeEdit) | None => json!({
            "type": "workspaceWrite", "writableRoots": extra_directories, "networkAccess": false,
            "excludeSlashTmp": true,
        }),
        Some(Level::Yolo) => json!({"type": "dangerFullAccess"}),
    }
}

/// Tells whether a tool that Codex uses without asking may be there at all.
pub(super) fn allows(permission: &Permission, tool: &str) -> bool {
    matches!(permission.decide(tool, &Value::Null, &Ground::default()), Ruling::Allow(_))
}

/// Tells whether some tool of an agent's server may be used, asked about or not.
pub(super) fn may_use(permission: &Permission, server: &str) -> bool {
    let speaks = |rule: &Rule| matches!(rule.kind(), ToolKind::Mcp { server: named, .. } if named == server);
    let some_tool = format!("mcp__{server}__tool");
    permission.allow.iter().chain(&permission.ask).any(speaks)
        || !matches!(permission.decide(&some_tool, &Value::Null, &Ground::default()), Ruling::Deny(_))
}

/// Names the rules that Codex gives nobody a chance to follow.
pub(super) fn unenforceable(permission: &Permission) -> Vec<String> {
    let lists = [("ask", &permission.ask), ("deny", &permission.deny)];
    let named = lists.into_iter().flat_map(|(word, rules)| rules.iter().map(move |rule| (word, rule)));
    named
        .filter_map(|(word, rule)| {
            let reason = match (rule.kind(), word) {
                (ToolKind::Read | ToolKind::Search, _) => "codex reads with commands and does not ask",
                (ToolKind::WebSearch | ToolKind::Delegate, "ask") => "codex cannot ask before it does that",
                (ToolKind::Other(_), _) => "codex has no such tool",
                _ => return None,
            };
            Some(format!("the rule {word} {rule}: {reason}"))
        })
        .collect()
}

fn restricting(permission: &Permission) -> impl Iterator<Item = &Rule> {
    permission.ask.iter().chain(&permission.deny)
}
