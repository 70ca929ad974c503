//! Parses the stream of opencode. It has no terminal event: a run succeeds if its last step ended by itself and the program exited
//! with 0.

use domain::run::{AgentEnd, Cost, Failure, Usage};
use serde_json::Value;

use super::errors::failure;
use super::versions::{
    DELEGATION_TOOL, DENIED_MESSAGES, INVALID_TOOL, LOG_LINE, OTHER_AGENT, UNKNOWN_SESSION,
    parse_lost_request,
};
use crate::contract::{AgentAnswer, AgentReport, Conclusion, Exit};
use crate::json_lines::JsonLinesReader;
use crate::line_splitter::{LineSplitter, OutputLine};
use crate::lost_requests::LostRequests;
use crate::schema_prompt;
use crate::stream_buffer::{self, ChunkedMessage, StreamBuffer};

/// The stream of one run.
pub(super) struct OpencodeStream {
    structured: bool,
    buffer: StreamBuffer,
    session: Option<String>,
    /// The text of the current or last step.
    step_text: ChunkedMessage,
    /// How the last step ended; `None` during a step.
    step_reason: Option<String>,
    error: Option<Value>,
    /// The unfinished line of the error stream.
    stderr_lines: LineSplitter,
    lost_requests: LostRequests,
    /// Set if the service cannot be reached.
    lost_failure: Option<Failure>,
    /// The agent called another agent of opencode.
    has_delegated: bool,
}

impl OpencodeStream {
    pub(super) fn new(structured: bool) -> Self {
        Self {
            structured,
            buffer: StreamBuffer::default(),
            session: None,
            step_text: ChunkedMessage::default(),
            step_reason: None,
            error: None,
            stderr_lines: LineSplitter::default(),
            lost_requests: LostRequests::new(parse_lost_request),
            lost_failure: None,
            has_delegated: false,
        }
    }

    /// Buffers a line that does not belong to the log.
    fn buffer_stderr_line(&mut self, line: &[u8]) {
        if !line.starts_with(LOG_LINE.as_bytes()) {
            self.buffer.push_stderr(line);
            self.buffer.push_stderr(b"\n");
        }
    }

    fn agent_end(&self, exit: Exit) -> AgentEnd {
        if let Some(failure) = &self.lost_failure {
            return AgentEnd::Failed(failure.clone());
        }
        let stderr = self.buffer.stderr();
        let failure = match (exit, self.step_reason.as_deref()) {
            _ if stderr.contains(UNKNOWN_SESSION) => {
                Failure::Session { reason: stream_buffer::bounded_message(&stderr) }
            }
            _ if stderr.contains(OTHER_AGENT) => {
                Failure::Agent { message: stream_buffer::bounded_message(&stderr) }
            }
            _ if self.error.is_some() => failure(self.error.as_ref().unwrap_or(&Value::Null)),
            (Exit::Signal(signal), _) => Failure::Signal { signal },
            (Exit::Code(0), Some("stop")) => return AgentEnd::Done,
            (Exit::Code(0), Some("tool-calls")) => Failure::Agent {
                message: "it stopped after a tool was refused, without an answer".to_owned(),
            },
            (Exit::Code(0), Some("length")) => {
                Failure::Output { reason: "the model had no tokens left for its answer".to_owned() }
            }
            (Exit::Code(0), Some(other)) => {
                Failure::Output { reason: format!("the last step ended as {other}") }
            }
            (Exit::Code(0), None) => {
                Failure::Output { reason: "the stream ended without the end of a step".to_owned() }
            }
            (Exit::Code(code), _) => Failure::Exit { code },
        };
        AgentEnd::Failed(failure)
    }
}

impl JsonLinesReader for OpencodeStream {
    fn buffer(&mut self) -> &mut StreamBuffer {
        &mut self.buffer
    }

