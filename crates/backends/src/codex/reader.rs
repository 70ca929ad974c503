//! Parses the messages of Codex's app server. Only `turn/completed` ends a run, and only its status tells how it ended.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use domain::run::{AgentEnd, Failure, ModelError, StdStream as Pipe, Usage};
use serde_json::{Map, Value, json};

use super::approvals::PendingApprovals;
use super::errors;
use super::output_redaction::OutputRedactor;
use super::protocol::{ACCOUNT_ID, CONFIG_ID, THREAD_ID, TURN_ID, answered_request_id, interrupt, request};
use super::turn_items::{string_or_empty, tool_call, tool_output};
use crate::contract::{AgentAnswer, AgentReport, Conclusion, Exit, OutputReader, PermissionDecision};
use crate::line_splitter::{LineSplitter, OutputLine};
use crate::mcp_config::OWN_SERVER;

/// The longest partial answer that the reader stores for a run that ends early.
const PARTIAL_BYTES_MAX: usize = 1 << 20;
/// The most of the error stream that is searched for a reason.
const STDERR_BYTES_MAX: usize = 8 << 10;
/// The most conversations, including those of Codex's own sub-agents, whose usage is counted.
const THREADS_MAX: usize = 64;
/// The most warnings that are reported.
const WARNINGS_MAX: usize = 50;
/// Parts of warnings that need no action: Codex uses its bundled sandbox, and it ignores a directory's own settings and hooks
/// unless the user trusts the directory.
const EXPECTED_WARNINGS: [&str; 2] = ["bundled bubblewrap", "until the project is trusted"];

/// The reason for a run without a login; the table of logins adds how to log in.
const NOT_LOGGED_IN: &str =
    "codex is not logged in, and its app server ignores keys in the environment like CODEX_API_KEY";

/// What the stream must know about the run.
#[derive(Debug, Clone)]
pub(super) struct CodexStreamOptions {
    pub(super) thread: Value,
    pub(super) turn: Value,
    /// The conversation to continue.
    pub(super) session: Option<String>,
    /// The conversation is copied instead of continued.
    pub(super) fork: bool,
    /// The agent's own MCP servers.
    pub(super) servers: Map<String, Value>,
    /// Servers of the user that the agent gets in addition.
    pub(super) user_servers: Vec<String>,
    pub(super) structured: bool,
}

/// The conversation with the app server during one run.
pub(super) struct CodexStream {
    options: CodexStreamOptions,
    lines: LineSplitter,
    redactor: OutputRedactor,
    stderr: Vec<u8>,
    approvals: PendingApprovals,
    /// Each warning is reported once; Codex repeats warnings while it waits.
    warned: BTreeSet<String>,
    thread: Option<String>,
    turn: Option<String>,
    /// All messages, including the unfinished one.
    partial: String,
    last_message: Option<String>,
    /// The last reported tokens of each conversation.
    usage_by_thread: BTreeMap<String, Usage>,
    /// Codex has no login, and its provider requires one.
    logged_out: bool,
    /// Codex has reported its settings.
    has_config: bool,
    /// The user's settings select another service than OpenAI's, which may need no login.
    has_custom_service: bool,
    /// Why the turn could not start.
    failure: Option<Failure>,
    completed_turn: Option<Value>,
}

impl CodexStream {
    pub(super) fn new(options: CodexStreamOptions) -> Self {
        Self {
            options,
            lines: LineSplitter::default(),
            redactor: OutputRedactor::default(),
            stderr: Vec::new(),
            approvals: PendingApprovals::default(),
            warned: BTreeSet::new(),
            thread: None,
            turn: None,
            partial: String::new(),
            last_message: None,
            usage_by_thread: BTreeMap::new(),
            logged_out: false,
            has_config: false,
            has_custom_service: false,
            failure: None,
            completed_turn: None,
        }
    }

    fn handle_line(&mut self, line: OutputLine) -> Vec<AgentReport> {
        let message = match line.parse_json() {
            Ok(message) => message,
            Err(reports) => return reports,
        };
        match (answered_request_id(&message), message["method"].as_str()) {
            (Some(_), _) if self.failure.is_some() => Vec::new(),
            (Some(ACCOUNT_ID), _) => self.on_account(&message["result"]),
            (Some(CONFIG_ID), _) => self.on_config(&message),
            (Some(THREAD_ID), _) => self.on_thread_started(&message),
            (Some(TURN_ID), _) => self.on_turn_started(&message),
            (_, Some(_)) if message.get("id").is_some() => self.approvals.handle_request(&message),
            (_, Some(method)) => self.on_notification(method, &message["params"]),
            _ => Vec::new(),
        }
    }

