//! Understands the stream of Copilot. Its `result` says only that it came to an end: a run that was stopped has the
//! exit code 0 there, so errors and the word `abort` before it count more.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use domain::run::{AgentEnd, Failure, ModelError, Usage};
use serde_json::Value;

use super::versions::{NOT_LOGGED_IN, UNKNOWN_SESSION};
use crate::contract::Answer;
use crate::contract::{Conclusion, Exit, Report};
use crate::cumulative;
use crate::json_lines::Events;
use crate::kept::{self, Kept};
use crate::plain_file;
use crate::worded_schema;

/// How many uses of tools may be under way at once.
const CALLS_MAX: usize = 1_000;
/// The most of the file about usage that is read.
const USAGE_BYTES_MAX: u64 = 1 << 20;

/// How many models are told apart.
const MODELS_MAX: usize = 16;

/// What the run asked for.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) structured: bool,
    pub(super) session: String,
    /// What the session had used before, if that is known.
    pub(super) used_before: Option<Usage>,
    pub(super) own_servers: Vec<String>,
    pub(super) usage_file: PathBuf,
}

/// The stream of one run.
pub(super) struct Stream {
    expected: Expected,
    kept: Kept,
    begun: bool,
    /// The last message that was no part of the work.
    answer: String,
    /// The names of tools in use.
    calls: BTreeMap<String, String>,
    /// What the last call of the model failed of.
    call_failure: Option<Value>,
    error: Option<Value>,
    aborted: bool,
    result: Option<Value>,
}

impl Stream {
    pub(super) fn new(expected: Expected) -> Self {
        Self {
            expected,
            kept: Kept::default(),
            begun: false,
            answer: String::new(),
            calls: BTreeMap::new(),
            call_failure: None,
            error: None,
            aborted: false,
            result: None,
        }
    }

    fn servers(&self, data: &Value) -> Vec<Report> {
        let mut reports = Vec::new();
        for server in data["servers"].as_array().into_iter().flatten() {
            let (name, status) = (text(&server["name"]), text(&server["status"]));
            let own = self.expected.own_servers.iter().any(|own| own == name);
            if own && !matches!(status, "connected" | "pending") {
                let error = text(&server["error"]);
                reports.push(Report::Warned(format!("the MCP server {name} is not there: {status} {error}")));
            }
            if !own && status == "connected" {
                let warning = format!(
                    "the MCP server {name} of copilot's own settings was started; the agent does not see its tools"
                );
                reports.push(Report::Warned(warning));
            }
        }
        reports
    }

    fn message(&mut self, data: &Value) -> Vec<Report> {
        self.error = None;
        let mut reports = Vec::new();
        reports.extend(data["model"].as_str().map(|model| Report::Model(model.to_owned())));
        let said = text(&data["content"]);
        self.kept.begin();
        if !said.is_empty() {
            self.kept.say(said);
            reports.push(Report::Said(format!("{said}\n")));
        }
        let works = data["toolRequests"].as_array().is_some_and(|requests| !requests.is_empty());
        self.answer = if works { String::new() } else { said.to_owned() };
        reports
    }

    fn called(&mut self, data: &Value) -> Vec<Report> {
        let id = text(&data["toolCallId"]).to_owned();
        let name = match (data["mcpServerName"].as_str(), data["mcpToolName"].as_str()) {
            (Some(server), Some(tool)) => format!("mcp__{server}__{tool}"),
            _ => text(&data["toolName"]).to_owned(),
        };
        if self.calls.len() < CALLS_MAX {
            self.calls.insert(id.clone(), name.clone());
        }
        vec![Report::ToolCalled { id, name, input: data["arguments"].clone() }]
    }

    fn returned(&mut self, data: &Value) -> Vec<Report> {
        let id = text(&data["toolCallId"]).to_owned();
        let name = self.calls.remove(&id).unwrap_or_default();
        let ok = data["success"] == true;
        let output = if ok { text(&data["result"]["content"]) } else { text(&data["error"]["message"]) };
        let mut reports = vec![Report::ToolReturned { id: id.clone(), ok, output: output.to_owned() }];
        if data["error"]["code"] == "denied" {
            reports.push(Report::Denied { call: id, tool: name, reason: output.to_owned() });
        }
        reports
    }

    fn end(&self, event: &Value) -> AgentEnd {
        if let Some(error) = &self.error {
            return AgentEnd::Failed(self.failure(error));
        }
        if self.aborted {
            return AgentEnd::Failed(Failure::Agent { message: "it was stopped".to_owned() });
        }
        match event["exitCode"].as_i64() {
            Some(0) => AgentEnd::Done,
            Some(code) => AgentEnd::Failed(Failure::Exit { code: i32::try_from(code).unwrap_or(1) }),
            None => AgentEnd::Failed(Failure::Output { reason: "the result has no exit code".to_owned() }),
        }
    }

