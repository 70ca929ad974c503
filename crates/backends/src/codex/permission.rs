//! Translates a permission for Codex: a sandbox for its commands, and an approval policy.
//!
//! Codex reads files with commands, and the kernel enforces its sandbox: within the sandbox Codex need not ask. A request for
//! approval is always for something outside, because Codex also runs an accepted command without the sandbox.

use domain::permission::{Permission, ToolKind};
use domain::policy::{Effect, Policy, Use};
use serde_json::{Value, json};

use crate::mcp_config::OWN_SERVER;
use crate::policy_translation::ByLevel;

/// When Codex asks for approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ApprovalPolicy {
    /// Never: everything is allowed.
    Never,
    /// For anything outside the sandbox.
    OnRequest,
    /// For every command and every edit.
    Untrusted,
}

impl ApprovalPolicy {
    /// Rules that restrict commands or edits must see every one of them.
    pub(super) fn from_permission(permission: &Permission) -> Self {
        if permission.restricts_kind(ToolKind::Shell) || permission.restricts_kind(ToolKind::Edit) {
            return Self::Untrusted;
        }
        if permission.is_unrestricted() { Self::Never } else { Self::OnRequest }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::OnRequest => "on-request",
            Self::Untrusted => "untrusted",
        }
    }

    /// Returns the approval mode for the tools of an agent's MCP servers.
    pub(super) fn mcp_approval_mode(self) -> &'static str {
        match self {
            Self::Never => "approve",
            Self::OnRequest | Self::Untrusted => "prompt",
        }
    }
}

/// Returns the approval mode for the tools of Volery's own server. An agent that may delegate may use them.
pub(super) fn own_server_approval_mode(permission: &Permission) -> &'static str {
    if permission.restricts_server(OWN_SERVER) { "prompt" } else { "approve" }
}

/// Returns the sandbox of a turn.
pub(super) fn sandbox(permission: &Permission, extra_directories: &[String]) -> Value {
    let sandboxes = ByLevel {
        read_only: json!({"type": "readOnly", "networkAccess": false}),
        // TMPDIR is a folder of the run; `/tmp` is shared with others.
        safe_edit: json!({
            "type": "workspaceWrite", "writableRoots": extra_directories, "networkAccess": false,
            "excludeSlashTmp": true,
        }),
        yolo: json!({"type": "dangerFullAccess"}),
    };
    sandboxes.select(permission)
}

/// Returns whether a tool that Codex uses without asking may be enabled.
pub(super) fn allows_silently(permission: &Permission, tool: &str) -> bool {
    let of = Use::from_tool_call(tool, &Value::Null, None);
    Policy::from(permission).decide(&of).effect == Effect::Allow
}

/// Returns whether some tool of a server may be used, with or without approval.
pub(super) fn may_use_server(permission: &Permission, server: &str) -> bool {
    let some_tool = Use::Mcp { server: server.to_owned(), tool: Some("tool".to_owned()) };
    permission.opens_server(server) || Policy::from(permission).decide(&some_tool).effect != Effect::Deny
}

/// Returns the rules that Codex offers no way to enforce.
pub(super) fn unenforceable(permission: &Permission) -> Vec<String> {
    permission
        .restricting_rules()
        .filter_map(|(list, rule)| {
            let reason = match (rule.kind(), list) {
                (ToolKind::Read | ToolKind::Search, _) => "codex reads with commands and does not ask",
                (ToolKind::WebSearch | ToolKind::Delegate, "ask") => "codex cannot ask before it does that",
                (ToolKind::Other(_), _) => "codex has no such tool",
                _ => return None,
            };
            Some(format!("the rule {list} {rule}: {reason}"))
        })
        .collect()
}
