//! Tracks the tool calls of an agent, assembled from its updates, and the names that rules use for them.

use std::collections::BTreeMap;

use agent_client_protocol_schema::v1::{
    ContentBlock, ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolKind,
};
use domain::permission::ToolKind as RuleKind;
use serde_json::{Value, json};

use crate::contract::AgentReport;

/// How many tool calls are remembered while they run.
const CALLS_MAX: usize = 512;
/// How much memory they may take: twice the longest line.
const BYTES_MAX: usize = 16 << 20;
/// The longest id of a call, and the longest name that outlives the rest of it.
const ID_BYTES_MAX: usize = 1_000;
const NAME_BYTES_MAX: usize = 200;
/// How many files one call may touch for each to be asked about.
const FILES_MAX: usize = 32;
/// Where agents put the path of a file in the input of a tool.
const PATHS: [&str; 6] = ["file_path", "path", "filePath", "absolute_path", "abs_path", "target_file"];

/// The tool calls under way.
#[derive(Debug)]
pub(super) struct ToolCalls {
    calls: BTreeMap<String, TrackedCall>,
    /// How many there were so far.
    started_count: u64,
    servers: SessionServers,
    /// Some tool was used.
    pub(super) any_reported: bool,
}

/// The MCP servers of the session, by which their tools are recognised.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionServers {
    pub(super) names: Vec<String>,
    /// Rules restrict some of their tools, so a tool of unknown origin may be one of those.
    pub(super) are_restricted: bool,
}

/// One tool call, as far as it is known.
#[derive(Debug, Clone, Default)]
struct TrackedCall {
    /// Its place in the order in which they began.
    number: u64,
    /// Parts of it were dropped, so it cannot be judged.
    is_dropped: bool,
    name: Option<String>,
    kind: Option<ToolKind>,
    title: String,
    input: Option<Value>,
    input_bytes: usize,
    paths: Vec<String>,
    output: String,
    is_reported: bool,
}

impl ToolCalls {
    pub(super) fn new(servers: SessionServers) -> Self {
        Self { calls: BTreeMap::new(), started_count: 0, servers, any_reported: false }
    }

    /// Handles an update of a call: its start, or its result.
    pub(super) fn handle_update(&mut self, update: ToolCallUpdate) -> Vec<AgentReport> {
        self.any_reported = true;
        let id = update.tool_call_id.0.to_string();
        let status = update.fields.status;
        let is_new = !self.calls.contains_key(&id);
        if is_new && (self.calls.len() >= CALLS_MAX || id.len() > ID_BYTES_MAX) {
            return Vec::new();
        }
        self.started_count += u64::from(is_new);
        let number = self.started_count;
        let call =
            self.calls.entry(id.clone()).or_insert_with(|| TrackedCall { number, ..TrackedCall::default() });
        call.apply(update);
        let ended = matches!(status, Some(ToolCallStatus::Completed | ToolCallStatus::Failed));
        let mut reports = Vec::new();
        if ended || call.input.is_some() {
            reports.extend(self.report_once(&id));
        }
        if let Some(call) = ended.then(|| self.calls.remove(&id)).flatten() {
            let ok = status == Some(ToolCallStatus::Completed);
            reports.push(AgentReport::ToolReturned { id, ok, output: call.output });
        } else if let Some(call) = self.calls.get_mut(&id).filter(|call| call.is_dropped) {
            call.drop_details();
        }
        self.make_room();
        reports
    }

    /// Handles the update in a permission request, and returns the parts that rules decide about: one for each file.
    pub(super) fn handle_permission_request(
        &mut self,
        update: ToolCallUpdate,
    ) -> (Vec<AgentReport>, Vec<(String, Value)>) {
        let id = update.tool_call_id.0.to_string();
        let mut reports = self.handle_update(update);
        let found = self.calls.get(&id).filter(|call| !call.is_dropped);
        let Some(call) = found.cloned() else { return (reports, Vec::new()) };
        reports.extend(self.report_once(&id));
        let servers = &self.servers;
        if servers.are_restricted && call.is_nameless() && call.tool_from_title(&servers.names).is_none() {
            return (reports, Vec::new());
        }
        (reports, call.parts(&servers.names))
    }

    /// Returns how much memory the calls take.
    pub(super) fn bytes(&self) -> usize {
        self.calls.iter().map(|(id, call)| id.len() + call.bytes()).sum()
    }

