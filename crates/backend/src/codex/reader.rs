//! Understands the app server of Codex. Only `turn/completed` ends a run, and only its status says how.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use domain::run::{AgentEnd, Failure, ModelError, Stream as Pipe, Usage};
use serde_json::{Map, Value, json};

use super::asks::Asks;
use super::failure;
use super::item::{output, text_of, tool};
use super::message::{ACCOUNT, CONFIG, THREAD, TURN, answered, interrupt, request};
use super::screen::Screen;
use crate::contract::{Answer, Conclusion, Decision, Exit, Reader, Report};
use crate::lines::{Line, Lines};
use crate::mcp_config::OWN_SERVER;

/// The most of what was said that is kept for a run that ends early.
const PARTIAL_BYTES_MAX: usize = 1 << 20;
/// The most of the error stream that is looked at for a reason.
const STDERR_BYTES_MAX: usize = 8 << 10;
/// How many conversations, those of Codex's own sub-agents among them, are told apart for their usage.
const THREADS_MAX: usize = 64;
/// How many warnings are passed on.
const WARNINGS_MAX: usize = 50;
/// What Codex warns of and nobody needs to do anything about: a sandbox that it has brought along, and that a
/// directory's own settings and hooks are not used unless the user has said so.
const AS_IT_SHOULD_BE: [&str; 2] = ["bundled bubblewrap", "until the project is trusted"];

/// Why Codex cannot work; the login table adds how to log in.
const NOT_LOGGED_IN: &str =
    "codex is not logged in, and its app server ignores keys in the environment like CODEX_API_KEY";

/// What the run asked for.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) thread: Value,
    pub(super) turn: Value,
    /// The conversation to be continued.
    pub(super) session: Option<String>,
    /// It is copied and not continued.
    pub(super) fork: bool,
    /// The only MCP servers that the agent shall have.
    pub(super) servers: Map<String, Value>,
    /// Servers of its user's that it gets beside them.
    pub(super) users_servers: Vec<String>,
    pub(super) structured: bool,
}

/// The conversation with the server of one run.
pub(super) struct AppServer {
    order: Order,
    lines: Lines,
    screen: Screen,
    stderr: Vec<u8>,
    asks: Asks,
    /// Each only once: Codex repeats itself while it waits.
    warned: BTreeSet<String>,
    thread: Option<String>,
    turn: Option<String>,
    /// All that was said, with the message under way.
    partial: String,
    /// The last message that is whole.
    answer: Option<String>,
    /// Tokens of each conversation, as they were told last.
    used: BTreeMap<String, Usage>,
    /// Codex has no login, and its provider needs one.
    logged_out: bool,
    /// Codex has answered what its settings are.
    has_config: bool,
    /// The user's settings send requests to another service than OpenAI's, which may need no login.
    own_service: bool,
    /// Why the turn could not even begin.
    failure: Option<Failure>,
    ended: Option<Value>,
}

impl AppServer {
    pub(super) fn new(order: Order) -> Self {
        Self {
            order,
            lines: Lines::default(),
            screen: Screen::default(),
            stderr: Vec::new(),
            asks: Asks::default(),
            warned: BTreeSet::new(),
            thread: None,
            turn: None,
            partial: String::new(),
            answer: None,
            used: BTreeMap::new(),
            logged_out: false,
            has_config: false,
            own_service: false,
            failure: None,
            ended: None,
        }
    }

    fn take(&mut self, line: Line) -> Vec<Report> {
        let message = match line.json() {
            Ok(message) => message,
            Err(reports) => return reports,
        };
        match (answered(&message), message["method"].as_str()) {
            (Some(_), _) if self.failure.is_some() => Vec::new(),
            (Some(ACCOUNT), _) => self.account(&message["result"]),
            (Some(CONFIG), _) => self.begin(&message),
            (Some(THREAD), _) => self.begun(&message),
            (Some(TURN), _) => self.turn_begun(&message),
            (_, Some(_)) if message.get("id").is_some() => self.asks.take(&message),
            (_, Some(method)) => self.notified(method, &message["params"]),
            _ => Vec::new(),
        }
    }

