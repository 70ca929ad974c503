//! Approval requests of Codex. A request becomes one or several asks, and is accepted if all of them are allowed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::protocol::{method_not_found, response};
use crate::contract::{AgentReport, PermissionDecision, PermissionRequest};

/// The most pending requests, and the most running items, that are remembered.
const PENDING_MAX: usize = 256;
/// The most files in one patch. A larger patch is declined, because each file is an ask.
const FILES_MAX: usize = 32;
/// The most of a diff that is shown.
const DIFF_BYTES_MAX: usize = 1 << 10;
/// Separates the id of a request from the number of its part.
const PART_SEPARATOR: char = '#';

/// The format of the reply to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplyFormat {
    Approval,
    Elicitation,
}

impl ReplyFormat {
    fn reply(self, decision: &str) -> Value {
        match self {
            Self::Approval => json!({ "decision": decision }),
            Self::Elicitation if decision == "accept" => json!({"action": decision, "content": {}}),
            Self::Elicitation => json!({ "action": decision }),
        }
    }
}

#[derive(Debug)]
struct PendingApproval {
    id: Value,
    format: ReplyFormat,
    /// The number of parts that are not allowed yet.
    parts_left: usize,
}

/// The requests that wait for a decision, and the running items that they refer to.
#[derive(Debug, Default)]
pub(super) struct PendingApprovals {
    pending: BTreeMap<String, PendingApproval>,
    items: BTreeMap<String, Value>,
}

impl PendingApprovals {
    pub(super) fn item_started(&mut self, item: &Value) {
        if let Some(id) = item["id"].as_str().filter(|_| self.items.len() < PENDING_MAX) {
            self.items.insert(id.to_owned(), item.clone());
        }
    }

    pub(super) fn item_completed(&mut self, item: &Value) {
        if let Some(id) = item["id"].as_str() {
            self.items.remove(id);
        }
    }

    pub(super) fn handle_request(&mut self, request: &Value) -> Vec<AgentReport> {
        let (id, params) = (&request["id"], &request["params"]);
        let method = request["method"].as_str().unwrap_or_default();
        let (format, parts) = match method {
            "item/commandExecution/requestApproval" => (ReplyFormat::Approval, vec![command_part(params)]),
            "item/fileChange/requestApproval" => (ReplyFormat::Approval, self.file_change_parts(params)),
            "mcpServer/elicitation/request" => (ReplyFormat::Elicitation, self.mcp_tool_parts(params)),
            "item/permissions/requestApproval" => {
                let nothing = json!({"permissions": {}, "scope": "turn"});
                return decline(response(id, &nothing), "further permissions");
            }
            "item/tool/requestUserInput" => {
                return decline(response(id, &json!({"answers": {}})), "request_user_input");
            }
            _ => return vec![AgentReport::Write(method_not_found(id, method))],
        };
        if parts.is_empty() || parts.len() > FILES_MAX || self.pending.len() >= PENDING_MAX {
            return decline(response(id, &format.reply("decline")), method);
        }
        let key = id.to_string();
        self.pending.insert(key.clone(), PendingApproval { id: id.clone(), format, parts_left: parts.len() });
        let parts = parts.into_iter().enumerate();
        parts
            .map(|(part, (tool, input))| {
                AgentReport::PermissionRequested(PermissionRequest {
                    id: format!("{key}{PART_SEPARATOR}{part}"),
                    tool,
                    input,
                })
            })
            .collect()
    }

    /// Applies the decision about one part. The first denial, or the last allowance, is sent to Codex.
    pub(super) fn decide(&mut self, ask: &str, decision: &PermissionDecision) -> Vec<AgentReport> {
        let key = ask.rsplit_once(PART_SEPARATOR).map_or(ask, |(key, _)| key);
        let Some(pending) = self.pending.get_mut(key) else { return Vec::new() };
        let reply = match decision {
            PermissionDecision::Allow(_) | PermissionDecision::AgentAnswer { .. }
                if pending.parts_left > 1 =>
            {
                pending.parts_left -= 1;
                return Vec::new();
            }
            PermissionDecision::Allow(_) | PermissionDecision::AgentAnswer { .. } => "accept",
            PermissionDecision::Deny(_) => "decline",
        };
        let message = response(&pending.id, &pending.format.reply(reply));
        self.pending.remove(key);
        vec![AgentReport::Write(message)]
    }

    fn file_change_parts(&self, params: &Value) -> Vec<(String, Value)> {
        let item = params["itemId"].as_str().and_then(|id| self.items.get(id));
        let changes = item.and_then(|item| item["changes"].as_array()).into_iter().flatten();
        let parts = changes.flat_map(|change| {
            let diff = domain::size::head(change["diff"].as_str().unwrap_or_default(), DIFF_BYTES_MAX);
            let move_paths = [&change["kind"]["move_path"], &change["kind"]["movePath"]];
            let move_targets = move_paths.into_iter().filter(|path| path.is_string());
            // A change without a path still needs an approval, which is then for any path.
            std::iter::once(&change["path"])
                .chain(move_targets)
                .map(move |path| ("apply_patch".to_owned(), json!({"file_path": path, "diff": diff})))
        });
        parts.collect()
    }

    /// Returns the call of an MCP tool. The tool is only named in the running item and in the text of the request.
    fn mcp_tool_parts(&self, params: &Value) -> Vec<(String, Value)> {
        let meta = &params["_meta"];
        if meta["codex_approval_kind"] != "mcp_tool_call" {
            return Vec::new();
        }
        let server = params["serverName"].as_str().unwrap_or_default();
        let message = params["message"].as_str().unwrap_or_default();
        let call = self.items.values().find(|item| {
            let tool = item["tool"].as_str().unwrap_or_default();
            item["type"] == "mcpToolCall"
                && item["server"] == server
                && message.contains(&format!("\"{tool}\""))
                && (meta["tool_params"].is_null() || item["arguments"] == meta["tool_params"])
        });
        let tool = call.and_then(|item| item["tool"].as_str());
        let part = |tool: &str| (mcp_tool_name(server, tool), meta["tool_params"].clone());
        tool.map(part).into_iter().collect()
    }
}

/// Returns the name of an MCP tool as permission rules spell it.
pub(super) fn mcp_tool_name(server: &str, tool: &str) -> String {
    format!("mcp__{server}__{tool}")
}

fn command_part(params: &Value) -> (String, Value) {
    let host = &params["networkApprovalContext"]["host"];
    if host.is_string() {
        return ("web_fetch".to_owned(), json!({ "host": host }));
    }
    let script = params["command"].as_str().and_then(domain::shell_script::script);
    let mut input = json!({"command": script, "directory": params["cwd"]});
    if let Some(reason) = params["reason"].as_str() {
        input["reason"] = json!(reason);
    }
    ("shell".to_owned(), input)
}

fn decline(message: Vec<u8>, subject: &str) -> Vec<AgentReport> {
    let (call, tool, reason) = (String::new(), subject.to_owned(), "nobody can be asked about it".to_owned());
    vec![AgentReport::Denied { call, tool, reason }, AgentReport::Write(message)]
}
