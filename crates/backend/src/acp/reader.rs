//! Understands an agent that speaks ACP. Only the answer to the prompt ends a run, and only its reason says how.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use agent_client_protocol_schema::v1::{
    AgentCapabilities, CloseSessionRequest, ContentBlock, ContentChunk, PromptRequest, SessionUpdate,
    StopReason,
};
use domain::run::{AgentEnd, Failure, LimitName, ModelError, Stream as Pipe, Usage};
use serde_json::{Value, json};

use super::agents::{Servers, ToldAtHome};
use super::asks::{Free, Requests};
use super::calls::{Calls, Servers as Known};
use super::failure;
use super::message::{CLOSE, INITIALIZE, NAMING, PROMPT, SESSION, SETTING, cancel, refusal, request};
use super::session::{Offer, Order, Purpose, Setting};
use super::usage::{Meaning, Told};
use crate::contract::{Answer, Conclusion, Decision, Exit, Reader, Report};
use crate::kept::{Kept, without_end};
use crate::lines::{Line, Lines};
use crate::lost_requests::LostRequests;
use crate::worded_schema;

/// The version of the protocol that is spoken here.
const VERSION: u64 = 1;
/// What a session is called whose agent would else ask a model for a title.
const TITLE: &str = "volery";
/// How many warnings are passed on.
const WARNINGS_MAX: usize = 50;

/// The conversation with the agent of one run.
pub(super) struct Conversation {
    order: Order,
    used_before: Option<Usage>,
    lines: Lines,
    kept: Kept,
    calls: Calls,
    requests: Requests,
    told: Told,
    warned: BTreeSet<String>,
    /// How its user logs in, in the agent's own words.
    login: String,
    session: Option<String>,
    /// What has to be set before the turn, the first of it under way.
    settings: VecDeque<Setting>,
    /// The system prompt went with the session.
    instructed: bool,
    /// A session can be closed, so that nothing of it is under way when the agent leaves.
    closes: bool,
    /// The turn is under way: what came before belongs to earlier ones.
    prompted: bool,
    stopping: bool,
    /// The message under way, and what it is called.
    message: String,
    message_id: Option<String>,
    /// The last message that has an end.
    answer: String,
    /// A tool was used since something was said.
    acted_last: bool,
    /// The run's work folder.
    work: PathBuf,
    /// The agent says beside its answer that the turn failed.
    broken: bool,
    /// The agent says in the place of an answer that its turns are used up.
    no_turns_left: bool,
    /// For an agent whose log shows what its messages do not.
    lost: Option<LostRequests>,
    /// Why there was no turn, or how it ended.
    failure: Option<Failure>,
    ended: Option<Value>,
}

impl Conversation {
    pub(super) fn new(order: Order, free: Free, used_before: Option<Usage>, servers: Known) -> Self {
        Self {
            lost: order.habits.lost_request.map(LostRequests::new),
            order,
            used_before,
            lines: Lines::default(),
            kept: Kept::default(),
            calls: Calls::new(servers),
            requests: Requests::new(free),
            told: Told::default(),
            warned: BTreeSet::new(),
            login: String::new(),
            session: None,
            settings: VecDeque::new(),
            instructed: false,
            closes: false,
            prompted: false,
            stopping: false,
            message: String::new(),
            message_id: None,
            answer: String::new(),
            acted_last: false,
            work: PathBuf::new(),
            broken: false,
            no_turns_left: false,
            failure: None,
            ended: None,
        }
    }

    /// Some agents tell only in a home of the run's own that a turn failed.
    pub(super) fn look_for_failures_in(&mut self, work: &Path) {
        self.work = work.to_owned();
    }

    /// The agent gets its servers in another way than with the session.
    pub(super) fn leave_servers_out(&mut self) {
        self.order.servers.clear();
        self.order.variables.clear();
    }

    fn take(&mut self, line: Line) -> Vec<Report> {
        let message = match line.json() {
            Ok(message) => message,
            Err(reports) => return reports,
        };
        self.lost.iter_mut().for_each(LostRequests::reset);
        match (message["method"].as_str(), message.get("id")) {
            (Some("session/request_permission"), Some(id)) => {
                let mut reports = self.finish_message();
                self.acted_last = true;
                reports.extend(self.requests.take(id, &message["params"], &mut self.calls));
                reports
            }
            (Some(method), Some(id)) => vec![Report::Write(refusal(id, method))],
            (Some("session/update"), None) => self.update(&message["params"]),
            (Some(_), None) => Vec::new(),
            (None, _) => self.answered(&message),
        }
    }

