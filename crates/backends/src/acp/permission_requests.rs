//! Permission requests of an agent: each becomes one or several asks, and all must be allowed. The response is one of
//! the options that the agent offers.

use std::collections::BTreeMap;

use agent_client_protocol_schema::v1::{PermissionOption, PermissionOptionKind, RequestPermissionRequest};
use serde_json::Value;

use super::message::permission;
use super::tool_calls::{ToolCalls, is_too_many};
use crate::contract::{AgentReport, PermissionDecision, PermissionRequest};
use crate::mcp_config::OWN_SERVER;

/// How many requests are remembered.
const PENDING_MAX: usize = 256;
/// Separates the id of a request from the number of a part of it.
const PART_SEPARATOR: char = '#';
/// The tool's name if a request does not name its tool.
const UNKNOWN_TOOL: &str = "unknown";

#[derive(Debug)]
struct PendingRequest {
    id: Value,
    /// The tool of the request's first part.
    tool: String,
    allow: Option<String>,
    deny: Option<String>,
    /// How many parts are not allowed yet.
    remaining: usize,
}

/// What is allowed without consulting the rules.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AutoAllow {
    /// Everything: a permission may also be permanent.
    pub(super) everything: bool,
    /// The tools of Volery's own server: the right to delegate permits them.
    pub(super) own_server: bool,
}

/// The requests that wait for a decision.
#[derive(Debug)]
pub(super) struct PermissionRequests {
    pending: BTreeMap<String, PendingRequest>,
    auto_allow: AutoAllow,
    /// Something was denied.
    pub(super) denied: bool,
}

impl PermissionRequests {
    pub(super) fn new(auto_allow: AutoAllow) -> Self {
        Self { pending: BTreeMap::new(), auto_allow, denied: false }
    }

    /// Handles a permission request.
    pub(super) fn handle_request(
        &mut self,
        id: &Value,
        params: &Value,
        calls: &mut ToolCalls,
    ) -> Vec<AgentReport> {
        let Ok(request) = serde_json::from_value::<RequestPermissionRequest>(params.clone()) else {
            let denied = denied(UNKNOWN_TOOL, "its request for permission cannot be understood");
            return vec![denied, AgentReport::Write(permission(id, None))];
        };
        let option = |kind| option_of_kind(&request.options, kind);
        let once = option(PermissionOptionKind::AllowOnce);
        let always = option(PermissionOptionKind::AllowAlways).filter(|_| self.auto_allow.everything);
        let deny =
            option(PermissionOptionKind::RejectOnce).or_else(|| option(PermissionOptionKind::RejectAlways));
        let (mut reports, parts) = calls.handle_permission_request(request.tool_call);
        // Codex' adapter marks a request for a server's tool in the metadata, and names the tool before.
        let is_server_tool = params["_meta"]["is_mcp_tool_approval"] == true;
        let is_unknown = is_server_tool && !parts.iter().all(|(tool, _)| tool.starts_with("mcp__"));
        if parts.is_empty() || is_unknown || is_too_many(&parts) || self.pending.len() >= PENDING_MAX {
            let denied = match (parts.first(), is_unknown) {
                (Some((tool, _)), false) => denied(tool, "people cannot be asked about so much at once"),
                (Some(_) | None, _) => denied(UNKNOWN_TOOL, "the request does not name the tool"),
            };
            self.denied = true;
            reports.extend([denied, AgentReport::Write(permission(id, deny.as_deref()))]);
            return reports;
        }
        let key = id.to_string();
        let tool = parts.first().map(|(tool, _)| tool.clone()).unwrap_or_default();
        let pending =
            PendingRequest { id: id.clone(), tool, allow: once.or(always), deny, remaining: parts.len() };
        let own = format!("mcp__{OWN_SERVER}__");
        if self.auto_allow.own_server && parts.iter().all(|(tool, _)| tool.starts_with(&own)) {
            reports.push(AgentReport::Write(permission(id, pending.allow.as_deref())));
            return reports;
        }
        self.pending.insert(key.clone(), pending);
        let parts = parts.into_iter().enumerate();
        reports.extend(parts.map(|(part, (tool, input))| {
            AgentReport::PermissionRequested(PermissionRequest {
                id: format!("{key}{PART_SEPARATOR}{part}"),
                tool,
                input,
            })
        }));
        reports
    }

    /// Applies the decision about one part; the first denial and the last allowance are sent.
    pub(super) fn decide(&mut self, ask: &str, decision: &PermissionDecision) -> Vec<AgentReport> {
        let key = ask.rsplit_once(PART_SEPARATOR).map_or(ask, |(key, _)| key);
        let Some(pending) = self.pending.get_mut(key) else { return Vec::new() };
        let option = match decision {
            PermissionDecision::Allow(_) | PermissionDecision::AgentAnswer { .. }
                if pending.remaining > 1 =>
            {
                pending.remaining -= 1;
                return Vec::new();
            }
            PermissionDecision::Allow(_) | PermissionDecision::AgentAnswer { .. } => pending.allow.as_deref(),
            PermissionDecision::Deny(_) => {
                self.denied = true;
                pending.deny.as_deref()
            }
        };
        let mut reports = Vec::new();
        if option.is_none() && matches!(decision, PermissionDecision::Allow(_)) {
            let reason = "the agent can only be allowed this for good, which is more than it asks for now";
            reports.push(denied(&pending.tool, reason));
        }
        reports.push(AgentReport::Write(permission(&pending.id, option)));
        self.pending.remove(key);
        reports
    }

    /// Answers all pending requests: nobody will decide any more.
    pub(super) fn give_up(&mut self) -> Vec<AgentReport> {
        let pending = std::mem::take(&mut self.pending);
        pending.values().map(|pending| AgentReport::Write(permission(&pending.id, None))).collect()
    }
}

fn denied(tool: &str, reason: &str) -> AgentReport {
    AgentReport::Denied { call: String::new(), tool: tool.to_owned(), reason: reason.to_owned() }
}

fn option_of_kind(options: &[PermissionOption], kind: PermissionOptionKind) -> Option<String> {
    options.iter().find(|option| option.kind == kind).map(|option| option.option_id.0.to_string())
}