    /// Takes the answer about the login, which Codex looks up in its file and in the keyring.
    fn account(&mut self, result: &Value) -> Vec<Report> {
        self.logged_out = result["requiresOpenaiAuth"] == true && result["account"].is_null();
        // The order of the two answers is not promised.
        if self.has_config { self.check_login() } else { Vec::new() }
    }

    /// Ends a run without a login: Codex itself would try the service again and again, in vain.
    fn check_login(&mut self) -> Vec<Report> {
        if !self.logged_out {
            return Vec::new();
        }
        if self.own_service {
            return self.warn(&json!(NOT_LOGGED_IN));
        }
        self.give_up(Failure::Model { error: ModelError::Denied, message: NOT_LOGGED_IN.to_owned() })
    }

    /// Begins or continues the conversation, without the servers that the settings of others name.
    fn begin(&mut self, message: &Value) -> Vec<Report> {
        let config = &message["result"]["config"];
        self.has_config = true;
        self.own_service = config["openai_base_url"].is_string();
        let mut reports = self.check_login();
        if self.failure.is_some() {
            return reports;
        }
        let mut servers = self.order.servers.clone();
        let others = config["mcp_servers"].as_object();
        let own = &self.order.users_servers;
        for name in others.into_iter().flat_map(Map::keys).filter(|name| !own.contains(name)) {
            match servers.contains_key(name) {
                false => _ = servers.insert(name.clone(), json!({"enabled": false})),
                // Of ours all that matters is said, and a user may well have it under the same name.
                true if name == OWN_SERVER => {}
                true => {
                    let message = format!(
                        "the settings of codex have a server {name} of their own, and codex would mix both"
                    );
                    return self.give_up(Failure::Agent { message });
                }
            }
        }
        let mut thread = self.order.thread.take();
        thread["config"]["mcp_servers"] = Value::Object(servers);
        let method = match &self.order.session {
            Some(session) => {
                thread["threadId"] = json!(session);
                thread["excludeTurns"] = json!(true);
                if self.order.fork { "thread/fork" } else { "thread/resume" }
            }
            None => "thread/start",
        };
        reports.push(Report::Write(request(THREAD, method, &thread)));
        reports
    }

    /// Begins the turn, if the conversation is the one that was asked for.
    fn begun(&mut self, message: &Value) -> Vec<Report> {
        let result = &message["result"];
        let Some(thread) = result["thread"]["id"].as_str() else {
            let reason = failure::message(message["error"]["message"].as_str().unwrap_or("no conversation"));
            let about_settings = ["configuration", "MCP"].iter().any(|word| reason.contains(word));
            return self.give_up(match self.order.session {
                Some(_) if !about_settings => Failure::Session { reason },
                _ => Failure::Agent { message: reason },
            });
        };
        let wanted = self.order.session.as_deref().filter(|_| !self.order.fork);
        if wanted.is_some_and(|wanted| wanted != thread) {
            let reason = format!("codex continued {thread} instead");
            return self.give_up(Failure::Session { reason });
        }
        self.thread = Some(thread.to_owned());
        let mut turn = self.order.turn.take();
        turn["threadId"] = json!(thread);
        let mut reports = vec![Report::Session(thread.to_owned())];
        reports.extend(result["model"].as_str().map(|model| Report::Model(model.to_owned())));
        reports.push(Report::Write(request(TURN, "turn/start", &turn)));
        reports
    }

    fn turn_begun(&mut self, message: &Value) -> Vec<Report> {
        if let Some(turn) = message["result"]["turn"]["id"].as_str() {
            self.turn = Some(turn.to_owned());
            return Vec::new();
        }
        let reason = message["error"]["message"].as_str().unwrap_or("the turn did not begin");
        self.give_up(Failure::Agent { message: failure::message(reason) })
    }

