//! Interprets the messages of an agent that speaks ACP. Only the response to the prompt ends a run, and only its
//! reason says how.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use agent_client_protocol_schema::v1::{
    AgentCapabilities, CloseSessionRequest, ContentBlock, ContentChunk, PromptRequest, SessionUpdate,
    StopReason,
};
use domain::run::{AgentEnd, Failure, LimitName, ModelError, StdStream as Pipe, Usage};
use serde_json::{Value, json};

use super::failure;
use super::message::{CLOSE, INITIALIZE, NAMING, PROMPT, SESSION, SETTING, cancel, refusal, request};
use super::permission_requests::{AutoAllow, PermissionRequests};
use super::profile::{RecordedFailureFinder, ServerStartup};
use super::session::{SessionOffer, SessionRequest, SessionSetting, SettingPurpose};
use super::tool_calls::{SessionServers, ToolCalls};
use super::usage::{ReportedUsage, UsageMeaning};
use crate::contract::{AgentAnswer, AgentReport, Conclusion, Exit, OutputReader, PermissionDecision};
use crate::line_splitter::{LineSplitter, OutputLine};
use crate::lost_requests::LostRequests;
use crate::schema_prompt;
use crate::stream_buffer::{StreamBuffer, missing_end_failure};

/// The supported version of the protocol.
const VERSION: u64 = 1;
/// The title of a session whose agent would otherwise ask a model for one.
const TITLE: &str = "volery";
/// How many warnings are passed on.
const WARNINGS_MAX: usize = 50;

/// The conversation with the agent of one run.
pub(super) struct AcpConversation {
    request: SessionRequest,
    used_before: Option<Usage>,
    lines: LineSplitter,
    buffer: StreamBuffer,
    calls: ToolCalls,
    requests: PermissionRequests,
    usage: ReportedUsage,
    warned: BTreeSet<String>,
    /// How its user logs in, in the agent's own words.
    login: String,
    session: Option<String>,
    /// What has to be set before the turn; the first of it is under way.
    settings: VecDeque<SessionSetting>,
    /// The system prompt was sent with the session.
    instructed: bool,
    /// A session can be closed, so that nothing of it is unfinished when the agent exits.
    can_close: bool,
    /// The turn has started; earlier updates belong to earlier turns.
    prompted: bool,
    stopping: bool,
    /// The current message, and its id.
    message: String,
    message_id: Option<String>,
    /// The last complete message.
    answer: String,
    /// A tool was used since the last message.
    acted_last: bool,
    /// The run's work folder.
    work: PathBuf,
    /// The agent reports outside its answer that the turn failed.
    broken: bool,
    /// The agent reports in place of an answer that its turns are used up.
    no_turns_left: bool,
    /// For an agent whose log shows failures that its messages do not.
    lost_requests: Option<LostRequests>,
    /// Why there was no turn, or how it ended.
    failure: Option<Failure>,
    ended: Option<Value>,
}