    fn failure(&self, error: &Value) -> Failure {
        let message = kept::message(text(&error["message"]));
        let call = self.call_failure.as_ref();
        let of_call = call.and_then(|call| call["statusCode"].as_u64());
        let status = error["statusCode"].as_u64().or(of_call);
        let unreachable = call.is_some_and(|call| call["failureKind"] == "transport");
        let error = match (text(&error["errorType"]), status) {
            ("authentication" | "authorization", _) => ModelError::Denied,
            ("rate_limit" | "quota", _) => ModelError::RateLimit,
            ("context_limit", _) => ModelError::TooLong,
            (_, Some(status)) => ModelError::of_status(status),
            _ if unreachable => ModelError::Unreachable,
            ("query", None) => ModelError::Other,
            _ => return Failure::Agent { message },
        };
        Failure::Model { error, message }
    }

    /// Returns what the program left in its file about usage.
    fn usage(&self) -> Vec<Report> {
        let Some(models) = read_usage(&self.expected.usage_file) else { return Vec::new() };
        if self.expected.used_before == Some(Usage::default()) {
            let by_model = |(model, usage)| Report::UsedBy { model, usage };
            return models.into_iter().map(by_model).collect();
        }
        // Which model used how much of what was used before is not on record.
        let mut sum = Usage::default();
        models.into_iter().for_each(|(_, usage)| sum.add(usage));
        vec![cumulative::own_part("copilot", sum, self.expected.used_before)]
    }

    fn without_result(&self, exit: Exit) -> Failure {
        let stderr = self.kept.stderr();
        match exit {
            _ if stderr.contains(UNKNOWN_SESSION) => Failure::Session { reason: kept::message(&stderr) },
            _ if stderr.contains(NOT_LOGGED_IN) => {
                Failure::Model { error: ModelError::Denied, message: kept::message(&stderr) }
            }
            Exit::Signal(signal) => Failure::Signal { signal },
            Exit::Code(0) => {
                Failure::Output { reason: "the stream ended without its terminal event".to_owned() }
            }
            Exit::Code(code) => Failure::Exit { code },
        }
    }
}

impl Events for Stream {
    fn keeps(&mut self) -> &mut Kept {
        &mut self.kept
    }

    fn take(&mut self, event: Value) -> Vec<Report> {
        let Some(kind) = event["type"].as_str() else { return Vec::new() };
        let mut reports = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            reports.push(Report::Session(self.expected.session.clone()));
        }
        let data = &event["data"];
        // What a sub-agent of its own says is no part of the answer.
        let own = data["parentToolCallId"].is_null() && event["agentId"].is_null();
        match kind {
            "session.mcp_servers_loaded" => reports.extend(self.servers(data)),
            "assistant.message_start" if own => self.kept.begin(),
            "assistant.message_delta" if own => self.kept.piece(text(&data["deltaContent"])),
            "assistant.message" if own => reports.extend(self.message(data)),
            "tool.execution_start" => reports.extend(self.called(data)),
            "tool.execution_complete" => reports.extend(self.returned(data)),
            "model.call_failure" => self.call_failure = Some(data.clone()),
            "session.error" => self.error = Some(data.clone()),
            "abort" => self.aborted = true,
            "assistant.idle" if data["aborted"] == true => self.aborted = true,
            "result" => self.result = Some(event),
            _ => {}
        }
        reports
    }

    fn concluded(&mut self, exit: Exit) -> Conclusion {
        let mut conclusion = match self.result.take() {
            Some(event) => {
                let end = self.end(&event);
                let answer = match end {
                    AgentEnd::Done => Answer::Text(std::mem::take(&mut self.answer)),
                    _ => self.kept.answer(),
                };
                Conclusion {
                    session: event["sessionId"].as_str().map(ToOwned::to_owned),
                    ..Conclusion::new(end, answer)
                }
            }
            None => Conclusion::new(AgentEnd::Failed(self.without_result(exit)), self.kept.answer()),
        };
        if self.expected.structured {
            worded_schema::read_value(&mut conclusion);
        }
        conclusion.reports = self.usage();
        conclusion
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns what each model used.
fn read_usage(path: &Path) -> Option<Vec<(String, Usage)>> {
    let content = plain_file::text(path, USAGE_BYTES_MAX).ok()?;
    let told: Value = serde_json::from_str(&content).ok()?;
    let models = told["modelMetrics"].as_object()?.iter().map(|(name, model)| {
        let count = |key: &str| model["usage"][key].as_u64().unwrap_or(0);
        let usage = Usage {
            input_tokens: count("inputTokens"),
            output_tokens: count("outputTokens"),
            cache_read_tokens: count("cacheReadTokens"),
            cache_write_tokens: count("cacheWriteTokens"),
            ..Usage::default()
        };
        (name.clone(), usage)
    });
    let used: Vec<_> = models.filter(|(_, usage)| !usage.is_nothing()).take(MODELS_MAX).collect();
    (!used.is_empty()).then_some(used)
}