    fn give_up(&mut self, failure: Failure) -> Vec<Report> {
        self.failure = Some(failure);
        vec![Report::CloseInput]
    }

    fn notified(&mut self, method: &str, params: &Value) -> Vec<Report> {
        // What Codex's own sub-agents say is no part of the answer.
        let own = params["threadId"].is_null() || params["threadId"].as_str() == self.thread.as_deref();
        match method {
            "item/started" => self.item_begun(&params["item"]),
            "item/completed" => self.item_ended(&params["item"], own),
            "item/agentMessage/delta" if own => {
                self.keep(params["delta"].as_str().unwrap_or_default());
                Vec::new()
            }
            "thread/tokenUsage/updated" => self.usage(params, own),
            "turn/completed" if own => {
                self.ended = Some(params["turn"].clone());
                vec![Report::CloseInput]
            }
            "error" if params["willRetry"] == true => self.warn(&params["error"]["message"]),
            "warning" | "guardianWarning" => self.warn(&params["message"]),
            "configWarning" | "deprecationNotice" => self.warn(&params["summary"]),
            "mcpServer/startupStatus/updated" => self.server(params),
            "model/rerouted" if own => {
                params["toModel"].as_str().map(|model| Report::Model(model.to_owned())).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn keep(&mut self, text: &str) {
        let room = PARTIAL_BYTES_MAX.saturating_sub(self.partial.len());
        self.partial.push_str(domain::size::head(text, room));
    }

    fn warn(&mut self, message: &Value) -> Vec<Report> {
        let expected = |text: &str| AS_IT_SHOULD_BE.iter().any(|words| text.contains(words));
        let Some(text) = message.as_str().filter(|text| !expected(text)) else { return Vec::new() };
        let text = failure::message(text);
        let news = self.warned.len() < WARNINGS_MAX && self.warned.insert(text.clone());
        news.then_some(Report::Warned(text)).into_iter().collect()
    }

    fn server(&mut self, params: &Value) -> Vec<Report> {
        let name = params["name"].as_str().unwrap_or_default();
        let told = match params["status"].as_str() {
            Some("failed") => {
                format!(
                    "the MCP server {name} is not there: {}",
                    params["error"].as_str().unwrap_or("it failed")
                )
            }
            Some("starting") if !self.order.servers.contains_key(name) => {
                format!("the MCP server {name} is not the agent's own, and codex started it")
            }
            _ => return Vec::new(),
        };
        self.warn(&json!(told))
    }

    fn item_begun(&mut self, item: &Value) -> Vec<Report> {
        let Some((name, input)) = tool(item) else { return Vec::new() };
        self.asks.begun(item);
        vec![Report::ToolCalled { id: text_of(&item["id"]), name, input }]
    }

    fn item_ended(&mut self, item: &Value, own: bool) -> Vec<Report> {
        if item["type"] == "agentMessage" {
            let text = text_of(&item["text"]);
            if !own || text.is_empty() {
                return Vec::new();
            }
            // The text came in pieces already, unless the model gave it as a whole.
            if !self.partial.ends_with(&text) {
                self.keep(&text);
            }
            self.keep("\n");
            self.answer = Some(text.clone());
            return vec![Report::Said(format!("{text}\n"))];
        }
        if tool(item).is_none() {
            return Vec::new();
        }
        self.asks.ended(item);
        let ok = !matches!(item["status"].as_str(), Some("failed" | "declined" | "interrupted"));
        vec![Report::ToolReturned { id: text_of(&item["id"]), ok, output: output(item) }]
    }

    /// Reports what was used since the last time. Codex tells the sum over the conversation, and when one is
    /// continued first the sum so far.
    fn usage(&mut self, params: &Value, own: bool) -> Vec<Report> {
        let Some(thread) = params["threadId"].as_str() else { return Vec::new() };
        let of = |part: &str| {
            let count = |key: &str| params["tokenUsage"][part][key].as_u64().unwrap_or(0);
            // What came from a cache is part of the input.
            Usage {
                input_tokens: count("inputTokens"),
                output_tokens: count("outputTokens"),
                cache_read_tokens: count("cachedInputTokens"),
                ..Usage::default()
            }
        };
        let (total, last) = (of("total"), of("last"));
        if !self.used.contains_key(thread) && self.used.len() >= THREADS_MAX {
            return Vec::new();
        }
        let before = self.used.insert(thread.to_owned(), total);
        let resumed = own && self.order.session.is_some();
        if resumed && params["turnId"].as_str() != self.turn.as_deref() {
            return Vec::new();
        }
        let before = before.unwrap_or(match resumed {
            true => total.beyond(last).unwrap_or_default(),
            false => Usage::default(),
        });
        let usage = total.beyond(before).filter(|usage| !usage.is_nothing());
        usage.map(Report::Used).into_iter().collect()
    }

    fn conclude_turn(&mut self, turn: &Value) -> (AgentEnd, Option<Value>) {
        match turn["status"].as_str() {
            Some("completed") if self.order.structured => {
                match serde_json::from_str::<Value>(self.answer.as_deref().unwrap_or_default()) {
                    Ok(value) => (AgentEnd::Done, Some(value)),
                    Err(error) => {
                        let reason = format!("the answer is not JSON: {error}");
                        (AgentEnd::Failed(Failure::without_value(reason)), None)
                    }
                }
            }
            Some("completed") => (AgentEnd::Done, None),
            Some("failed") => (AgentEnd::Failed(failure::of_turn(&turn["error"])), None),
            other => {
                let message = format!("the turn was {}", other.unwrap_or("without a status"));
                (AgentEnd::Failed(Failure::Agent { message }), None)
            }
        }
    }

    fn without_turn(&mut self, exit: Exit) -> Failure {
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
                Failure::Agent { message: failure::message(complaint) }
            }
            (Exit::Code(code), _) => Failure::Exit { code },
        }
    }
}

impl Reader for AppServer {
    fn feed(&mut self, pipe: Pipe, bytes: &[u8]) -> Vec<Report> {
        match pipe {
            Pipe::Stdout => {
                let lines = self.lines.feed(bytes);
                lines.into_iter().flat_map(|line| self.take(line)).collect()
            }
            Pipe::Stderr => {
                let room = STDERR_BYTES_MAX.saturating_sub(self.stderr.len()).min(bytes.len());
                self.stderr.extend_from_slice(&bytes[..room]);
                Vec::new()
            }
        }
    }

