//! Parses the stream of Copilot. Its `result` only shows that the run ended: a stopped run has the exit code 0 there, so earlier
//! errors and the event `abort` take precedence.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use domain::run::{AgentEnd, Failure, ModelError, Usage};
use serde_json::Value;

use super::versions::{NOT_LOGGED_IN, UNKNOWN_SESSION};
use crate::contract::AgentAnswer;
use crate::contract::{AgentReport, Conclusion, Exit};
use crate::json_lines::JsonLinesReader;
use crate::schema_prompt;
use crate::session_usage;
use crate::stream_buffer::{self, StreamBuffer};
use system_files::regular_file;

/// The most concurrent tool calls.
const CALLS_MAX: usize = 1_000;
/// The most of the usage file that is read.
const USAGE_BYTES_MAX: u64 = 1 << 20;

/// The most models whose usage is reported separately.
const MODELS_MAX: usize = 16;

/// What the stream must know about the run.
#[derive(Debug)]
pub(super) struct CopilotStreamOptions {
    pub(super) structured: bool,
    pub(super) session: String,
    /// Usage of the session before this run, if it is known.
    pub(super) used_before: Option<Usage>,
    pub(super) own_servers: Vec<String>,
    pub(super) usage_file: PathBuf,
}

/// The stream of one run.
pub(super) struct CopilotStream {
    options: CopilotStreamOptions,
    buffer: StreamBuffer,
    begun: bool,
    /// The last message without tool calls.
    answer: String,
    /// The names of running tools, by the id of the call.
    running_tools: BTreeMap<String, String>,
    /// The error of the last request to the model.
    call_failure: Option<Value>,
    error: Option<Value>,
    aborted: bool,
    result: Option<Value>,
}

impl CopilotStream {
    pub(super) fn new(options: CopilotStreamOptions) -> Self {
        Self {
            options,
            buffer: StreamBuffer::default(),
            begun: false,
            answer: String::new(),
            running_tools: BTreeMap::new(),
            call_failure: None,
            error: None,
            aborted: false,
            result: None,
        }
    }

    fn on_mcp_servers(&self, data: &Value) -> Vec<AgentReport> {
        let mut reports = Vec::new();
        for server in data["servers"].as_array().into_iter().flatten() {
            let (name, status) = (str_or_empty(&server["name"]), str_or_empty(&server["status"]));
            let is_own = self.options.own_servers.iter().any(|is_own| is_own == name);
            if is_own && !matches!(status, "connected" | "pending") {
                let error = str_or_empty(&server["error"]);
                reports.push(AgentReport::Warned(format!(
                    "the MCP server {name} is not there: {status} {error}"
                )));
            }
            if !is_own && status == "connected" {
                let warning = format!(
                    "the MCP server {name} of copilot's own settings was started; the agent does not see its tools"
                );
                reports.push(AgentReport::Warned(warning));
            }
        }
        reports
    }

    fn on_message(&mut self, data: &Value) -> Vec<AgentReport> {
        self.error = None;
        let mut reports = Vec::new();
        reports.extend(data["model"].as_str().map(|model| AgentReport::Model(model.to_owned())));
        let content = str_or_empty(&data["content"]);
        self.buffer.discard_chunks();
        if !content.is_empty() {
            self.buffer.push_message(content);
            reports.push(AgentReport::Text(format!("{content}\n")));
        }
        let calls_tools = data["toolRequests"].as_array().is_some_and(|requests| !requests.is_empty());
        self.answer = if calls_tools { String::new() } else { content.to_owned() };
        reports
    }

    fn on_tool_call(&mut self, data: &Value) -> Vec<AgentReport> {
        let id = str_or_empty(&data["toolCallId"]).to_owned();
        let name = match (data["mcpServerName"].as_str(), data["mcpToolName"].as_str()) {
            (Some(server), Some(tool)) => format!("mcp__{server}__{tool}"),
            _ => str_or_empty(&data["toolName"]).to_owned(),
        };
        if self.running_tools.len() < CALLS_MAX {
            self.running_tools.insert(id.clone(), name.clone());
        }
        vec![AgentReport::ToolCalled { id, name, input: data["arguments"].clone() }]
    }

    fn on_tool_result(&mut self, data: &Value) -> Vec<AgentReport> {
        let id = str_or_empty(&data["toolCallId"]).to_owned();
        let name = self.running_tools.remove(&id).unwrap_or_default();
        let ok = data["success"] == true;
        let output = if ok {
            str_or_empty(&data["result"]["content"])
        } else {
            str_or_empty(&data["error"]["message"])
        };
        let mut reports = vec![AgentReport::ToolReturned { id: id.clone(), ok, output: output.to_owned() }];
        if data["error"]["code"] == "denied" {
            reports.push(AgentReport::Denied { call: id, tool: name, reason: output.to_owned() });
        }
        reports
    }

