//! What an agent asks before it acts: each request becomes one or several asks, and all must be allowed. The answer is
//! one of the options that the agent offers.

use std::collections::BTreeMap;

use agent_client_protocol_schema::v1::{PermissionOption, PermissionOptionKind, RequestPermissionRequest};
use serde_json::Value;

use super::calls::{Calls, is_too_much};
use super::message::permission;
use crate::contract::{Ask, Decision, Report};
use crate::mcp_config::OWN_SERVER;

/// How many requests are remembered.
const OPEN_MAX: usize = 256;
/// Stands between the number of a request and that of a part of it.
const PART: char = '#';

#[derive(Debug)]
struct Open {
    id: Value,
    allow: Option<String>,
    deny: Option<String>,
    /// How many parts are not allowed yet.
    left: usize,
}

/// What is allowed without a look at the rules.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Free {
    /// Everything: what is allowed once may be allowed for good.
    pub(super) everything: bool,
    /// The tools of our own server: that the agent may delegate is its permission.
    pub(super) own_server: bool,
}

/// The requests that wait for a decision.
#[derive(Debug)]
pub(super) struct Requests {
    open: BTreeMap<String, Open>,
    free: Free,
    /// Somebody was told no.
    pub(super) denied: bool,
}

impl Requests {
    pub(super) fn new(free: Free) -> Self {
        Self { open: BTreeMap::new(), free, denied: false }
    }

    /// Takes a request for permission.
    pub(super) fn take(&mut self, id: &Value, params: &Value, calls: &mut Calls) -> Vec<Report> {
        let Ok(request) = serde_json::from_value::<RequestPermissionRequest>(params.clone()) else {
            let told = "denied: a request for permission that cannot be understood".to_owned();
            return vec![Report::Warned(told), Report::Write(permission(id, None))];
        };
        let option = |kind| of_kind(&request.options, kind);
        let once = option(PermissionOptionKind::AllowOnce);
        let always = option(PermissionOptionKind::AllowAlways).filter(|_| self.free.everything);
        let deny =
            option(PermissionOptionKind::RejectOnce).or_else(|| option(PermissionOptionKind::RejectAlways));
        let (mut reports, parts) = calls.wanted(request.tool_call);
        // Codex' adapter says beside the request whether a server's tool is meant, and before it which.
        let of_server = params["_meta"]["is_mcp_tool_approval"] == true;
        let is_unknown = of_server && !parts.iter().all(|(tool, _)| tool.starts_with("mcp__"));
        if parts.is_empty() || is_unknown || is_too_much(&parts) || self.open.len() >= OPEN_MAX {
            let told = match parts.is_empty() || is_unknown {
                true => "denied: which tool is meant is not told",
                false => "denied: more than people can be asked about at once",
            };
            self.denied = true;
            reports.extend([Report::Warned(told.to_owned()), Report::Write(permission(id, deny.as_deref()))]);
            return reports;
        }
        let key = id.to_string();
        let open = Open { id: id.clone(), allow: once.or(always), deny, left: parts.len() };
        let own = format!("mcp__{OWN_SERVER}__");
        if self.free.own_server && parts.iter().all(|(tool, _)| tool.starts_with(&own)) {
            reports.push(Report::Write(permission(id, open.allow.as_deref())));
            return reports;
        }
        self.open.insert(key.clone(), open);
        let parts = parts.into_iter().enumerate();
        reports.extend(parts.map(|(part, (tool, input))| {
            Report::Asks(Ask { id: format!("{key}{PART}{part}"), tool, input })
        }));
        reports
    }

    /// Takes the decision about one part; the first denial and the last allowance are told.
    pub(super) fn decide(&mut self, ask: &str, decision: &Decision) -> Vec<Report> {
        let key = ask.rsplit_once(PART).map_or(ask, |(key, _)| key);
        let Some(open) = self.open.get_mut(key) else { return Vec::new() };
        let option = match decision {
            Decision::Allow(_) | Decision::Answer { .. } if open.left > 1 => {
                open.left -= 1;
                return Vec::new();
            }
            Decision::Allow(_) | Decision::Answer { .. } => open.allow.as_deref(),
            Decision::Deny(_) => {
                self.denied = true;
                open.deny.as_deref()
            }
        };
        let mut reports = Vec::new();
        if option.is_none() && matches!(decision, Decision::Allow(_)) {
            let told =
                "denied: the agent can only be allowed this for good, which is more than it asks for now";
            reports.push(Report::Warned(told.to_owned()));
        }
        reports.push(Report::Write(permission(&open.id, option)));
        self.open.remove(key);
        reports
    }

    /// Answers all that is open: nobody will decide any more.
    pub(super) fn give_up(&mut self) -> Vec<Report> {
        let open = std::mem::take(&mut self.open);
        open.values().map(|open| Report::Write(permission(&open.id, None))).collect()
    }
}

fn of_kind(options: &[PermissionOption], kind: PermissionOptionKind) -> Option<String> {
    options.iter().find(|option| option.kind == kind).map(|option| option.option_id.0.to_string())
}