    fn kept<'a>(&mut self, pipe: Pipe, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match pipe {
            Pipe::Stdout => self.screen.kept(bytes),
            Pipe::Stderr => Cow::Borrowed(bytes),
        }
    }

    fn decide(&mut self, ask: &str, decision: &Decision) -> Vec<Report> {
        self.asks.decide(ask, decision)
    }

    fn ask_to_stop(&mut self) -> Vec<Report> {
        match (&self.thread, &self.turn) {
            (Some(thread), Some(turn)) => vec![Report::Write(interrupt(thread, turn))],
            _ => vec![Report::CloseInput],
        }
    }

    fn conclude(&mut self, exit: Exit) -> Conclusion {
        if let Some(rest) = self.lines.finish() {
            self.take(Line::Whole(rest));
        }
        let (end, structured) = match self.ended.take() {
            Some(turn) => self.conclude_turn(&turn),
            None => (AgentEnd::Failed(self.without_turn(exit)), None),
        };
        let said = match end {
            AgentEnd::Done => self.answer.take().unwrap_or_default(),
            _ => std::mem::take(&mut self.partial),
        };
        let answer = match end {
            AgentEnd::Done => Answer::Text(said),
            _ if said.trim().is_empty() => Answer::Nothing,
            _ => Answer::Text(said),
        };
        Conclusion { end, answer, session: self.thread.take(), structured, reports: Vec::new() }
    }
}