    fn answered(&mut self, message: &Value) -> Vec<Report> {
        match message["id"].as_u64() {
            Some(CLOSE) => vec![Report::CloseInput],
            _ if self.ended.is_some() || self.failure.is_some() => Vec::new(),
            Some(INITIALIZE) => self.greeted(message),
            Some(SESSION) => self.opened(message),
            Some(SETTING) => self.set(message),
            Some(NAMING) => self.named(message),
            Some(PROMPT) if self.prompted => self.turn_ended(message),
            _ => Vec::new(),
        }
    }

    /// Begins or continues the session, if the agent speaks the same version.
    fn greeted(&mut self, message: &Value) -> Vec<Report> {
        if message.get("error").is_some() {
            return self.give_up(failure::of_error(&self.order.name, &message["error"], ""));
        }
        let result = &message["result"];
        if result["protocolVersion"] != VERSION {
            let reason = format!(
                "{} speaks version {} of ACP, not {VERSION}",
                self.order.name, result["protocolVersion"]
            );
            return self.give_up(Failure::Output { reason });
        }
        self.login = login(&result["authMethods"]);
        let can: AgentCapabilities =
            serde_json::from_value(result["agentCapabilities"].clone()).unwrap_or_default();
        match self.order.opening(&can) {
            Ok(opening) => {
                self.instructed = opening.instructed;
                self.closes = can.session_capabilities.close.is_some();
                let warnings = opening.warnings.iter().map(|text| Report::Warned(text.clone()));
                let mut reports: Vec<Report> = self.doubts().into_iter().chain(warnings).collect();
                reports.push(self.order.open(SESSION, &opening));
                reports
            }
            Err(failure) => self.give_up(failure),
        }
    }

    /// Says what of the agent's MCP servers cannot be promised.
    fn doubts(&self) -> Option<Report> {
        let name = &self.order.name;
        let text = match self.order.habits.servers {
            Servers::OfUserToo => {
                format!("{name} also starts the MCP servers of its own settings, if there are any")
            }
            Servers::Unknown if !self.order.servers.is_empty() => {
                format!("whether {name} starts MCP servers of its own settings is not known")
            }
            Servers::OfSession | Servers::Unknown => return None,
        };
        Some(Report::Warned(text))
    }

    /// Sets what is to be set, if the session is the one that was asked for.
    fn opened(&mut self, message: &Value) -> Vec<Report> {
        let result = &message["result"];
        let wanted = self.order.session.clone();
        // A copy has a name of its own.
        let Some(session) = wanted
            .clone()
            .filter(|_| !self.order.fork)
            .filter(|_| result.is_object() || result.is_null() && message.get("error").is_none())
            .or_else(|| result["sessionId"].as_str().map(ToOwned::to_owned))
        else {
            let failure = failure::of_error(&self.order.name, &message["error"], &self.login);
            return self.give_up(match (wanted, failure) {
                (
                    Some(_),
                    Failure::Agent { message } | Failure::Model { error: ModelError::Unknown, message },
                ) => Failure::Session { reason: message },
                (_, failure) => failure,
            });
        };
        let offer = Offer { session: &session, result };
        let mut reports = vec![Report::Session(session.clone())];
        let mut model = offer.model().map(ToOwned::to_owned);
        if let Some(mode) = self.order.mode {
            match offer.mode(mode) {
                Ok(setting) => self.settings.extend(setting),
                Err(()) => {
                    let message =
                        format!("{} has no mode {mode:?}, in which it asks before it acts", self.order.name);
                    return self.give_up(Failure::Agent { message });
                }
            }
        }
        if let Some(wanted) = self.order.model.as_deref().filter(|wanted| model.as_deref() != Some(*wanted)) {
            match offer.choose_model(wanted) {
                Some(setting) => {
                    self.settings.push_back(setting);
                    model = Some(wanted.to_owned());
                }
                None => reports.push(Report::Warned(format!("model is not honoured by {}", self.order.name))),
            }
        }
        if let Some(effort) = self.order.effort.as_deref() {
            match offer.choose_effort(effort) {
                Some(setting) => self.settings.push_back(setting),
                None => reports
                    .push(Report::Warned(format!("effort {effort} is not honoured by {}", self.order.name))),
            }
        }
        if self.order.habits.makes_titles && (self.order.session.is_none() || self.order.fork) {
            let title = json!({"sessionId": session, "title": TITLE});
            reports.push(Report::Write(request(NAMING, "session/set_title", &title)));
        }
        reports.extend(model.map(Report::Model));
        self.session = Some(session);
        reports.extend(self.go_on());
        reports
    }