    /// Drops the details of the oldest calls until the rest fits.
    fn make_room(&mut self) {
        while self.bytes() > BYTES_MAX {
            let complete = self.calls.values_mut().filter(|call| !call.is_dropped);
            let Some(oldest) = complete.min_by_key(|call| call.number) else { return };
            oldest.drop_details();
        }
    }

    /// Reports a call once.
    fn report_once(&mut self, id: &str) -> Option<AgentReport> {
        let call = self.calls.get_mut(id).filter(|call| !call.is_reported)?;
        call.is_reported = true;
        let name = call.tool(&self.servers.names);
        let input = call.input.clone().unwrap_or_else(|| json!({ "title": call.title }));
        Some(AgentReport::ToolCalled { id: id.to_owned(), name, input })
    }
}

impl TrackedCall {
    fn apply(&mut self, update: ToolCallUpdate) {
        let fields = update.fields;
        let ended = matches!(fields.status, Some(ToolCallStatus::Completed | ToolCallStatus::Failed));
        let codex_name = update.meta.as_ref().and_then(|meta| codex_tool(meta, fields.raw_input.as_ref()));
        let reported_name = codex_name.or(fields.name).or_else(|| update.meta.as_ref().and_then(tool_name));
        self.name = reported_name.or_else(|| self.name.take());
        self.kind = fields.kind.or(self.kind);
        if let Some(title) = fields.title.filter(|_| self.title.is_empty()) {
            self.title = title;
        }
        // Opencode reports the directory of a call before its arguments.
        let whole =
            |input: &Value| input.as_object().is_some_and(|object| object.keys().any(|key| key != "cwd"));
        if let Some(input) = fields.raw_input.filter(whole) {
            self.set_input(input);
        }
        for location in fields.locations.into_iter().flatten() {
            self.add_path(location.path.display().to_string());
        }
        let mut texts = Vec::new();
        for content in fields.content.into_iter().flatten() {
            match content {
                ToolCallContent::Diff(diff) => self.add_path(diff.path.display().to_string()),
                ToolCallContent::Content(content) => {
                    if let ContentBlock::Text(text) = content.content {
                        texts.push(text.text);
                    }
                }
                _ => {}
            }
        }
        let text = texts.join("\n");
        if ended {
            let raw =
                fields.raw_output.map(|output| output.as_str().map_or(output.to_string(), ToOwned::to_owned));
            self.output = if text.is_empty() { raw.unwrap_or_default() } else { text };
        } else if self.input.is_none() {
            // Some agents show the input as text before they send it.
            serde_json::from_str(&text)
                .ok()
                .filter(whole)
                .into_iter()
                .for_each(|input| self.set_input(input));
        }
    }

    fn set_input(&mut self, input: Value) {
        self.input_bytes = memory_bytes(&input);
        self.input = Some(input);
    }

    /// Returns how much memory the details take.
    fn bytes(&self) -> usize {
        let texts = self.name.iter().chain([&self.title]).chain(&self.paths);
        texts.map(String::len).sum::<usize>() + self.input_bytes
    }

    /// Retains only what is needed to report the end.
    fn drop_details(&mut self) {
        let name = self.name.take().filter(|name| name.len() <= NAME_BYTES_MAX);
        let Self { number, kind, is_reported, .. } = *self;
        *self = Self { number, kind, is_reported, name, is_dropped: true, ..Self::default() };
    }

    fn add_path(&mut self, path: String) {
        if self.paths.len() <= FILES_MAX && !self.paths.contains(&path) {
            self.paths.push(path);
        }
    }

    /// Returns the tool's name for rules: its own, unless rules do not know that name and the agent declares a kind.
    fn tool(&self, servers: &[String]) -> String {
        let rule_word = self.kind.and_then(rule_word);
        let name =
            self.name.as_deref().map(|name| server_tool(name, servers).unwrap_or_else(|| name.to_owned()));
        let name = name.or_else(|| self.tool_from_title(servers));
        match (name, rule_word) {
            (Some(name), Some(rule_word)) => {
                match (RuleKind::from_name(&name), RuleKind::from_name(rule_word)) {
                    // A tool that only reads is recognised by its own name or not at all.
                    (RuleKind::Other(_), RuleKind::Read | RuleKind::Search) => name,
                    (RuleKind::Other(_), _) => rule_word.to_owned(),
                    _ => name,
                }
            }
            (Some(name), None) => name,
            (None, Some(rule_word)) => rule_word.to_owned(),
            (None, None) => self.title.split_whitespace().next().unwrap_or("unknown").to_owned(),
        }
    }