    fn agent_end(&self, event: &Value) -> AgentEnd {
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
        let message = stream_buffer::bounded_message(str_or_empty(&error["message"]));
        let call_failure = self.call_failure.as_ref();
        let call_status = call_failure.and_then(|call_failure| call_failure["statusCode"].as_u64());
        let status = error["statusCode"].as_u64().or(call_status);
        let unreachable = call_failure.is_some_and(|call_failure| call_failure["failureKind"] == "transport");
        let error = match (str_or_empty(&error["errorType"]), status) {
            ("authentication" | "authorization", _) => ModelError::Denied,
            ("rate_limit" | "quota", _) => ModelError::RateLimit,
            ("context_limit", _) => ModelError::TooLong,
            (_, Some(status)) => ModelError::from_http_status(status),
            _ if unreachable => ModelError::Unreachable,
            ("query", None) => ModelError::Other,
            _ => return Failure::Agent { message },
        };
        Failure::Model { error, message }
    }

    /// Returns the usage that Copilot wrote into its usage file.
    fn usage_reports(&self) -> Vec<AgentReport> {
        let Some(models) = read_usage(&self.options.usage_file) else { return Vec::new() };
        if self.options.used_before == Some(Usage::default()) {
            let by_model = |(model, usage)| AgentReport::UsedBy { model, usage };
            return models.into_iter().map(by_model).collect();
        }
        // The usage before this run is not recorded by model.
        let mut sum = Usage::default();
        models.into_iter().for_each(|(_, usage)| sum.add(usage));
        vec![session_usage::report_run_usage("copilot", sum, self.options.used_before)]
    }

    fn failure_without_result(&self, exit: Exit) -> Failure {
        let stderr = self.buffer.stderr();
        match exit {
            _ if stderr.contains(UNKNOWN_SESSION) => {
                Failure::Session { reason: stream_buffer::bounded_message(&stderr) }
            }
            _ if stderr.contains(NOT_LOGGED_IN) => {
                Failure::Model { error: ModelError::Denied, message: stream_buffer::bounded_message(&stderr) }
            }
            Exit::Signal(signal) => Failure::Signal { signal },
            Exit::Code(0) => {
                Failure::Output { reason: "the stream ended without its terminal event".to_owned() }
            }
            Exit::Code(code) => Failure::Exit { code },
        }
    }
}

impl JsonLinesReader for CopilotStream {
    fn buffer(&mut self) -> &mut StreamBuffer {
        &mut self.buffer
    }

    fn handle_event(&mut self, event: Value) -> Vec<AgentReport> {
        let Some(kind) = event["type"].as_str() else { return Vec::new() };
        let mut reports = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            reports.push(AgentReport::Session(self.options.session.clone()));
        }
        let data = &event["data"];
        // Messages of Copilot's own sub-agents are not part of the answer.
        let is_main_agent = data["parentToolCallId"].is_null() && event["agentId"].is_null();
        match kind {
            "session.mcp_servers_loaded" => reports.extend(self.on_mcp_servers(data)),
            "assistant.message_start" if is_main_agent => self.buffer.discard_chunks(),
            "assistant.message_delta" if is_main_agent => {
                self.buffer.push_chunk(str_or_empty(&data["deltaContent"]))
            }
            "assistant.message" if is_main_agent => reports.extend(self.on_message(data)),
            "tool.execution_start" => reports.extend(self.on_tool_call(data)),
            "tool.execution_complete" => reports.extend(self.on_tool_result(data)),
            "model.call_failure" => self.call_failure = Some(data.clone()),
            "session.error" => self.error = Some(data.clone()),
            "abort" => self.aborted = true,
            "assistant.idle" if data["aborted"] == true => self.aborted = true,
            "result" => self.result = Some(event),
            _ => {}
        }
        reports
    }

    fn finish(&mut self, exit: Exit) -> Conclusion {
        let mut conclusion = match self.result.take() {
            Some(event) => {
                let end = self.agent_end(&event);
                let answer = match end {
                    AgentEnd::Done => AgentAnswer::Text(std::mem::take(&mut self.answer)),
                    _ => self.buffer.take_answer(),
                };
                Conclusion {
                    session: event["sessionId"].as_str().map(ToOwned::to_owned),
                    ..Conclusion::new(end, answer)
                }
            }
            None => Conclusion::new(
                AgentEnd::Failed(self.failure_without_result(exit)),
                self.buffer.take_answer(),
            ),
        };
        if self.options.structured {
            schema_prompt::parse_answer(&mut conclusion);
        }
        conclusion.reports = self.usage_reports();
        conclusion
    }
}

fn str_or_empty(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the usage of each model.
fn read_usage(path: &Path) -> Option<Vec<(String, Usage)>> {
    let content = regular_file::read_text(path, USAGE_BYTES_MAX).ok()?;
    let metrics: Value = serde_json::from_str(&content).ok()?;
    let models = metrics["modelMetrics"].as_object()?.iter().map(|(name, model)| {
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
    let used: Vec<_> = models.filter(|(_, usage)| !usage.has_no_tokens()).take(MODELS_MAX).collect();
    (!used.is_empty()).then_some(used)
}