    /// Takes the answer to a setting.
    fn set(&mut self, message: &Value) -> Vec<Report> {
        let Some(setting) = self.settings.pop_front() else { return Vec::new() };
        let mut reports = Vec::new();
        if message.get("error").is_some() {
            let name = &self.order.name;
            let reason = failure::words(&message["error"]);
            match setting.purpose {
                Purpose::Mode => {
                    let message = format!("{name} cannot be put in the mode in which it asks: {reason}");
                    return self.give_up(Failure::Agent { message });
                }
                Purpose::Model => {
                    reports.push(Report::Warned(format!("the model is not honoured by {name}: {reason}")))
                }
                Purpose::Effort => {
                    reports.push(Report::Warned(format!("the effort is not honoured by {name}: {reason}")))
                }
            }
        }
        reports.extend(self.go_on());
        reports
    }

    /// Takes the answer to a title, for which nobody waits.
    fn named(&self, message: &Value) -> Vec<Report> {
        let Some(reason) = message.get("error").map(|error| error["message"].as_str().unwrap_or("no reason"))
        else {
            return Vec::new();
        };
        let name = &self.order.name;
        vec![Report::Warned(format!(
            "{name} makes a title of its own, for which it may start the MCP servers of its settings: {reason}"
        ))]
    }

    /// Sends the next setting, or the prompt.
    fn go_on(&mut self) -> Vec<Report> {
        let Some(session) = self.session.clone().filter(|_| !self.stopping) else { return Vec::new() };
        if let Some(next) = self.settings.front() {
            return vec![Report::Write(request(SETTING, next.method, &next.params))];
        }
        self.prompted = true;
        let text = if self.instructed { &self.order.prompt } else { &self.order.combined };
        let prompt = PromptRequest::new(session, vec![ContentBlock::from(text.as_str())]);
        vec![Report::Write(request(PROMPT, "session/prompt", &prompt))]
    }

    fn give_up(&mut self, failure: Failure) -> Vec<Report> {
        self.failure = Some(failure);
        vec![Report::CloseInput, Report::Finished]
    }

