//! The tools that an agent uses, put together from what it tells of each bit by bit, and what rules call them.

use std::collections::BTreeMap;

use agent_client_protocol_schema::v1::{
    ContentBlock, ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolKind,
};
use domain::permission::ToolKind as Rules;
use serde_json::{Value, json};

use crate::contract::Report;

/// How many uses of tools are remembered while they go on.
const CALLS_MAX: usize = 512;
/// How much of them is kept, in bytes of memory: twice what one line can say.
const BYTES_MAX: usize = 16 << 20;
/// The longest id of one, and the longest name that outlives the rest of it.
const ID_BYTES_MAX: usize = 1_000;
const NAME_BYTES_MAX: usize = 200;
/// How many files one use may touch for each to be asked about.
const FILES_MAX: usize = 32;
/// Where agents put the path of a file in what they give a tool.
const PATHS: [&str; 6] = ["file_path", "path", "filePath", "absolute_path", "abs_path", "target_file"];

/// The uses of tools under way.
#[derive(Debug)]
pub(super) struct Calls {
    known: BTreeMap<String, Call>,
    /// How many there were.
    begun: u64,
    servers: Servers,
    /// Some tool was used.
    pub(super) seen: bool,
}

/// The MCP servers of the session, by which their tools are recognised.
#[derive(Debug, Clone, Default)]
pub(super) struct Servers {
    pub(super) names: Vec<String>,
    /// Rules hold some of their tools back, so that one of which nobody can tell whose it is may be meant.
    pub(super) are_restricted: bool,
}

/// One use of a tool, as far as it is known.
#[derive(Debug, Clone, Default)]
struct Call {
    /// Its place in the order in which they began.
    number: u64,
    /// Not all that was told of it is known any more, so that nobody can judge it.
    is_forgotten: bool,
    name: Option<String>,
    kind: Option<ToolKind>,
    title: String,
    input: Option<Value>,
    input_bytes: usize,
    paths: Vec<String>,
    output: String,
    told: bool,
}

impl Calls {
    pub(super) fn new(servers: Servers) -> Self {
        Self { known: BTreeMap::new(), begun: 0, servers, seen: false }
    }

    /// Takes what is told of a use: that it begins, what came of it.
    pub(super) fn take(&mut self, update: ToolCallUpdate) -> Vec<Report> {
        self.seen = true;
        let id = update.tool_call_id.0.to_string();
        let status = update.fields.status;
        let is_new = !self.known.contains_key(&id);
        if is_new && (self.known.len() >= CALLS_MAX || id.len() > ID_BYTES_MAX) {
            return Vec::new();
        }
        self.begun += u64::from(is_new);
        let number = self.begun;
        let call = self.known.entry(id.clone()).or_insert_with(|| Call { number, ..Call::default() });
        call.learn(update);
        let ended = matches!(status, Some(ToolCallStatus::Completed | ToolCallStatus::Failed));
        let mut reports = Vec::new();
        if ended || call.input.is_some() {
            reports.extend(self.tell(&id));
        }
        if let Some(call) = ended.then(|| self.known.remove(&id)).flatten() {
            let ok = status == Some(ToolCallStatus::Completed);
            reports.push(Report::ToolReturned { id, ok, output: call.output });
        } else if let Some(call) = self.known.get_mut(&id).filter(|call| call.is_forgotten) {
            call.forget();
        }
        self.make_room();
        reports
    }

    /// Takes the use that permission is asked for, and returns what rules call it: one part for each file.
    pub(super) fn wanted(&mut self, update: ToolCallUpdate) -> (Vec<Report>, Vec<(String, Value)>) {
        let id = update.tool_call_id.0.to_string();
        let mut reports = self.take(update);
        let known = self.known.get(&id).filter(|call| !call.is_forgotten);
        let Some(call) = known.cloned() else { return (reports, Vec::new()) };
        reports.extend(self.tell(&id));
        let servers = &self.servers;
        if servers.are_restricted && call.is_nameless() && call.titled(&servers.names).is_none() {
            return (reports, Vec::new());
        }
        (reports, call.parts(&servers.names))
    }

    /// Returns how much memory is taken by what is kept.
    pub(super) fn bytes(&self) -> usize {
        self.known.iter().map(|(id, call)| id.len() + call.bytes()).sum()
    }

    /// Forgets the oldest uses until what is kept has room.
    fn make_room(&mut self) {
        while self.bytes() > BYTES_MAX {
            let kept = self.known.values_mut().filter(|call| !call.is_forgotten);
            let Some(oldest) = kept.min_by_key(|call| call.number) else { return };
            oldest.forget();
        }
    }

    /// Reports a use once.
    fn tell(&mut self, id: &str) -> Option<Report> {
        let call = self.known.get_mut(id).filter(|call| !call.told)?;
        call.told = true;
        let name = call.tool(&self.servers.names);
        let input = call.input.clone().unwrap_or_else(|| json!({ "title": call.title }));
        Some(Report::ToolCalled { id: id.to_owned(), name, input })
    }
}

