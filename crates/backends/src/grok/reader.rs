//! Parses the stream of Grok: pieces of text, tool calls, and an `end` or `error` as its last event.

use domain::run::{AgentEnd, Cost, CostBasis, Failure, LimitName, ModelError, Usage};
use serde_json::Value;

use super::errors::failure_from_text;
use crate::contract::{AgentAnswer, AgentReport, Conclusion, Exit};
use crate::json_lines::JsonLinesReader;
use crate::pending_tool_calls::PendingToolCalls;
use crate::schema_prompt;
use crate::stream_buffer::{self, ChunkedMessage, StreamBuffer};

/// Grok reports costs in ticks.
const TICKS_PER_MICROUSD: u64 = 10_000;

/// The stream of one run.
pub(super) struct GrokStream {
    structured: bool,
    buffer: StreamBuffer,
    /// The text since the last tool call.
    message: ChunkedMessage,
    calls: PendingToolCalls,
    /// The event that ends the stream: `end` or `error`.
    last_event: Option<Value>,
}

impl GrokStream {
    pub(super) fn new(structured: bool) -> Self {
        Self {
            structured,
            buffer: StreamBuffer::default(),
            message: ChunkedMessage::default(),
            calls: PendingToolCalls::default(),
            last_event: None,
        }
    }

    fn on_tool_call(&mut self, event: &Value) -> Vec<AgentReport> {
        let mut reports = Vec::new();
        if !self.message.is_empty() {
            self.buffer.push_message(&self.message.take());
            reports.push(AgentReport::Text("\n".to_owned()));
        }
        let tool = event["toolName"].as_str().or(event["title"].as_str()).unwrap_or_default();
        let (id, name) = (tool_call_id(event), tool.to_owned());
        self.calls.insert(&id, &name);
        reports.push(AgentReport::ToolCalled { id, name, input: event["rawInput"].clone() });
        reports
    }

    fn on_tool_result(&mut self, event: &Value) -> Vec<AgentReport> {
        let ok = match event["status"].as_str() {
            Some("completed") => true,
            Some("failed") => false,
            _ => return Vec::new(),
        };
        let id = tool_call_id(event);
        let name = self.calls.remove(&id);
        let output = stream_buffer::bounded_message(&event["rawOutput"].to_string());
        let denied = !ok && output.to_lowercase().contains("permission denied");
        let mut reports = vec![AgentReport::ToolReturned { id: id.clone(), ok, output }];
        if denied {
            reports.push(AgentReport::Denied {
                call: id,
                tool: name,
                reason: "by the rules or the sandbox of grok".to_owned(),
            });
        }
        reports
    }

    fn failure_without_result(&self, exit: Exit) -> Failure {
        let stderr = self.buffer.stderr();
        match exit {
            Exit::Code(1..) if !stderr.is_empty() => failure_from_text(&stderr),
            exit => stream_buffer::missing_end_failure(exit),
        }
    }
}

impl JsonLinesReader for GrokStream {
    fn buffer(&mut self) -> &mut StreamBuffer {
        &mut self.buffer
    }

    fn handle_event(&mut self, event: Value) -> Vec<AgentReport> {
        match event["type"].as_str() {
            Some("text") => {
                let text = event["data"].as_str().unwrap_or_default();
                let cut = self.message.push(text);
                self.buffer.push_chunk(text);
                std::iter::once(AgentReport::Text(text.to_owned())).chain(cut).collect()
            }
            Some("tool_call") => self.on_tool_call(&event),
            Some("tool_call_update") => self.on_tool_result(&event),
            Some("end" | "error") if self.last_event.is_none() => {
                let reports = usage_reports(&event);
                self.last_event = Some(event);
                reports
            }
            _ => Vec::new(),
        }
    }

    fn finish(&mut self, exit: Exit) -> Conclusion {
        let last_event = self.last_event.take();
        let end = match (&last_event, exit) {
            (None, exit) => AgentEnd::Failed(self.failure_without_result(exit)),
            (Some(event), _) if event["type"] == "error" => AgentEnd::Failed(failure_from_text(
                event["message"].as_str().unwrap_or("it failed without a reason"),
            )),
            (Some(_), Exit::Signal(signal)) => AgentEnd::Failed(Failure::Signal { signal }),
            (Some(event), Exit::Code(code)) => agent_end(event, code, self.message.as_str()),
        };
        let answer = match (&end, self.message.is_empty()) {
            (AgentEnd::Done, false) => AgentAnswer::Text(self.message.take()),
            _ => self.buffer.take_answer(),
        };
        let mut conclusion = Conclusion::new(end, answer);
        conclusion.session = last_event.and_then(|event| Some(event["sessionId"].as_str()?.to_owned()));
        if self.structured {
            schema_prompt::parse_answer(&mut conclusion);
        }
        conclusion
    }
}

fn tool_call_id(event: &Value) -> String {
    event["toolCallId"].as_str().unwrap_or_default().to_owned()
}

/// Reports model and usage from the last event: tokens of this run alone, and the cost if it is complete.
fn usage_reports(event: &Value) -> Vec<AgentReport> {
    let models = event["modelUsage"].as_object().into_iter().flatten();
    let mut reports: Vec<AgentReport> =
        models.map(|(model, _)| AgentReport::Model(model.clone())).take(1).collect();
    let Some(usage) = event.get("usage").filter(|usage| usage.is_object()) else { return reports };
    let count = |keys: &[&str]| keys.iter().filter_map(|key| usage[*key].as_u64()).sum::<u64>();
    let ticks = event["total_cost_usd_ticks"].as_u64();
    let cost = ticks.map(|ticks| Cost { microusd: ticks / TICKS_PER_MICROUSD, basis: CostBasis::Reported });
    reports.push(AgentReport::Used(Usage {
        input_tokens: count(&["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"]),
        output_tokens: count(&["output_tokens"]),
        cache_read_tokens: count(&["cache_read_input_tokens"]),
        cache_write_tokens: count(&["cache_creation_input_tokens"]),
        cost,
    }));
    reports
}

fn agent_end(event: &Value, code: i32, text: &str) -> AgentEnd {
    let stop_reason = event["stopReason"].as_str().unwrap_or_default();
    // Older versions write the same reasons without underscores: `EndTurn`.
    let reason = stop_reason.replace('_', "").to_lowercase();
    match (reason.as_str(), code) {
        ("refusal", _) => {
            let message = stream_buffer::bounded_message(text);
            AgentEnd::Failed(Failure::Model { error: ModelError::Refusal, message })
        }
        ("maxturnrequests", _) => AgentEnd::OverBudget(LimitName::Turns),
        (_, code) if code != 0 => AgentEnd::Failed(Failure::Exit { code }),
        ("endturn", _) => AgentEnd::Done,
        ("", _) => AgentEnd::Failed(Failure::Output { reason: "the end has no stopReason".to_owned() }),
        _ => AgentEnd::Failed(Failure::Output { reason: format!("it stopped as {stop_reason}") }),
    }
}