    fn update(&mut self, params: &Value) -> Vec<Report> {
        let own = params["sessionId"].as_str() == self.session.as_deref();
        if !self.prompted || !own || self.ended.is_some() {
            return Vec::new();
        }
        let update = &params["update"];
        self.told.piece(&update["_meta"]);
        self.broken |= update["_meta"]["codex"]["threadStatus"]["type"] == "systemError";
        // What is of a kind that nobody here knows is passed over.
        let Ok(update) = serde_json::from_value::<SessionUpdate>(update.clone()) else { return Vec::new() };
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => self.say(chunk),
            SessionUpdate::ToolCall(call) => {
                let mut reports = self.finish_message();
                self.acted_last = true;
                reports.extend(self.calls.take(call.into()));
                reports
            }
            SessionUpdate::ToolCallUpdate(call) => {
                let mut reports = self.finish_message();
                reports.extend(self.calls.take(call));
                reports
            }
            SessionUpdate::UsageUpdate(usage) => {
                if let Some(cost) = usage.cost {
                    self.told.cost(cost.amount, &cost.currency);
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Takes a piece of a message.
    fn say(&mut self, chunk: ContentChunk) -> Vec<Report> {
        let ContentBlock::Text(text) = chunk.content else { return Vec::new() };
        let habits = &self.order.habits;
        if habits.asides.contains(&text.text.trim()) {
            return vec![Report::Warned(text.text)];
        }
        if habits.no_turns_left.is_some_and(|mark| text.text.starts_with(mark)) {
            self.no_turns_left = true;
            return self.finish_message();
        }
        let said = text.text.trim_end();
        let is_error = |(begin, end): &(&str, &str)| said.starts_with(begin) && said.ends_with(end);
        let begins = habits.error_marks.iter().any(is_error);
        let id = chunk.message_id.map(|id| id.0.to_string());
        let reports = if id == self.message_id && !begins { Vec::new() } else { self.finish_message() };
        self.message_id = id;
        self.kept.piece(&text.text);
        let room = crate::lines::LINE_BYTES_MAX.saturating_sub(self.message.len());
        self.message.push_str(domain::size::head(&text.text, room));
        reports
    }

    /// Ends the message under way.
    fn finish_message(&mut self) -> Vec<Report> {
        let message = std::mem::take(&mut self.message);
        if message.trim().is_empty() {
            return Vec::new();
        }
        self.kept.say(&message);
        self.answer.clone_from(&message);
        self.acted_last = false;
        vec![Report::Said(format!("{message}\n"))]
    }

    fn turn_ended(&mut self, message: &Value) -> Vec<Report> {
        let mut reports = self.finish_message();
        let told = message["error"]["message"].as_str().unwrap_or_default();
        if self.order.habits.no_turns_left.is_some_and(|mark| told.starts_with(mark)) {
            self.ended = Some(json!({"stopReason": StopReason::MaxTurnRequests}));
            reports.extend(self.leave());
            return reports;
        }
        if message.get("error").is_some() {
            self.failure = Some(failure::of_error(&self.order.name, &message["error"], &self.login));
            reports.extend(self.leave());
            return reports;
        }
        let result = &message["result"];
        let meaning = Meaning {
            counts: self.order.habits.counts,
            new: self.order.session.is_none(),
            before: self.used_before,
            steps: self.calls.seen,
        };
        let models = &result["_meta"]["quota"]["model_usage"];
        reports.extend(models[0]["model"].as_str().map(|model| Report::Model(model.to_owned())));
        reports.extend(self.told.report(&self.order.name, result, meaning));
        self.ended = Some(result.clone());
        reports.extend(self.leave());
        reports
    }

    /// Lets the agent go. What it has not written by then is lost, so its session is closed first where it can be.
    fn leave(&self) -> [Report; 2] {
        let last = match self.session.as_deref().filter(|_| self.closes) {
            Some(session) => {
                Report::Write(request(CLOSE, "session/close", &CloseSessionRequest::new(session.to_owned())))
            }
            None => Report::CloseInput,
        };
        [last, Report::Finished]
    }

    fn end_of(&self, result: &Value) -> AgentEnd {
        let reason = serde_json::from_value::<StopReason>(result["stopReason"].clone());
        match reason {
            Ok(StopReason::EndTurn) => self.judge_answer(result),
            Ok(StopReason::MaxTokens) => AgentEnd::OverBudget(LimitName::Tokens),
            Ok(StopReason::MaxTurnRequests) => AgentEnd::OverBudget(LimitName::Turns),
            Ok(StopReason::Refusal) => AgentEnd::Failed(Failure::Model {
                error: ModelError::Refusal,
                message: "the agent refuses to go on".to_owned(),
            }),
            Ok(StopReason::Cancelled) if self.requests.denied => self.gave_up(),
            Ok(StopReason::Cancelled) => {
                AgentEnd::Failed(Failure::Agent { message: "the turn was cancelled".to_owned() })
            }
            _ => {
                let reason = format!("the turn ended with {}", result["stopReason"]);
                AgentEnd::Failed(Failure::Output { reason })
            }
        }
    }

    /// Judges a turn that ended as it should by what was said in it.
    fn judge_answer(&self, result: &Value) -> AgentEnd {
        let (habits, name) = (&self.order.habits, &self.order.name);
        let answer = self.answer.trim();
        if self.no_turns_left {
            return AgentEnd::OverBudget(LimitName::Turns);
        }
        let is_error = |(begin, end): &(&str, &str)| answer.starts_with(begin) && answer.ends_with(end);
        if self.broken || habits.error_marks.iter().any(is_error) {
            return AgentEnd::Failed(failure::of_message(answer));
        }
        // What was said before a tool was used is no answer of an agent that was stopped there.
        let is_silent = answer.is_empty() || self.acted_last;
        if self.requests.denied && (is_silent || habits.denial == Some(answer)) {
            return self.gave_up();
        }
        let told = |look: ToldAtHome| look(&self.work, self.session.as_deref()?);
        if let Some(failure) = habits.told_at_home.and_then(told) {
            return AgentEnd::Failed(failure);
        }
        let silence = habits.silence.filter(|_| is_silent);
        match (silence, self.calls.seen) {
            (Some(error), true) => {
                let message = format!(
                    "{name} ended its turn after a tool without a word, as it does when its model's service fails"
                );
                AgentEnd::Failed(Failure::Model { error, message })
            }
            (Some(error), false) if result["usage"].is_null() => {
                let message = format!("{name} ended its turn without a word");
                AgentEnd::Failed(Failure::Model { error, message })
            }
            (Some(_), false) | (None, _) if answer.is_empty() => {
                AgentEnd::Failed(Failure::Output { reason: format!("{name} ended its turn without a word") })
            }
            (Some(_) | None, _) => AgentEnd::Done,
        }
    }

    /// The end of an agent that does not go on without what it was denied.
    fn gave_up(&self) -> AgentEnd {
        let message = format!("{} gave up when it was denied a tool", self.order.name);
        AgentEnd::Failed(Failure::Agent { message })
    }

    fn without_turn(&mut self, exit: Exit) -> Failure {
        if let Some(failure) = self.failure.take() {
            return failure;
        }
        if self.order.session.is_some() && self.session.is_none() {
            let reason = format!("{} left and did not continue it", self.order.name);
            return Failure::Session { reason };
        }
        let stderr = self.kept.stderr();
        match (exit, stderr.lines().next()) {
            (Exit::Code(code), Some(line)) if code != 0 && !self.prompted => {
                Failure::Agent { message: crate::kept::message(line) }
            }
            _ => without_end(exit),
        }
    }
}

/// Returns how the agent wants its user to log in.
fn login(methods: &Value) -> String {
    let methods = methods.as_array().into_iter().flatten();
    let words: Vec<&str> = methods
        .filter_map(|method| method["description"].as_str().or_else(|| method["name"].as_str()))
        .take(3)
        .collect();
    if words.is_empty() { String::new() } else { format!(": {}", words.join("; ")) }
}

impl Reader for Conversation {
    fn feed(&mut self, pipe: Pipe, bytes: &[u8]) -> Vec<Report> {
        if self.kept.is_complaint(pipe, bytes) {
            let failure = self.lost.as_mut().and_then(|lost| lost.feed(bytes));
            return failure.map(|failure| self.give_up(failure)).unwrap_or_default();
        }
        let lines = self.lines.feed(bytes);
        let reports = lines.into_iter().flat_map(|line| self.take(line)).collect::<Vec<_>>();
        let news = |report: &Report| match report {
            Report::Warned(text) => self.warned.len() < WARNINGS_MAX && self.warned.insert(text.clone()),
            _ => true,
        };
        reports.into_iter().filter(news).collect()
    }

    fn expect_no_login(&mut self) {
        self.lost.iter_mut().for_each(LostRequests::expect_no_login);
    }

    fn decide(&mut self, ask: &str, decision: &Decision) -> Vec<Report> {
        self.requests.decide(ask, decision)
    }

    fn ask_to_stop(&mut self) -> Vec<Report> {
        self.stopping = true;
        let mut reports = self.requests.give_up();
        match self.session.as_deref().filter(|_| self.prompted && self.ended.is_none()) {
            Some(session) => reports.push(Report::Write(cancel(session))),
            None => reports.push(Report::CloseInput),
        }
        reports
    }

    fn conclude(&mut self, exit: Exit) -> Conclusion {
        if let Some(rest) = self.lines.finish() {
            self.take(Line::Whole(rest));
        }
        self.finish_message();
        let end = match self.ended.take() {
            Some(result) => self.end_of(&result),
            None => AgentEnd::Failed(self.without_turn(exit)),
        };
        let answer = match end {
            AgentEnd::Done => Answer::Text(std::mem::take(&mut self.answer)),
            _ => self.kept.answer(),
        };
        let mut conclusion = Conclusion { session: self.session.take(), ..Conclusion::new(end, answer) };
        if self.order.structured {
            worded_schema::read_value(&mut conclusion);
        }
        conclusion
    }
}
