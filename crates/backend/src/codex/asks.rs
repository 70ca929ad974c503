//! What Codex asks before it acts: each question becomes one or several asks, and all must be allowed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::command_line;
use super::message::{answer, refusal};
use crate::contract::{Ask, Decision, Report};

/// How many questions, and how many items that they refer to, are remembered.
const OPEN_MAX: usize = 256;
/// How many files one patch may change for people to be asked about each.
const FILES_MAX: usize = 32;
/// The most of a change that is shown.
const DIFF_BYTES_MAX: usize = 1 << 10;
/// Stands between the number of a question and that of a part of it.
const PART: char = '#';

/// How a question wants to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Approval,
    Elicitation,
}

impl Form {
    fn word(self, word: &str) -> Value {
        match self {
            Self::Approval => json!({ "decision": word }),
            Self::Elicitation if word == "accept" => json!({"action": word, "content": {}}),
            Self::Elicitation => json!({ "action": word }),
        }
    }
}

#[derive(Debug)]
struct Open {
    id: Value,
    form: Form,
    /// How many parts are not allowed yet.
    left: usize,
}

/// The questions that wait for a decision, and the items under way that they are about.
#[derive(Debug, Default)]
pub(super) struct Asks {
    open: BTreeMap<String, Open>,
    items: BTreeMap<String, Value>,
}

impl Asks {
    /// Remembers an item under way.
    pub(super) fn begun(&mut self, item: &Value) {
        if let Some(id) = item["id"].as_str().filter(|_| self.items.len() < OPEN_MAX) {
            self.items.insert(id.to_owned(), item.clone());
        }
    }

    pub(super) fn ended(&mut self, item: &Value) {
        if let Some(id) = item["id"].as_str() {
            self.items.remove(id);
        }
    }

    /// Takes a request of the server.
    pub(super) fn take(&mut self, request: &Value) -> Vec<Report> {
        let (id, params) = (&request["id"], &request["params"]);
        let method = request["method"].as_str().unwrap_or_default();
        let (form, parts) = match method {
            "item/commandExecution/requestApproval" => (Form::Approval, vec![command(params)]),
            "item/fileChange/requestApproval" => (Form::Approval, self.changes(params)),
            "mcpServer/elicitation/request" => (Form::Elicitation, self.tool(params)),
            "item/permissions/requestApproval" => {
                let nothing = json!({"permissions": {}, "scope": "turn"});
                return refused(answer(id, &nothing), "further permissions");
            }
            "item/tool/requestUserInput" => {
                return refused(answer(id, &json!({"answers": {}})), "request_user_input");
            }
            _ => return vec![Report::Write(refusal(id, method))],
        };
        if parts.is_empty() || parts.len() > FILES_MAX || self.open.len() >= OPEN_MAX {
            return refused(answer(id, &form.word("decline")), method);
        }
        let key = id.to_string();
        self.open.insert(key.clone(), Open { id: id.clone(), form, left: parts.len() });
        let parts = parts.into_iter().enumerate();
        parts
            .map(|(part, (tool, input))| Report::Asks(Ask { id: format!("{key}{PART}{part}"), tool, input }))
            .collect()
    }

    /// Takes the decision about one part; the first denial and the last allowance are told.
    pub(super) fn decide(&mut self, ask: &str, decision: &Decision) -> Vec<Report> {
        let key = ask.rsplit_once(PART).map_or(ask, |(key, _)| key);
        let Some(open) = self.open.get_mut(key) else { return Vec::new() };
        let word = match decision {
            Decision::Allow(_) | Decision::Answer { .. } if open.left > 1 => {
                open.left -= 1;
                return Vec::new();
            }
            Decision::Allow(_) | Decision::Answer { .. } => "accept",
            Decision::Deny(_) => "decline",
        };
        let told = answer(&open.id, &open.form.word(word));
        self.open.remove(key);
        vec![Report::Write(told)]
    }

    fn changes(&self, params: &Value) -> Vec<(String, Value)> {
        let item = params["itemId"].as_str().and_then(|id| self.items.get(id));
        let changes = item.and_then(|item| item["changes"].as_array()).into_iter().flatten();
        let paths = changes.flat_map(|change| {
            let diff = domain::size::head(change["diff"].as_str().unwrap_or_default(), DIFF_BYTES_MAX);
            let moved = [&change["kind"]["move_path"], &change["kind"]["movePath"]];
            let targets = moved.into_iter().filter(|path| path.is_string());
            // A change without a path is still one to be asked about, and then about any path.
            std::iter::once(&change["path"])
                .chain(targets)
                .map(move |path| ("apply_patch".to_owned(), json!({"file_path": path, "diff": diff})))
        });
        paths.collect()
    }

    /// A server's tool. Which one it is stands only in the item under way, and in words.
    fn tool(&self, params: &Value) -> Vec<(String, Value)> {
        let meta = &params["_meta"];
        if meta["codex_approval_kind"] != "mcp_tool_call" {
            return Vec::new();
        }
        let server = params["serverName"].as_str().unwrap_or_default();
        let words = params["message"].as_str().unwrap_or_default();
        let called = self.items.values().find(|item| {
            let tool = item["tool"].as_str().unwrap_or_default();
            item["type"] == "mcpToolCall"
                && item["server"] == server
                && words.contains(&format!("\"{tool}\""))
                && (meta["tool_params"].is_null() || item["arguments"] == meta["tool_params"])
        });
        let named = called.and_then(|item| item["tool"].as_str());
        let of = |tool: &str| (mcp_name(server, tool), meta["tool_params"].clone());
        named.map(of).into_iter().collect()
    }
}

/// Returns the name of a server's tool as rules spell it.
pub(super) fn mcp_name(server: &str, tool: &str) -> String {
    format!("mcp__{server}__{tool}")
}

fn command(params: &Value) -> (String, Value) {
    let host = &params["networkApprovalContext"]["host"];
    if host.is_string() {
        return ("web_fetch".to_owned(), json!({ "host": host }));
    }
    let script = params["command"].as_str().and_then(command_line::script);
    let mut input = json!({"command": script, "directory": params["cwd"]});
    if let Some(reason) = params["reason"].as_str() {
        input["reason"] = json!(reason);
    }
    ("shell".to_owned(), input)
}

fn refused(told: Vec<u8>, what: &str) -> Vec<Report> {
    let reason = format!("denied: {what}: nobody can be asked about it");
    vec![Report::Warned(reason), Report::Write(told)]
}