    fn handle_event(&mut self, event: Value) -> Vec<AgentReport> {
        let mut reports = Vec::new();
        self.lost_requests.reset();
        if self.session.is_none() {
            self.session = event["sessionID"].as_str().map(ToOwned::to_owned);
            reports.extend(self.session.clone().map(AgentReport::Session));
        }
        let part = &event["part"];
        match event["type"].as_str() {
            Some("step_start") => {
                self.step_text.take();
                self.step_reason = None;
                self.error = None;
            }
            Some("text") => {
                let content = str_or_empty(&part["text"]);
                if !content.is_empty() {
                    self.buffer.push_message(content);
                    reports.extend(self.step_text.push(content));
                    reports.push(AgentReport::Text(format!("{content}\n")));
                }
            }
            Some("tool_use") => {
                reports.extend(tool_reports(part));
                if part["tool"] == DELEGATION_TOOL && !std::mem::replace(&mut self.has_delegated, true) {
                    let warning = "what other agents of opencode used is not counted: it does not tell";
                    reports.push(AgentReport::Warned(warning.to_owned()));
                }
            }
            Some("step_finish") => {
                self.step_reason = Some(str_or_empty(&part["reason"]).to_owned());
                reports.extend(parse_usage(part).map(AgentReport::Used));
            }
            Some("error") => self.error = Some(event["error"].clone()),
            _ => {}
        }
        reports
    }

    fn handle_stderr(&mut self, bytes: &[u8]) -> Vec<AgentReport> {
        for line in self.stderr_lines.feed(bytes) {
            if let OutputLine::Whole(line) = line {
                self.buffer_stderr_line(&line);
            }
        }
        let Some(failure) = self.lost_requests.feed(bytes) else { return Vec::new() };
        self.lost_failure = Some(failure);
        vec![AgentReport::Finished]
    }

    fn handle_missing_login(&mut self) {
        self.lost_requests.expect_no_login();
    }

    fn finish(&mut self, exit: Exit) -> Conclusion {
        if let Some(rest) = self.stderr_lines.finish() {
            self.buffer_stderr_line(&rest);
        }
        let end = self.agent_end(exit);
        let answer = match end {
            AgentEnd::Done => AgentAnswer::Text(self.step_text.take()),
            _ => self.buffer.take_answer(),
        };
        let mut conclusion = Conclusion { session: self.session.take(), ..Conclusion::new(end, answer) };
        if self.structured {
            schema_prompt::parse_answer(&mut conclusion);
        }
        conclusion
    }
}

/// Returns the reports of a tool call. opencode writes one event when the call has ended.
fn tool_reports(part: &Value) -> Vec<AgentReport> {
    let state = &part["state"];
    // The call of a disabled tool, or one with wrong input, is written as a successful call of another tool.
    let is_replaced = part["tool"] == INVALID_TOOL && state["input"]["tool"].is_string();
    let name = str_or_empty(if is_replaced { &state["input"]["tool"] } else { &part["tool"] }).to_owned();
    let id = str_or_empty(&part["callID"]).to_owned();
    let completed = state["status"] == "completed";
    let ok = completed && !is_replaced;
    let output = str_or_empty(&state[if completed { "output" } else { "error" }]).to_owned();
    let denied = !ok && DENIED_MESSAGES.iter().any(|marker| output.contains(marker));
    let denial = denied.then(|| AgentReport::Denied {
        call: id.clone(),
        tool: name.clone(),
        reason: "by the rules of this run".to_owned(),
    });
    let mut reports = vec![
        AgentReport::ToolCalled { id: id.clone(), name, input: state["input"].clone() },
        AgentReport::ToolReturned { id, ok, output },
    ];
    reports.extend(denial);
    reports
}

fn parse_usage(part: &Value) -> Option<Usage> {
    let tokens = &part["tokens"];
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    // opencode writes 0 for an unknown price.
    let cost = part["cost"].as_f64().and_then(Cost::reported).filter(|cost| cost.microusd > 0);
    let usage = Usage {
        input_tokens: count(&tokens["input"])
            .saturating_add(count(&tokens["cache"]["read"]))
            .saturating_add(count(&tokens["cache"]["write"])),
        output_tokens: count(&tokens["output"]).saturating_add(count(&tokens["reasoning"])),
        cache_read_tokens: count(&tokens["cache"]["read"]),
        cache_write_tokens: count(&tokens["cache"]["write"]),
        cost,
    };
    (usage != Usage::default()).then_some(usage)
}

pub(super) fn str_or_empty(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