    /// Returns whether neither a name nor a kind says which tool it is.
    fn is_nameless(&self) -> bool {
        self.name.is_none() && self.kind.and_then(rule_word).is_none()
    }

    /// Returns the server's tool in the title of a call without a name, as Copilot has it, unless the title may be
    /// the model's own words.
    fn tool_from_title(&self, servers: &[String]) -> Option<String> {
        let is_described = self.input.as_ref().is_some_and(|input| input.get("description").is_some());
        if !self.is_nameless() || is_described {
            return None;
        }
        server_tool(&self.title, servers)
    }

    /// Returns what is requested: once for each file that is changed, otherwise once.
    fn parts(&self, servers: &[String]) -> Vec<(String, Value)> {
        let tool = self.tool(servers);
        let mut input = self.input.clone().unwrap_or_else(|| json!({}));
        if !self.title.is_empty() && input.get("title").is_none() {
            input["title"] = json!(self.title);
        }
        if RuleKind::from_name(&tool) != RuleKind::Edit {
            return vec![(tool, input)];
        }
        let mut paths: Vec<String> =
            PATHS.iter().filter_map(|key| input[key].as_str()).map(ToOwned::to_owned).collect();
        paths.extend(self.paths.iter().filter(|path| !paths.contains(path)).cloned().collect::<Vec<_>>());
        if paths.is_empty() {
            return vec![(tool, input)];
        }
        paths
            .into_iter()
            .take(FILES_MAX + 1)
            .map(|path| (tool.clone(), json!({"file_path": path, "title": self.title})))
            .collect()
    }
}

/// Returns how much memory a value takes: one of many small parts takes far more than its text.
fn memory_bytes(value: &Value) -> usize {
    let inner = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(memory_bytes).sum(),
        Value::Object(members) => {
            members.iter().map(|(key, value)| size_of::<String>() + key.len() + memory_bytes(value)).sum()
        }
    };
    size_of::<Value>() + inner
}

/// Returns whether one call touches more files than people can be asked about.
pub(super) fn is_too_many(parts: &[(String, Value)]) -> bool {
    parts.len() > FILES_MAX
}

/// Returns the word that rules use for a kind of tool.
fn rule_word(kind: ToolKind) -> Option<&'static str> {
    Some(match kind {
        ToolKind::Read => "read",
        ToolKind::Edit | ToolKind::Delete | ToolKind::Move => "edit",
        ToolKind::Search => "search",
        ToolKind::Execute => "execute",
        ToolKind::Fetch => "fetch",
        _ => return None,
    })
}

/// Returns the name of a tool from an agent's metadata outside the protocol.
fn tool_name(meta: &serde_json::Map<String, Value>) -> Option<String> {
    let at = |value: &Value| value["toolName"].as_str().map(ToOwned::to_owned);
    let direct = meta.get("toolName").and_then(Value::as_str).map(ToOwned::to_owned);
    direct.or_else(|| meta.values().find_map(|own| at(own).or_else(|| at(&own["toolCall"]))))
}

/// Returns the tool of a server as Codex' adapter reports it: the input of the tool names both.
fn codex_tool(meta: &serde_json::Map<String, Value>, input: Option<&Value>) -> Option<String> {
    meta.get("is_mcp_tool_call").filter(|is| **is == json!(true))?;
    let (server, tool) = (input?["server"].as_str()?, input?["tool"].as_str()?);
    Some(format!("mcp__{server}__{tool}"))
}

/// Returns a server's tool as rules spell it, however the agent joins the two names.
fn server_tool(name: &str, servers: &[String]) -> Option<String> {
    // A server called `run` does not own the tool `run_shell_command`.
    if !matches!(RuleKind::from_name(name), RuleKind::Other(_) | RuleKind::Mcp { .. }) {
        return None;
    }
    servers.iter().find_map(|server| {
        let rest = [
            format!("mcp__{server}__"),
            format!("mcp_{server}_"),
            format!("mcp.{server}."),
            format!("{server}__"),
            format!("{server}_"),
            format!("{server}-"),
            format!("{server}/"),
        ];
        let tool = rest.iter().find_map(|prefix| name.strip_prefix(prefix.as_str()))?;
        Some(format!("mcp__{server}__{tool}"))
    })
}