impl AcpConversation {
    pub(super) fn new(
        request: SessionRequest,
        auto_allow: AutoAllow,
        used_before: Option<Usage>,
        servers: SessionServers,
    ) -> Self {
        Self {
            lost_requests: request.profile.lost_request.map(LostRequests::new),
            request,
            used_before,
            lines: LineSplitter::default(),
            buffer: StreamBuffer::default(),
            calls: ToolCalls::new(servers),
            requests: PermissionRequests::new(auto_allow),
            usage: ReportedUsage::default(),
            warned: BTreeSet::new(),
            login: String::new(),
            session: None,
            settings: VecDeque::new(),
            instructed: false,
            can_close: false,
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

    /// Sets the run's work folder. Some agents record only in a home of the run's own that a turn failed.
    pub(super) fn set_work_folder(&mut self, work: &Path) {
        self.work = work.to_owned();
    }

    /// Leaves the servers out of the session request, for an agent that gets them in another way.
    pub(super) fn leave_servers_out(&mut self) {
        self.request.servers.clear();
        self.request.variables.clear();
    }

    fn handle_line(&mut self, line: OutputLine) -> Vec<AgentReport> {
        let message = match line.parse_json() {
            Ok(message) => message,
            Err(reports) => return reports,
        };
        self.lost_requests.iter_mut().for_each(LostRequests::reset);
        match (message["method"].as_str(), message.get("id")) {
            (Some("session/request_permission"), Some(id)) => {
                let mut reports = self.finish_message();
                self.acted_last = true;
                reports.extend(self.requests.handle_request(id, &message["params"], &mut self.calls));
                reports
            }
            (Some(method), Some(id)) => vec![AgentReport::Write(refusal(id, method))],
            (Some("session/update"), None) => self.update(&message["params"]),
            (Some(_), None) => Vec::new(),
            (None, _) => self.handle_response(&message),
        }
    }

    fn handle_response(&mut self, message: &Value) -> Vec<AgentReport> {
        match message["id"].as_u64() {
            Some(CLOSE) => vec![AgentReport::CloseInput],
            _ if self.ended.is_some() || self.failure.is_some() => Vec::new(),
            Some(INITIALIZE) => self.handle_initialize_response(message),
            Some(SESSION) => self.handle_session_response(message),
            Some(SETTING) => self.handle_setting_response(message),
            Some(NAMING) => self.handle_title_response(message),
            Some(PROMPT) if self.prompted => self.turn_ended(message),
            _ => Vec::new(),
        }
    }

    /// Begins or continues the session, if the agent speaks the same version.
    fn handle_initialize_response(&mut self, message: &Value) -> Vec<AgentReport> {
        if message.get("error").is_some() {
            return self.fail(failure::from_error(&self.request.name, &message["error"], ""));
        }
        let result = &message["result"];
        if result["protocolVersion"] != VERSION {
            let reason = format!(
                "{} speaks version {} of ACP, not {VERSION}",
                self.request.name, result["protocolVersion"]
            );
            return self.fail(Failure::Output { reason });
        }
        self.login = login(&result["authMethods"]);
        let can: AgentCapabilities =
            serde_json::from_value(result["agentCapabilities"].clone()).unwrap_or_default();
        match self.request.opening(&can) {
            Ok(opening) => {
                self.instructed = opening.instructed;
                self.can_close = can.session_capabilities.close.is_some();
                let warnings = opening.warnings.iter().map(|text| AgentReport::Warned(text.clone()));
                let mut reports: Vec<AgentReport> =
                    self.server_warning().into_iter().chain(warnings).collect();
                reports.push(self.request.open(SESSION, &opening));
                reports
            }
            Err(failure) => self.fail(failure),
        }
    }

    /// Warns about MCP servers that may be started in addition.
    fn server_warning(&self) -> Option<AgentReport> {
        let name = &self.request.name;
        let text = match self.request.profile.servers {
            ServerStartup::UserSettingsToo => {
                format!("{name} also starts the MCP servers of its own settings, if there are any")
            }
            ServerStartup::Unknown if !self.request.servers.is_empty() => {
                format!("whether {name} starts MCP servers of its own settings is not known")
            }
            ServerStartup::SessionOnly | ServerStartup::Unknown => return None,
        };
        Some(AgentReport::Warned(text))
    }

    /// Applies the settings, if the session is the requested one.
    fn handle_session_response(&mut self, message: &Value) -> Vec<AgentReport> {
        let result = &message["result"];
        let requested = self.request.session.clone();
        // A copy has an id of its own.
        let Some(session) = requested
            .clone()
            .filter(|_| !self.request.fork)
            .filter(|_| result.is_object() || result.is_null() && message.get("error").is_none())
            .or_else(|| result["sessionId"].as_str().map(ToOwned::to_owned))
        else {
            let failure = failure::from_error(&self.request.name, &message["error"], &self.login);
            return self.fail(match (requested, failure) {
                (
                    Some(_),
                    Failure::Agent { message } | Failure::Model { error: ModelError::Unknown, message },
                ) => Failure::Session { reason: message },
                (_, failure) => failure,
            });
        };
        let offer = SessionOffer { session: &session, result };
        let mut reports = vec![AgentReport::Session(session.clone())];
        let mut model = offer.model().map(ToOwned::to_owned);
        if let Some(mode) = self.request.mode {
            match offer.mode(mode) {
                Ok(setting) => self.settings.extend(setting),
                Err(()) => {
                    let message = format!(
                        "{} has no mode {mode:?}, in which it asks before it acts",
                        self.request.name
                    );
                    return self.fail(Failure::Agent { message });
                }
            }
        }
        if let Some(requested) =
            self.request.model.as_deref().filter(|requested| model.as_deref() != Some(*requested))
        {
            match offer.choose_model(requested) {
                Some(setting) => {
                    self.settings.push_back(setting);
                    model = Some(requested.to_owned());
                }
                None => reports
                    .push(AgentReport::Warned(format!("model is not honoured by {}", self.request.name))),
            }
        }
        if let Some(effort) = self.request.effort.as_deref() {
            match offer.choose_effort(effort) {
                Some(setting) => self.settings.push_back(setting),
                None => reports.push(AgentReport::Warned(format!(
                    "effort {effort} is not honoured by {}",
                    self.request.name
                ))),
            }
        }
        if self.request.profile.makes_titles && (self.request.session.is_none() || self.request.fork) {
            let title = json!({"sessionId": session, "title": TITLE});
            reports.push(AgentReport::Write(request(NAMING, "session/set_title", &title)));
        }
        reports.extend(model.map(AgentReport::Model));
        self.session = Some(session);
        reports.extend(self.send_next());
        reports
    }

    /// Handles the response to a setting.
    fn handle_setting_response(&mut self, message: &Value) -> Vec<AgentReport> {
        let Some(setting) = self.settings.pop_front() else { return Vec::new() };
        let mut reports = Vec::new();
        if message.get("error").is_some() {
            let name = &self.request.name;
            let reason = failure::error_text(&message["error"]);
            match setting.purpose {
                SettingPurpose::Mode => {
                    let message = format!("{name} cannot be put in the mode in which it asks: {reason}");
                    return self.fail(Failure::Agent { message });
                }
                SettingPurpose::Model => reports
                    .push(AgentReport::Warned(format!("the model is not honoured by {name}: {reason}"))),
                SettingPurpose::Effort => reports
                    .push(AgentReport::Warned(format!("the effort is not honoured by {name}: {reason}"))),
            }
        }
        reports.extend(self.send_next());
        reports
    }

    /// Handles the response to a title, for which nothing waits.
    fn handle_title_response(&self, message: &Value) -> Vec<AgentReport> {
        let Some(reason) = message.get("error").map(|error| error["message"].as_str().unwrap_or("no reason"))
        else {
            return Vec::new();
        };
        let name = &self.request.name;
        vec![AgentReport::Warned(format!(
            "{name} makes a title of its own, for which it may start the MCP servers of its settings: {reason}"
        ))]
    }

    /// Sends the next setting, or the prompt.
    fn send_next(&mut self) -> Vec<AgentReport> {
        let Some(session) = self.session.clone().filter(|_| !self.stopping) else { return Vec::new() };
        if let Some(next) = self.settings.front() {
            return vec![AgentReport::Write(request(SETTING, next.method, &next.params))];
        }
        self.prompted = true;
        let text = if self.instructed { &self.request.prompt } else { &self.request.combined };
        let prompt = PromptRequest::new(session, vec![ContentBlock::from(text.as_str())]);
        vec![AgentReport::Write(request(PROMPT, "session/prompt", &prompt))]
    }

    fn fail(&mut self, failure: Failure) -> Vec<AgentReport> {
        self.failure = Some(failure);
        vec![AgentReport::CloseInput, AgentReport::Finished]
    }

    fn update(&mut self, params: &Value) -> Vec<AgentReport> {
        let own = params["sessionId"].as_str() == self.session.as_deref();
        if !self.prompted || !own || self.ended.is_some() {
            return Vec::new();
        }
        let update = &params["update"];
        self.usage.add_chunk(&update["_meta"]);
        self.broken |= update["_meta"]["codex"]["threadStatus"]["type"] == "systemError";
        // Updates of unknown kinds are skipped.
        let Ok(update) = serde_json::from_value::<SessionUpdate>(update.clone()) else { return Vec::new() };
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => self.handle_chunk(chunk),
            SessionUpdate::ToolCall(call) => {
                let mut reports = self.finish_message();
                self.acted_last = true;
                reports.extend(self.calls.handle_update(call.into()));
                reports
            }
            SessionUpdate::ToolCallUpdate(call) => {
                let mut reports = self.finish_message();
                reports.extend(self.calls.handle_update(call));
                reports
            }
            SessionUpdate::UsageUpdate(usage) => {
                if let Some(cost) = usage.cost {
                    self.usage.cost(cost.amount, &cost.currency);
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Handles a chunk of a message.
    fn handle_chunk(&mut self, chunk: ContentChunk) -> Vec<AgentReport> {
        let ContentBlock::Text(text) = chunk.content else { return Vec::new() };
        let profile = &self.request.profile;
        if profile.side_notes.contains(&text.text.trim()) {
            return vec![AgentReport::Warned(text.text)];
        }
        if profile.no_turns_left.is_some_and(|mark| text.text.starts_with(mark)) {
            self.no_turns_left = true;
            return self.finish_message();
        }
        let trimmed = text.text.trim_end();
        let is_error = |(begin, end): &(&str, &str)| trimmed.starts_with(begin) && trimmed.ends_with(end);
        let begins = profile.error_marks.iter().any(is_error);
        let id = chunk.message_id.map(|id| id.0.to_string());
        let reports = if id == self.message_id && !begins { Vec::new() } else { self.finish_message() };
        self.message_id = id;
        self.buffer.push_chunk(&text.text);
        let room = crate::line_splitter::LINE_BYTES_MAX.saturating_sub(self.message.len());
        self.message.push_str(domain::size::head(&text.text, room));
        reports
    }

    /// Completes the current message.
    fn finish_message(&mut self) -> Vec<AgentReport> {
        let message = std::mem::take(&mut self.message);
        if message.trim().is_empty() {
            return Vec::new();
        }
        self.buffer.push_message(&message);
        self.answer.clone_from(&message);
        self.acted_last = false;
        vec![AgentReport::Text(format!("{message}\n"))]
    }

    fn turn_ended(&mut self, message: &Value) -> Vec<AgentReport> {
        let mut reports = self.finish_message();
        let error_text = message["error"]["message"].as_str().unwrap_or_default();
        if self.request.profile.no_turns_left.is_some_and(|mark| error_text.starts_with(mark)) {
            self.ended = Some(json!({"stopReason": StopReason::MaxTurnRequests}));
            reports.extend(self.close());
            return reports;
        }
        if message.get("error").is_some() {
            self.failure = Some(failure::from_error(&self.request.name, &message["error"], &self.login));
            reports.extend(self.close());
            return reports;
        }
        let result = &message["result"];
        let meaning = UsageMeaning {
            token_counting: self.request.profile.token_counting,
            new: self.request.session.is_none(),
            before: self.used_before,
            steps: self.calls.any_reported,
        };
        let models = &result["_meta"]["quota"]["model_usage"];
        reports.extend(models[0]["model"].as_str().map(|model| AgentReport::Model(model.to_owned())));
        reports.extend(self.usage.report(&self.request.name, result, meaning));
        self.ended = Some(result.clone());
        reports.extend(self.close());
        reports
    }

    /// Lets the agent exit. Unsaved state is lost then, so its session is closed first if possible.
    fn close(&self) -> [AgentReport; 2] {
        let last = match self.session.as_deref().filter(|_| self.can_close) {
            Some(session) => AgentReport::Write(request(
                CLOSE,
                "session/close",
                &CloseSessionRequest::new(session.to_owned()),
            )),
            None => AgentReport::CloseInput,
        };
        [last, AgentReport::Finished]
    }

    fn turn_end(&self, result: &Value) -> AgentEnd {
        let reason = serde_json::from_value::<StopReason>(result["stopReason"].clone());
        match reason {
            Ok(StopReason::EndTurn) => self.judge_answer(result),
            Ok(StopReason::MaxTokens) => AgentEnd::OverBudget(LimitName::Tokens),
            Ok(StopReason::MaxTurnRequests) => AgentEnd::OverBudget(LimitName::Turns),
            Ok(StopReason::Refusal) => AgentEnd::Failed(Failure::Model {
                error: ModelError::Refusal,
                message: "the agent refuses to go on".to_owned(),
            }),
            Ok(StopReason::Cancelled) if self.requests.denied => self.denied_end(),
            Ok(StopReason::Cancelled) => {
                AgentEnd::Failed(Failure::Agent { message: "the turn was cancelled".to_owned() })
            }
            _ => {
                let reason = format!("the turn ended with {}", result["stopReason"]);
                AgentEnd::Failed(Failure::Output { reason })
            }
        }
    }

    /// Judges a turn that ended as it should by its answer.
    fn judge_answer(&self, result: &Value) -> AgentEnd {
        let (profile, name) = (&self.request.profile, &self.request.name);
        let answer = self.answer.trim();
        if self.no_turns_left {
            return AgentEnd::OverBudget(LimitName::Turns);
        }
        let is_error = |(begin, end): &(&str, &str)| answer.starts_with(begin) && answer.ends_with(end);
        if self.broken || profile.error_marks.iter().any(is_error) {
            return AgentEnd::Failed(failure::from_message(answer));
        }
        // Text from before a tool call is not the answer of an agent that stopped there.
        let is_silent = answer.is_empty() || self.acted_last;
        if self.requests.denied && (is_silent || profile.denial_text == Some(answer)) {
            return self.denied_end();
        }
        let find_failure = |find: RecordedFailureFinder| find(&self.work, self.session.as_deref()?);
        if let Some(failure) = profile.find_recorded_failure.and_then(find_failure) {
            return AgentEnd::Failed(failure);
        }
        let silence = profile.silence_error.filter(|_| is_silent);
        match (silence, self.calls.any_reported) {
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

    /// The end of an agent that gives up after a denial.
    fn denied_end(&self) -> AgentEnd {
        let message = format!("{} gave up when it was denied a tool", self.request.name);
        AgentEnd::Failed(Failure::Agent { message })
    }

    fn without_turn(&mut self, exit: Exit) -> Failure {
        if let Some(failure) = self.failure.take() {
            return failure;
        }
        if self.request.session.is_some() && self.session.is_none() {
            let reason = format!("{} left and did not continue it", self.request.name);
            return Failure::Session { reason };
        }
        let stderr = self.buffer.stderr();
        match (exit, stderr.lines().next()) {
            (Exit::Code(code), Some(line)) if code != 0 && !self.prompted => {
                Failure::Agent { message: crate::stream_buffer::bounded_message(line) }
            }
            _ => missing_end_failure(exit),
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

impl OutputReader for AcpConversation {
    fn feed(&mut self, pipe: Pipe, bytes: &[u8]) -> Vec<AgentReport> {
        if self.buffer.take_stderr(pipe, bytes) {
            let failure = self.lost_requests.as_mut().and_then(|lost_requests| lost_requests.feed(bytes));
            return failure.map(|failure| self.fail(failure)).unwrap_or_default();
        }
        let lines = self.lines.feed(bytes);
        let reports = lines.into_iter().flat_map(|line| self.handle_line(line)).collect::<Vec<_>>();
        let is_new = |report: &AgentReport| match report {
            AgentReport::Warned(text) => self.warned.len() < WARNINGS_MAX && self.warned.insert(text.clone()),
            _ => true,
        };
        reports.into_iter().filter(is_new).collect()
    }

    fn expect_no_login(&mut self) {
        self.lost_requests.iter_mut().for_each(LostRequests::expect_no_login);
    }

    fn decide(&mut self, ask: &str, decision: &PermissionDecision) -> Vec<AgentReport> {
        self.requests.decide(ask, decision)
    }

    fn ask_to_stop(&mut self) -> Vec<AgentReport> {
        self.stopping = true;
        let mut reports = self.requests.give_up();
        match self.session.as_deref().filter(|_| self.prompted && self.ended.is_none()) {
            Some(session) => reports.push(AgentReport::Write(cancel(session))),
            None => reports.push(AgentReport::CloseInput),
        }
        reports
    }

    fn conclude(&mut self, exit: Exit) -> Conclusion {
        if let Some(rest) = self.lines.finish() {
            self.handle_line(OutputLine::Whole(rest));
        }
        self.finish_message();
        let end = match self.ended.take() {
            Some(result) => self.turn_end(&result),
            None => AgentEnd::Failed(self.without_turn(exit)),
        };
        let answer = match end {
            AgentEnd::Done => AgentAnswer::Text(std::mem::take(&mut self.answer)),
            _ => self.buffer.take_answer(),
        };
        let mut conclusion = Conclusion { session: self.session.take(), ..Conclusion::new(end, answer) };
        if self.request.structured {
            schema_prompt::parse_answer(&mut conclusion);
        }
        conclusion
    }
}
