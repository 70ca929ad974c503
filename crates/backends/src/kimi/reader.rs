//! Parses the JSON lines of Kimi Code. A run succeeds only if its stream ends with the hint how to resume it; the reason of a
//! failure is only on the error stream.

use domain::run::{AgentEnd, Failure, ModelError};
use serde_json::Value;

use super::errors::model_error;
use super::versions::{ERROR_PREFIX, RUN_FAILED_PREFIX, UNKNOWN_SESSION, UNKNOWN_TOOL};
use crate::contract::{AgentAnswer, AgentReport, Conclusion, Exit, NO_SUCH_TOOL};
use crate::json_lines::JsonLinesReader;
use crate::schema_prompt;
use crate::stream_buffer::{self, StreamBuffer};

/// The output of one run.
pub(super) struct KimiStream {
    structured: bool,
    /// The suffix of the session's name.
    session_digest: String,
    buffer: StreamBuffer,
    /// The last message of the agent.
    answer: String,
    /// The session, which is named at the end of the stream.
    session: Option<String>,
    /// A retry was already reported.
    reported_retry: bool,
}

impl KimiStream {
    pub(super) fn new(structured: bool, session_digest: String) -> Self {
        Self {
            structured,
            session_digest,
            buffer: StreamBuffer::default(),
            answer: String::new(),
            session: None,
            reported_retry: false,
        }
    }

    fn on_message(&mut self, event: &Value) -> Vec<AgentReport> {
        let mut reports = Vec::new();
        let content = string_or_empty(&event["content"]);
        if !content.trim().is_empty() {
            self.buffer.push_message(&content);
            reports.push(AgentReport::Text(format!("{content}\n")));
            self.answer = content;
        }
        for call in event["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            let arguments = string_or_empty(&function["arguments"]);
            let input = serde_json::from_str(&arguments).unwrap_or(Value::String(arguments));
            reports.push(AgentReport::ToolCalled {
                id: string_or_empty(&call["id"]),
                name: string_or_empty(&function["name"]),
                input,
            });
        }
        reports
    }

    /// Returns why a run ended without the resume hint.
    fn failure_without_result(&self, exit: Exit) -> Failure {
        let stderr = self.buffer.stderr();
        let message_after = |prefix: &str| {
            stderr.lines().find_map(|line| line.strip_prefix(prefix)).map(stream_buffer::bounded_message)
        };
        let (Exit::Code(1), Some(message)) =
            (exit, message_after(RUN_FAILED_PREFIX).or_else(|| message_after(ERROR_PREFIX)))
        else {
            return stream_buffer::missing_end_failure(exit);
        };
        if message.starts_with(UNKNOWN_SESSION.0) && message.contains(UNKNOWN_SESSION.1) {
            return Failure::Session { reason: message };
        }
        match model_error(&message) {
            Some(error) => Failure::Model { error, message },
            None => Failure::Agent { message },
        }
    }
}

impl JsonLinesReader for KimiStream {
    fn buffer(&mut self) -> &mut StreamBuffer {
        &mut self.buffer
    }

    fn handle_event(&mut self, event: Value) -> Vec<AgentReport> {
        match (event["role"].as_str(), event["type"].as_str()) {
            (Some("assistant"), _) => self.on_message(&event),
            (Some("tool"), _) => {
                let (id, output) =
                    (string_or_empty(&event["tool_call_id"]), string_or_empty(&event["content"]));
                let denied = missing_tool(&output).map(|tool| AgentReport::Denied {
                    call: id.clone(),
                    tool,
                    reason: NO_SUCH_TOOL.to_owned(),
                });
                let ok = event["is_error"] != true && denied.is_none();
                denied.into_iter().chain([AgentReport::ToolReturned { id, ok, output }]).collect()
            }
            (Some("meta"), Some("session.resume_hint")) => {
                let session = event["session_id"].as_str().map(|id| format!("{id}-{}", self.session_digest));
                self.session = session.clone().or(self.session.take());
                session.map(AgentReport::Session).into_iter().collect()
            }
            (Some("meta"), Some("turn.step.retrying")) if !self.reported_retry => {
                self.reported_retry = true;
                let reason = event["error_message"].as_str().unwrap_or("it does not say why");
                let error = model_error(reason).unwrap_or(ModelError::Other);
                let message = stream_buffer::bounded_message(&format!("kimi asks its model again: {reason}"));
                vec![AgentReport::Retrying { error, message }]
            }
            _ => Vec::new(),
        }
    }

    fn finish(&mut self, exit: Exit) -> Conclusion {
        let end = match (&self.session, exit) {
            (Some(_), Exit::Code(0)) => AgentEnd::Done,
            _ => AgentEnd::Failed(self.failure_without_result(exit)),
        };
        let answer = match end {
            AgentEnd::Done => AgentAnswer::Text(std::mem::take(&mut self.answer)),
            _ => self.buffer.take_answer(),
        };
        let mut conclusion = Conclusion { session: self.session.take(), ..Conclusion::new(end, answer) };
        if self.structured {
            schema_prompt::parse_answer(&mut conclusion);
        }
        conclusion
    }
}

/// Returns the name of the missing tool, if the output of a tool call is the error for one.
fn missing_tool(output: &str) -> Option<String> {
    let (before, after) = UNKNOWN_TOOL;
    let name = output.trim().strip_prefix(before)?.strip_suffix(after)?;
    (!name.contains('"')).then(|| stream_buffer::bounded_message(name))
}

fn string_or_empty(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