impl Call {
    fn learn(&mut self, update: ToolCallUpdate) {
        let fields = update.fields;
        let ended = matches!(fields.status, Some(ToolCallStatus::Completed | ToolCallStatus::Failed));
        let of_server = update.meta.as_ref().and_then(|meta| codex_tool(meta, fields.raw_input.as_ref()));
        let named = of_server.or(fields.name).or_else(|| update.meta.as_ref().and_then(tool_name));
        self.name = named.or_else(|| self.name.take());
        self.kind = fields.kind.or(self.kind);
        if let Some(title) = fields.title.filter(|_| self.title.is_empty()) {
            self.title = title;
        }
        let whole = |input: &Value| input.as_object().is_some_and(|object| !object.is_empty());
        if let Some(input) = fields.raw_input.filter(whole) {
            self.put_in(input);
        }
        for location in fields.locations.into_iter().flatten() {
            self.touch(location.path.display().to_string());
        }
        let mut texts = Vec::new();
        for content in fields.content.into_iter().flatten() {
            match content {
                ToolCallContent::Diff(diff) => self.touch(diff.path.display().to_string()),
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
            // Some show the input as a text before they tell it.
            serde_json::from_str(&text).ok().filter(whole).into_iter().for_each(|input| self.put_in(input));
        }
    }

    fn put_in(&mut self, input: Value) {
        self.input_bytes = weight(&input);
        self.input = Some(input);
    }

    /// Returns how much memory is taken by what was told.
    fn bytes(&self) -> usize {
        let texts = self.name.iter().chain([&self.title]).chain(&self.paths);
        texts.map(String::len).sum::<usize>() + self.input_bytes
    }

    /// Keeps only what it takes to tell the end.
    fn forget(&mut self) {
        let name = self.name.take().filter(|name| name.len() <= NAME_BYTES_MAX);
        let Self { number, kind, told, .. } = *self;
        *self = Self { number, kind, told, name, is_forgotten: true, ..Self::default() };
    }

    fn touch(&mut self, path: String) {
        if self.paths.len() <= FILES_MAX && !self.paths.contains(&path) {
            self.paths.push(path);
        }
    }

    /// Returns the tool as rules call it: by its name, unless nobody knows that name and the agent says what it does.
    fn tool(&self, servers: &[String]) -> String {
        let word = self.kind.and_then(word);
        let name =
            self.name.as_deref().map(|name| server_tool(name, servers).unwrap_or_else(|| name.to_owned()));
        let name = name.or_else(|| self.titled(servers));
        match (name, word) {
            (Some(name), Some(word)) => match (Rules::named(&name), Rules::named(word)) {
                // A tool that only looks is so by its own name or not at all.
                (Rules::Other(_), Rules::Read | Rules::Search) => name,
                (Rules::Other(_), _) => word.to_owned(),
                _ => name,
            },
            (Some(name), None) => name,
            (None, Some(word)) => word.to_owned(),
            (None, None) => self.title.split_whitespace().next().unwrap_or("unknown").to_owned(),
        }
    }

    /// Tells whether neither a name nor a kind says which tool it is.
    fn is_nameless(&self) -> bool {
        self.name.is_none() && self.kind.and_then(word).is_none()
    }

    /// Returns the tool of a server that a use without a name is titled with, as Copilot does, unless the title may be the
    /// model's own words.
    fn titled(&self, servers: &[String]) -> Option<String> {
        let is_described = self.input.as_ref().is_some_and(|input| input.get("description").is_some());
        if !self.is_nameless() || is_described {
            return None;
        }
        server_tool(&self.title, servers)
    }

    /// Returns what is asked for: once for each file that is changed, else once.
    fn parts(&self, servers: &[String]) -> Vec<(String, Value)> {
        let tool = self.tool(servers);
        let mut input = self.input.clone().unwrap_or_else(|| json!({}));
        if !self.title.is_empty() && input.get("title").is_none() {
            input["title"] = json!(self.title);
        }
        if Rules::named(&tool) != Rules::Edit {
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
fn weight(value: &Value) -> usize {
    let inner = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(members) => {
            members.iter().map(|(key, value)| size_of::<String>() + key.len() + weight(value)).sum()
        }
    };
    size_of::<Value>() + inner
}

/// Tells whether one use touches more files than people can be asked about.
pub(super) fn is_too_much(parts: &[(String, Value)]) -> bool {
    parts.len() > FILES_MAX
}

/// Returns the word of rules for what a tool does.
fn word(kind: ToolKind) -> Option<&'static str> {
    Some(match kind {
        ToolKind::Read => "read",
        ToolKind::Edit | ToolKind::Delete | ToolKind::Move => "edit",
        ToolKind::Search => "search",
        ToolKind::Execute => "execute",
        ToolKind::Fetch => "fetch",
        _ => return None,
    })
}

/// Returns the name of a tool that an agent keeps beside the protocol.
fn tool_name(meta: &serde_json::Map<String, Value>) -> Option<String> {
    let at = |value: &Value| value["toolName"].as_str().map(ToOwned::to_owned);
    let direct = meta.get("toolName").and_then(Value::as_str).map(ToOwned::to_owned);
    direct.or_else(|| meta.values().find_map(|own| at(own).or_else(|| at(&own["toolCall"]))))
}

/// Returns the tool of a server as Codex' adapter tells it: what it gives the tool names both.
fn codex_tool(meta: &serde_json::Map<String, Value>, input: Option<&Value>) -> Option<String> {
    meta.get("is_mcp_tool_call").filter(|is| **is == json!(true))?;
    let (server, tool) = (input?["server"].as_str()?, input?["tool"].as_str()?);
    Some(format!("mcp__{server}__{tool}"))
}

/// Returns a server's tool as rules spell it, however the agent puts the two names together.
fn server_tool(name: &str, servers: &[String]) -> Option<String> {
    // A server that is called `run` does not make a tool of its own of `run_shell_command`.
    if !matches!(Rules::named(name), Rules::Other(_) | Rules::Mcp { .. }) {
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
