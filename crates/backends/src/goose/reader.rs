//! Parses the stream of goose. Its exit code is always 0 and its terminal event always comes: an error, or the end of all turns, is a
//! message without an id.

use std::collections::BTreeMap;

use domain::run::{AgentEnd, Failure, LimitName, ModelError, Usage};
use serde_json::Value;

use super::errors::failure_from_text;
use super::versions::{
    ERROR_MARKERS, ERROR_PREFIX, FINAL_OUTPUT_TOOL, NO_CREDITS, NO_CREDITS_PREFIX, TURNS_EXCEEDED,
    UNKNOWN_SESSION, UNKNOWN_TOOL,
};
use crate::contract::{AgentAnswer, AgentReport, Conclusion, Exit, NO_SUCH_TOOL};
use crate::json_lines::JsonLinesReader;
use crate::pending_tool_calls::PendingToolCalls;
use crate::session_usage;
use crate::stream_buffer::{self, ChunkedMessage, StreamBuffer};

/// The most final outputs that goose may reject before it accepts one.
const OUTPUTS_MAX: usize = 8;

/// What the stream must know about the run.
#[derive(Debug)]
pub(super) struct GooseStreamOptions {
    pub(super) structured: bool,
    /// Usage of the session before this run, if it is known.
    pub(super) used_before: Option<Usage>,
    pub(super) session: String,
    pub(super) excluded_servers: Vec<String>,
}

/// The stream of one run.
pub(super) struct GooseStream {
    options: GooseStreamOptions,
    buffer: StreamBuffer,
    begun: bool,
    /// The current message, which comes in pieces, and its id.
    message: ChunkedMessage,
    message_id: Option<String>,
    calls: PendingToolCalls,
    /// Final outputs that goose has not accepted yet, by the id of the call.
    pending_outputs: BTreeMap<String, Value>,
    structured: Option<Value>,
    error: Option<String>,
    no_turns_left: bool,
    /// The model wrote something or called a tool.
    answered: bool,
    complete: bool,
}

impl GooseStream {
    pub(super) fn new(options: GooseStreamOptions) -> Self {
        Self {
            options,
            buffer: StreamBuffer::default(),
            begun: false,
            message: ChunkedMessage::default(),
            message_id: None,
            calls: PendingToolCalls::default(),
            pending_outputs: BTreeMap::new(),
            structured: None,
            error: None,
            no_turns_left: false,
            answered: false,
            complete: false,
        }
    }

    fn on_message(&mut self, message: &Value) -> Vec<AgentReport> {
        let assistant = message["role"] == "assistant";
        let id = message["id"].as_str();
        let mut reports = Vec::new();
        for part in message["content"].as_array().into_iter().flatten() {
            match part["type"].as_str() {
                Some("text") if assistant => reports.extend(self.on_text(str_or_empty(&part["text"]), id)),
                Some("toolRequest") => {
                    reports.extend(self.finish_message());
                    self.message.take();
                    reports.extend(self.on_tool_call(part));
                }
                Some("toolResponse") => reports.extend(self.on_tool_result(part)),
                Some("systemNotification") if part["notificationType"] == NO_CREDITS => {
                    self.error = Some(format!("{NO_CREDITS_PREFIX}: {}", str_or_empty(&part["msg"])));
                }
                _ => {}
            }
        }
        reports
    }

    /// Handles a piece of a message, or an error in the form of one.
    fn on_text(&mut self, piece: &str, id: Option<&str>) -> Vec<AgentReport> {
        let is_error =
            |(begin, end): &(&str, &str)| piece.starts_with(begin) && piece.trim_end().ends_with(end);
        if id.is_none() && ERROR_MARKERS.iter().any(is_error) {
            self.error = Some(piece.strip_prefix(ERROR_PREFIX).unwrap_or(piece).to_owned());
            return self.finish_message();
        }
        if id.is_none() && piece.starts_with(TURNS_EXCEEDED) {
            self.no_turns_left = true;
            return self.finish_message();
        }
        let mut reports = Vec::new();
        if id != self.message_id.as_deref() || id.is_none() {
            reports = self.finish_message();
            self.message.take();
            self.message_id = id.map(ToOwned::to_owned);
        }
        self.answered |= !piece.trim().is_empty();
        self.buffer.push_chunk(piece);
        reports.extend(self.message.push(piece));
        reports
    }

    /// Reports the current message as a whole, once.
    fn finish_message(&mut self) -> Vec<AgentReport> {
        self.message_id = None;
        if self.message.is_empty() || !self.buffer.has_pending_chunks() {
            return Vec::new();
        }
        self.buffer.push_message(self.message.as_str());
        vec![AgentReport::Text(format!("{}\n", self.message.as_str()))]
    }