    /// Handles the response about the login, which Codex reads from its file or the keyring.
    fn on_account(&mut self, result: &Value) -> Vec<AgentReport> {
        self.logged_out = result["requiresOpenaiAuth"] == true && result["account"].is_null();
        // The two responses may come in any order.
        if self.has_config { self.check_login() } else { Vec::new() }
    }

    /// Ends a run without a login. Codex itself would retry the service endlessly.
    fn check_login(&mut self) -> Vec<AgentReport> {
        if !self.logged_out {
            return Vec::new();
        }
        if self.has_custom_service {
            return self.warn(&json!(NOT_LOGGED_IN));
        }
        self.give_up(Failure::Model { error: ModelError::Denied, message: NOT_LOGGED_IN.to_owned() })
    }

    /// Starts or continues the conversation, and disables servers that are not the agent's.
    fn on_config(&mut self, message: &Value) -> Vec<AgentReport> {
        let config = &message["result"]["config"];
        self.has_config = true;
        self.has_custom_service = config["openai_base_url"].is_string();
        let mut reports = self.check_login();
        if self.failure.is_some() {
            return reports;
        }
        let mut servers = self.options.servers.clone();
        let configured = config["mcp_servers"].as_object();
        let user_servers = &self.options.user_servers;
        for name in configured.into_iter().flat_map(Map::keys).filter(|name| !user_servers.contains(name)) {
            match servers.contains_key(name) {
                false => _ = servers.insert(name.clone(), json!({"enabled": false})),
                // All keys of Volery's own server are set here, and a user may well have configured it under the same name.
                true if name == OWN_SERVER => {}
                true => {
                    let message = format!(
                        "the settings of codex have a server {name} of their own, and codex would mix both"
                    );
                    return self.give_up(Failure::Agent { message });
                }
            }
        }
        let mut thread = self.options.thread.take();
        thread["config"]["mcp_servers"] = Value::Object(servers);
        let method = match &self.options.session {
            Some(session) => {
                thread["threadId"] = json!(session);
                thread["excludeTurns"] = json!(true);
                if self.options.fork { "thread/fork" } else { "thread/resume" }
            }
            None => "thread/start",
        };
        reports.push(AgentReport::Write(request(THREAD_ID, method, &thread)));
        reports
    }

    /// Starts the turn, if the conversation is the requested one.
    fn on_thread_started(&mut self, message: &Value) -> Vec<AgentReport> {
        let result = &message["result"];
        let Some(thread) = result["thread"]["id"].as_str() else {
            let reason =
                errors::short_message(message["error"]["message"].as_str().unwrap_or("no conversation"));
            let about_settings = ["configuration", "MCP"].iter().any(|word| reason.contains(word));
            return self.give_up(match self.options.session {
                Some(_) if !about_settings => Failure::Session { reason },
                _ => Failure::Agent { message: reason },
            });
        };
        let expected = self.options.session.as_deref().filter(|_| !self.options.fork);
        if expected.is_some_and(|expected| expected != thread) {
            let reason = format!("codex continued {thread} instead");
            return self.give_up(Failure::Session { reason });
        }
        self.thread = Some(thread.to_owned());
        let mut turn = self.options.turn.take();
        turn["threadId"] = json!(thread);
        let mut reports = vec![AgentReport::Session(thread.to_owned())];
        reports.extend(result["model"].as_str().map(|model| AgentReport::Model(model.to_owned())));
        reports.push(AgentReport::Write(request(TURN_ID, "turn/start", &turn)));
        reports
    }

    fn on_turn_started(&mut self, message: &Value) -> Vec<AgentReport> {
        if let Some(turn) = message["result"]["turn"]["id"].as_str() {
            self.turn = Some(turn.to_owned());
            return Vec::new();
        }
        let reason = message["error"]["message"].as_str().unwrap_or("the turn did not begin");
        self.give_up(Failure::Agent { message: errors::short_message(reason) })
    }

    fn give_up(&mut self, failure: Failure) -> Vec<AgentReport> {
        self.failure = Some(failure);
        vec![AgentReport::CloseInput]
    }

