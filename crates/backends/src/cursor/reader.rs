//! Parses the stream of Cursor. A failure has no event, only a message on the error stream and an exit code. The program may keep
//! running after its result, so Volery ends it then.

use domain::run::{AgentEnd, Failure};
use serde_json::Value;

use crate::contract::{AgentAnswer, AgentReport, Conclusion, Exit};
use crate::json_lines::JsonLinesReader;
use crate::model_error;
use crate::schema_prompt;
use crate::stream_buffer::{self, StreamBuffer};
use crate::stream_json::result_text;

/// The suffix of tool names in the stream.
const TOOL_SUFFIX: &str = "ToolCall";
/// The kind of tools without a kind of their own; their name is a member of the event.
const OTHER_TOOL: &str = "function";

/// The stream of one run.
pub(super) struct CursorStream {
    structured: bool,
    buffer: StreamBuffer,
    session: Option<String>,
    result: Option<Value>,
}

impl CursorStream {
    pub(super) fn new(structured: bool) -> Self {
        Self { structured, buffer: StreamBuffer::default(), session: None, result: None }
    }

    /// Handles a message or a piece of one. A piece has a timestamp and no id of a model call; the whole message repeats its pieces.
    fn on_message(&mut self, event: &Value) -> Vec<AgentReport> {
        let blocks = event["message"]["content"].as_array().into_iter().flatten();
        let text: String = blocks.filter_map(|block| block["text"].as_str()).collect();
        if text.is_empty() {
            return Vec::new();
        }
        if event.get("timestamp_ms").is_some() && event.get("model_call_id").is_none() {
            self.buffer.push_chunk(&text);
            return vec![AgentReport::Text(text)];
        }
        let has_pieces = self.buffer.has_pending_chunks();
        self.buffer.push_message(&text);
        vec![AgentReport::Text(if has_pieces { "\n".to_owned() } else { format!("{text}\n") })]
    }

    fn failure_without_result(&self, exit: Exit) -> Failure {
        let stderr = self.buffer.stderr();
        let unknown_session = || {
            let text = stderr.to_lowercase();
            text.contains("chat") && text.contains("not found")
        };
        if let (Exit::Code(1..), Some(error)) = (exit, model_error::classify(&stderr)) {
            return Failure::Model { error, message: stream_buffer::bounded_message(&stderr) };
        }
        match exit {
            Exit::Signal(signal) => Failure::Signal { signal },
            Exit::Code(_) if unknown_session() => {
                Failure::Session { reason: stream_buffer::bounded_message(&stderr) }
            }
            Exit::Code(0) => {
                Failure::Output { reason: "the stream ended without its terminal event".to_owned() }
            }
            Exit::Code(_) if !stderr.is_empty() => {
                Failure::Agent { message: stream_buffer::bounded_message(&stderr) }
            }
            Exit::Code(code) => Failure::Exit { code },
        }
    }
}

impl JsonLinesReader for CursorStream {
    fn buffer(&mut self) -> &mut StreamBuffer {
        &mut self.buffer
    }

    fn handle_event(&mut self, event: Value) -> Vec<AgentReport> {
        let mut reports = Vec::new();
        if self.session.is_none() {
            self.session = event["session_id"].as_str().map(ToOwned::to_owned);
            reports.extend(self.session.clone().map(AgentReport::Session));
        }
        match event["type"].as_str() {
            Some("system") => {
                reports.extend(event["model"].as_str().map(|model| AgentReport::Model(model.to_owned())));
            }
            Some("assistant") => reports.extend(self.on_message(&event)),
            Some("tool_call") => reports.extend(tool_reports(&event)),
            // Only the first result counts.
            Some("result") if self.result.is_none() => {
                self.result = Some(event);
                reports.push(AgentReport::Finished);
            }
            _ => {}
        }
        reports
    }

    fn finish(&mut self, exit: Exit) -> Conclusion {
        let mut conclusion = match self.result.take() {
            Some(event) if event["subtype"] == "success" && event["is_error"] == false => {
                Conclusion::new(AgentEnd::Done, AgentAnswer::Text(result_text(&event)))
            }
            Some(event) => {
                let message = stream_buffer::bounded_message(
                    event["result"].as_str().unwrap_or("it failed without a reason"),
                );
                Conclusion::new(AgentEnd::Failed(Failure::Agent { message }), self.buffer.take_answer())
            }
            None => Conclusion::new(
                AgentEnd::Failed(self.failure_without_result(exit)),
                self.buffer.take_answer(),
            ),
        };
        if self.structured {
            schema_prompt::parse_answer(&mut conclusion);
        }
        conclusion.session = self.session.take();
        conclusion
    }
}

/// Returns the reports for the start or the end of a tool call. The kind of the tool is the name of the only member.
fn tool_reports(event: &Value) -> Vec<AgentReport> {
    let id = event["call_id"].as_str().unwrap_or_default().to_owned();
    let Some((kind, call)) = event["tool_call"].as_object().and_then(|call| call.iter().next()) else {
        return Vec::new();
    };
    let own_name = call["name"].as_str().filter(|_| kind == OTHER_TOOL);
    let name = own_name.unwrap_or_else(|| kind.strip_suffix(TOOL_SUFFIX).unwrap_or(kind)).to_owned();
    if event["subtype"] == "started" {
        let input = call.get("args").or_else(|| call.get("arguments")).cloned().unwrap_or_default();
        return vec![AgentReport::ToolCalled { id, name, input }];
    }
    let result = &call["result"];
    let ok = result.get("success").is_some();
    let output = result.get("success").unwrap_or(result).to_string();
    let rejected = result.get("rejected").is_some();
    let mut reports = vec![AgentReport::ToolReturned {
        id: id.clone(),
        ok,
        output: stream_buffer::bounded_message(&output),
    }];
    if rejected {
        let reason = "by the settings of cursor".to_owned();
        reports.push(AgentReport::Denied { call: id, tool: name, reason });
    }
    reports
}