    fn on_tool_call(&mut self, part: &Value) -> Vec<AgentReport> {
        self.answered = true;
        let id = str_or_empty(&part["id"]).to_owned();
        let call = &part["toolCall"]["value"];
        let name = str_or_empty(&call["name"]);
        if name == FINAL_OUTPUT_TOOL && self.pending_outputs.len() < OUTPUTS_MAX {
            self.pending_outputs.insert(id.clone(), call["arguments"].clone());
        }
        let name = name
            .split_once("__")
            .map_or_else(|| name.to_owned(), |(server, tool)| format!("mcp__{server}__{tool}"));
        self.calls.insert(&id, &name);
        vec![AgentReport::ToolCalled { id, name, input: call["arguments"].clone() }]
    }

    fn on_tool_result(&mut self, part: &Value) -> Vec<AgentReport> {
        let id = str_or_empty(&part["id"]).to_owned();
        let result = &part["toolResult"];
        let ok = result["status"] == "success" && result["value"]["isError"] != true;
        let texts = result["value"]["content"].as_array().into_iter().flatten();
        let mut output = texts.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n");
        if output.is_empty() {
            output = str_or_empty(&result["error"]).to_owned();
        }
        if let Some(value) = self.pending_outputs.remove(&id).filter(|_| ok) {
            self.structured = Some(value);
        }
        let name = self.calls.remove(&id);
        let denied = (!ok && output.contains(UNKNOWN_TOOL)).then(|| AgentReport::Denied {
            call: id.clone(),
            tool: name,
            reason: NO_SUCH_TOOL.to_owned(),
        });
        let mut reports = vec![AgentReport::ToolReturned { id, ok, output }];
        reports.extend(denied);
        reports
    }

    fn usage_report(&self, event: &Value) -> Option<AgentReport> {
        let count = |key: &str| event[key].as_u64();
        let (input, output) = (count("input_tokens")?, count("output_tokens")?);
        let total = Usage { input_tokens: input, output_tokens: output, ..Usage::default() };
        Some(session_usage::report_run_usage("goose", total, self.options.used_before))
    }

    fn agent_end(&self, exit: Exit) -> AgentEnd {
        let stderr = self.buffer.stderr();
        let failure = match exit {
            _ if stderr.contains(UNKNOWN_SESSION) => {
                Failure::Session { reason: stream_buffer::bounded_message(&stderr) }
            }
            _ if self.error.is_some() => failure_from_text(self.error.as_deref().unwrap_or_default()),
            Exit::Signal(signal) => Failure::Signal { signal },
            Exit::Code(0) if self.complete && self.no_turns_left => {
                return AgentEnd::OverBudget(LimitName::Turns);
            }
            Exit::Code(0) if !self.complete => {
                Failure::Output { reason: "the stream ended without its terminal event".to_owned() }
            }
            Exit::Code(0) if !self.answered => {
                let message = "goose ended without a word of its model".to_owned();
                Failure::Model { error: ModelError::Other, message }
            }
            Exit::Code(0) if self.options.structured && self.structured.is_none() => {
                Failure::missing_value("the agent answered in words and gave no value")
            }
            Exit::Code(0) => return AgentEnd::Done,
            // Before the stream begins, goose writes to standard output what is missing.
            Exit::Code(_) if !self.begun && !self.buffer.plain_text().is_empty() => {
                let text = self.buffer.plain_text();
                failure_from_text(&stream_buffer::bounded_message(
                    text.strip_prefix("error:").unwrap_or(&text),
                ))
            }
            Exit::Code(code) => Failure::Exit { code },
        };
        AgentEnd::Failed(failure)
    }
}

impl JsonLinesReader for GooseStream {
    fn buffer(&mut self) -> &mut StreamBuffer {
        &mut self.buffer
    }

    fn handle_event(&mut self, event: Value) -> Vec<AgentReport> {
        let mut reports = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            reports.push(AgentReport::Session(self.options.session.clone()));
            let excluded_servers = self.options.excluded_servers.iter();
            reports.extend(excluded_servers.map(|server| {
                AgentReport::Warned(format!(
                    "the MCP server {server} is left out: the permission allows none of its tools"
                ))
            }));
        }
        match event["type"].as_str() {
            Some("message") => reports.extend(self.on_message(&event["message"])),
            Some("error") => self.error = Some(str_or_empty(&event["error"]).to_owned()),
            Some("complete") => {
                self.complete = true;
                reports.extend(self.finish_message());
                reports.extend(self.usage_report(&event));
            }
            _ => {}
        }
        reports
    }

    fn finish(&mut self, exit: Exit) -> Conclusion {
        let end = self.agent_end(exit);
        let answer = match (&end, &self.structured) {
            (AgentEnd::Done, Some(value)) => AgentAnswer::Text(value.to_string()),
            (AgentEnd::Done, None) => AgentAnswer::Text(self.message.take()),
            _ => self.buffer.take_answer(),
        };
        let mut conclusion = Conclusion::new(end, answer);
        conclusion.structured = self.structured.take().filter(|_| conclusion.end == AgentEnd::Done);
        conclusion
    }
}

fn str_or_empty(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