    fn on_notification(&mut self, method: &str, params: &Value) -> Vec<AgentReport> {
        // Messages of Codex's own sub-agents are not part of the answer.
        let is_main_thread =
            params["threadId"].is_null() || params["threadId"].as_str() == self.thread.as_deref();
        match method {
            "item/started" => self.on_item_started(&params["item"]),
            "item/completed" => self.on_item_completed(&params["item"], is_main_thread),
            "item/agentMessage/delta" if is_main_thread => {
                self.append_partial(params["delta"].as_str().unwrap_or_default());
                Vec::new()
            }
            "thread/tokenUsage/updated" => self.on_token_usage(params, is_main_thread),
            "turn/completed" if is_main_thread => {
                self.completed_turn = Some(params["turn"].clone());
                vec![AgentReport::CloseInput]
            }
            "error" if params["willRetry"] == true => self.warn(&params["error"]["message"]),
            "warning" | "guardianWarning" => self.warn(&params["message"]),
            "configWarning" | "deprecationNotice" => self.warn(&params["summary"]),
            "mcpServer/startupStatus/updated" => self.on_server_status(params),
            "model/rerouted" if is_main_thread => params["toModel"]
                .as_str()
                .map(|model| AgentReport::Model(model.to_owned()))
                .into_iter()
                .collect(),
            _ => Vec::new(),
        }
    }

    fn append_partial(&mut self, text: &str) {
        let room = PARTIAL_BYTES_MAX.saturating_sub(self.partial.len());
        self.partial.push_str(domain::size::head(text, room));
    }

    fn warn(&mut self, message: &Value) -> Vec<AgentReport> {
        let is_expected = |text: &str| EXPECTED_WARNINGS.iter().any(|marker| text.contains(marker));
        let Some(text) = message.as_str().filter(|text| !is_expected(text)) else { return Vec::new() };
        let text = errors::short_message(text);
        let is_new = self.warned.len() < WARNINGS_MAX && self.warned.insert(text.clone());
        is_new.then_some(AgentReport::Warned(text)).into_iter().collect()
    }

    fn on_server_status(&mut self, params: &Value) -> Vec<AgentReport> {
        let name = params["name"].as_str().unwrap_or_default();
        let warning = match params["status"].as_str() {
            Some("failed") => {
                format!(
                    "the MCP server {name} is not there: {}",
                    params["error"].as_str().unwrap_or("it failed")
                )
            }
            Some("starting") if !self.options.servers.contains_key(name) => {
                format!("the MCP server {name} is not the agent's own, and codex started it")
            }
            _ => return Vec::new(),
        };
        self.warn(&json!(warning))
    }

    fn on_item_started(&mut self, item: &Value) -> Vec<AgentReport> {
        let Some((name, input)) = tool_call(item) else { return Vec::new() };
        self.approvals.item_started(item);
        vec![AgentReport::ToolCalled { id: string_or_empty(&item["id"]), name, input }]
    }

    fn on_item_completed(&mut self, item: &Value, is_main_thread: bool) -> Vec<AgentReport> {
        if item["type"] == "agentMessage" {
            let text = string_or_empty(&item["text"]);
            if !is_main_thread || text.is_empty() {
                return Vec::new();
            }
            // The text has already come in pieces, unless the model returned it at once.
            if !self.partial.ends_with(&text) {
                self.append_partial(&text);
            }
            self.append_partial("\n");
            self.last_message = Some(text.clone());
            return vec![AgentReport::Text(format!("{text}\n"))];
        }
        if tool_call(item).is_none() {
            return Vec::new();
        }
        self.approvals.item_completed(item);
        let ok = !matches!(item["status"].as_str(), Some("failed" | "declined" | "interrupted"));
        vec![AgentReport::ToolReturned { id: string_or_empty(&item["id"]), ok, output: tool_output(item) }]
    }

    /// Reports the usage since the last notification. Codex reports totals of the conversation, and for a continued
    /// conversation it first reports the total so far.
    fn on_token_usage(&mut self, params: &Value, is_main_thread: bool) -> Vec<AgentReport> {
        let Some(thread) = params["threadId"].as_str() else { return Vec::new() };
        let part_usage = |part: &str| {
            let count = |key: &str| params["tokenUsage"][part][key].as_u64().unwrap_or(0);
            // Cached tokens are part of the input.
            Usage {
                input_tokens: count("inputTokens"),
                output_tokens: count("outputTokens"),
                cache_read_tokens: count("cachedInputTokens"),
                ..Usage::default()
            }
        };
        let (total, last) = (part_usage("total"), part_usage("last"));
        if !self.usage_by_thread.contains_key(thread) && self.usage_by_thread.len() >= THREADS_MAX {
            return Vec::new();
        }
        let before = self.usage_by_thread.insert(thread.to_owned(), total);
        let resumed = is_main_thread && self.options.session.is_some();
        if resumed && params["turnId"].as_str() != self.turn.as_deref() {
            return Vec::new();
        }
        let before = before.unwrap_or(match resumed {
            true => total.since(last).unwrap_or_default(),
            false => Usage::default(),
        });
        let usage = total.since(before).filter(|usage| !usage.has_no_tokens());
        usage.map(AgentReport::Used).into_iter().collect()
    }

    fn turn_end(&mut self, turn: &Value) -> (AgentEnd, Option<Value>) {
        match turn["status"].as_str() {
            Some("completed") if self.options.structured => {
                match serde_json::from_str::<Value>(self.last_message.as_deref().unwrap_or_default()) {
                    Ok(value) => (AgentEnd::Done, Some(value)),
                    Err(error) => {
                        let reason = format!("the answer is not JSON: {error}");
                        (AgentEnd::Failed(Failure::missing_value(reason)), None)
                    }
                }
            }
            Some("completed") => (AgentEnd::Done, None),
            Some("failed") => (AgentEnd::Failed(errors::turn_failure(&turn["error"])), None),
            other => {
                let message = format!("the turn was {}", other.unwrap_or("without a status"));
                (AgentEnd::Failed(Failure::Agent { message }), None)
            }
        }
    }

    fn failure_without_turn(&mut self, exit: Exit) -> Failure {
        if let Some(failure) = self.failure.take() {
            return failure;
        }
        let stderr = String::from_utf8_lossy(&self.stderr);
        let complaint = stderr.lines().find_map(|line| line.strip_prefix("Error: "));
        match (exit, complaint) {
            (Exit::Signal(signal), _) => Failure::Signal { signal },
            (Exit::Code(0), _) => {
                Failure::Output { reason: "the stream ended without its terminal event".to_owned() }
            }
            (Exit::Code(_), Some(complaint)) if self.thread.is_none() => {
                Failure::Agent { message: errors::short_message(complaint) }
            }
            (Exit::Code(code), _) => Failure::Exit { code },
        }
    }
}

impl OutputReader for CodexStream {
    fn feed(&mut self, pipe: Pipe, bytes: &[u8]) -> Vec<AgentReport> {
        match pipe {
            Pipe::Stdout => {
                let lines = self.lines.feed(bytes);
                lines.into_iter().flat_map(|line| self.handle_line(line)).collect()
            }
            Pipe::Stderr => {
                let room = STDERR_BYTES_MAX.saturating_sub(self.stderr.len()).min(bytes.len());
                self.stderr.extend_from_slice(&bytes[..room]);
                Vec::new()
            }
        }
    }

    fn redact<'a>(&mut self, pipe: Pipe, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match pipe {
            Pipe::Stdout => self.redactor.redact(bytes),
            Pipe::Stderr => Cow::Borrowed(bytes),
        }
    }

    fn decide(&mut self, ask: &str, decision: &PermissionDecision) -> Vec<AgentReport> {
        self.approvals.decide(ask, decision)
    }

    fn ask_to_stop(&mut self) -> Vec<AgentReport> {
        match (&self.thread, &self.turn) {
            (Some(thread), Some(turn)) => vec![AgentReport::Write(interrupt(thread, turn))],
            _ => vec![AgentReport::CloseInput],
        }
    }

    fn conclude(&mut self, exit: Exit) -> Conclusion {
        if let Some(rest) = self.lines.finish() {
            self.handle_line(OutputLine::Whole(rest));
        }
        let (end, structured) = match self.completed_turn.take() {
            Some(turn) => self.turn_end(&turn),
            None => (AgentEnd::Failed(self.failure_without_turn(exit)), None),
        };
        let text = match end {
            AgentEnd::Done => self.last_message.take().unwrap_or_default(),
            _ => std::mem::take(&mut self.partial),
        };
        let answer = match end {
            AgentEnd::Done => AgentAnswer::Text(text),
            _ if text.trim().is_empty() => AgentAnswer::Nothing,
            _ => AgentAnswer::Text(text),
        };
        Conclusion { end, answer, session: self.thread.take(), structured, reports: Vec::new() }
    }
}
