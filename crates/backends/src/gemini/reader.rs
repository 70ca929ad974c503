//! Parses the stream of Gemini CLI. Only its `result` ends a run; the exit code only shows the status of the service's response.

use domain::run::{AgentEnd, Failure, LimitName, ModelError, Usage};
use serde_json::Value;

use super::errors::{model_error, retry_report};
use super::versions::{
    EXIT_AUTHENTICATION, EXIT_TURNS, NEEDS_CONFIRMATION, POLICY_VIOLATION, TOOL_NOT_REGISTERED,
    TURNS_EXCEEDED, UNKNOWN_SESSION,
};
use crate::contract::{AgentAnswer, AgentReport, Conclusion, Exit};
use crate::json_lines::JsonLinesReader;
use crate::pending_tool_calls::PendingToolCalls;
use crate::schema_prompt;
use crate::stream_buffer::{self, ChunkedMessage, StreamBuffer};

/// The most models whose usage is reported separately.
const MODELS_MAX: usize = 16;

/// The stream of one run.
#[derive(Default)]
pub(super) struct GeminiStream {
    /// The answer must be a value.
    structured: bool,
    buffer: StreamBuffer,
    /// The text of the last turn that has any.
    answer: ChunkedMessage,
    turn_ended: bool,
    calls: PendingToolCalls,
    model: Option<String>,
    /// The last error event.
    error: Option<String>,
    result: Option<Value>,
}

impl GeminiStream {
    pub(super) fn new(structured: bool) -> Self {
        Self { structured, ..Self::default() }
    }

    fn on_init(&mut self, event: &Value) -> Vec<AgentReport> {
        self.model = event["model"].as_str().map(ToOwned::to_owned);
        let session = event["session_id"].as_str().map(|session| AgentReport::Session(session.to_owned()));
        session.into_iter().chain(self.model.clone().map(AgentReport::Model)).collect()
    }

    fn on_message(&mut self, event: &Value) -> Vec<AgentReport> {
        let text = event["content"].as_str().unwrap_or_default();
        if text.is_empty() {
            return Vec::new();
        }
        let mut reports = Vec::new();
        if std::mem::take(&mut self.turn_ended) && !self.answer.is_empty() {
            self.buffer.push_chunk("\n");
            reports.push(AgentReport::Text("\n".to_owned()));
            self.answer.take();
        }
        self.buffer.push_chunk(text);
        reports.push(AgentReport::Text(text.to_owned()));
        reports.extend(self.answer.push(text));
        reports
    }

    fn on_tool_call(&mut self, event: &Value) -> Vec<AgentReport> {
        self.turn_ended = true;
        let (id, name) = (string_or_empty(&event["tool_id"]), string_or_empty(&event["tool_name"]));
        self.calls.insert(&id, &name);
        vec![AgentReport::ToolCalled { id, name, input: event["parameters"].clone() }]
    }

    fn on_tool_result(&mut self, event: &Value) -> Vec<AgentReport> {
        let id = string_or_empty(&event["tool_id"]);
        let name = self.calls.remove(&id);
        let error = &event["error"];
        let output = event["output"].as_str().or_else(|| error["message"].as_str()).unwrap_or_default();
        let ok = event["status"] == "success";
        let mut reports = vec![AgentReport::ToolReturned { id: id.clone(), ok, output: output.to_owned() }];
        let reason = error["message"].as_str().unwrap_or(output);
        let denied = match error["type"].as_str() {
            Some(TOOL_NOT_REGISTERED) => Some("it is not offered to this agent"),
            Some(POLICY_VIOLATION) => Some(reason),
            Some(_) if reason.contains(NEEDS_CONFIRMATION) => Some(reason),
            Some(_) | None => None,
        };
        if let Some(reason) = denied {
            reports.push(AgentReport::Denied {
                call: id,
                tool: name,
                reason: stream_buffer::bounded_message(reason),
            });
        }
        reports
    }

    /// Reports model and usage.
    fn on_result(&mut self, event: &Value) -> Vec<AgentReport> {
        let stats = &event["stats"];
        let count = |tokens: &Value, key: &str| tokens[key].as_u64().unwrap_or(0);
        let models = stats["models"].as_object().into_iter().flatten();
        let most_used = models.clone().max_by_key(|(_, tokens)| count(tokens, "output_tokens"));
        let used_model =
            most_used.filter(|(_, tokens)| count(tokens, "output_tokens") > 0).map(|(name, _)| name);
        let other_model = used_model.filter(|name| self.model.as_ref() != Some(name));
        let mut reports: Vec<AgentReport> =
            other_model.cloned().map(AgentReport::Model).into_iter().collect();
        let mut rest = parse_usage(stats);
        for (model, tokens) in models.take(MODELS_MAX) {
            let used = parse_usage(tokens);
            if let Some(remaining) = rest.since(used).filter(|_| !used.has_no_tokens()) {
                rest = remaining;
                reports.push(AgentReport::UsedBy { model: model.clone(), usage: used });
            }
        }
        reports.extend((!rest.has_no_tokens()).then_some(AgentReport::Used(rest)));
        reports
    }

    fn conclude_with_result(&mut self, event: &Value, exit: Exit) -> Conclusion {
        let message = event["error"]["message"].as_str().map(stream_buffer::bounded_message);
        let exceeded = self.error.as_deref() == Some(TURNS_EXCEEDED);
        let end = match (event["status"].as_str(), event["error"]["type"].as_str()) {
            (Some("success"), _) if exceeded => AgentEnd::OverBudget(LimitName::Turns),
            (Some("success"), _) => AgentEnd::Done,
            (_, Some("FatalTurnLimitedError")) => AgentEnd::OverBudget(LimitName::Turns),
            (_, _) if exit == Exit::Code(EXIT_TURNS) => AgentEnd::OverBudget(LimitName::Turns),
            (_, _) => {
                let message = message.or_else(|| self.error.take()).unwrap_or_default();
                AgentEnd::Failed(match model_error(event, &message, exit) {
                    Some(error) => Failure::Model { error, message },
                    None => Failure::Agent { message },
                })
            }
        };
        let answer = match end {
            AgentEnd::Done => AgentAnswer::Text(self.answer.take()),
            _ => self.buffer.take_answer(),
        };
        let mut conclusion = Conclusion::new(end, answer);
        if self.structured {
            schema_prompt::parse_answer(&mut conclusion);
        }
        conclusion
    }
}

impl JsonLinesReader for GeminiStream {
    fn buffer(&mut self) -> &mut StreamBuffer {
        &mut self.buffer
    }

    fn handle_event(&mut self, event: Value) -> Vec<AgentReport> {
        match event["type"].as_str() {
            Some("init") => self.on_init(&event),
            Some("message") if event["role"] == "assistant" => self.on_message(&event),
            Some("tool_use") => self.on_tool_call(&event),
            Some("tool_result") => self.on_tool_result(&event),
            Some("error") => {
                let message = stream_buffer::bounded_message(event["message"].as_str().unwrap_or_default());
                self.error = Some(message.clone());
                vec![AgentReport::Warned(message)]
            }
            Some("result") => {
                let reports = self.on_result(&event);
                self.result = Some(event);
                reports
            }
            _ => Vec::new(),
        }
    }

    fn finish(&mut self, exit: Exit) -> Conclusion {
        if let Some(event) = self.result.take() {
            return self.conclude_with_result(&event, exit);
        }
        let stderr = self.buffer.stderr();
        let session_error = UNKNOWN_SESSION.iter().find_map(|marker| stderr.find(marker));
        let failure = match (session_error, exit) {
            (Some(at), _) => Failure::Session { reason: stream_buffer::bounded_message(&stderr[at..]) },
            (None, Exit::Code(EXIT_AUTHENTICATION)) => {
                Failure::Model { error: ModelError::Denied, message: stream_buffer::bounded_message(&stderr) }
            }
            (None, exit) => stream_buffer::missing_end_failure(exit),
        };
        let answer = self.buffer.take_answer();
        // After some text, a retry in the error stream may be long over.
        let retry = retry_report(&stderr).filter(|_| answer == AgentAnswer::Nothing);
        let reports = retry.into_iter().collect();
        Conclusion { reports, ..Conclusion::new(AgentEnd::Failed(failure), answer) }
    }
}

fn string_or_empty(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Gemini CLI counts cached tokens as input, and thinking tokens only in the total.
fn parse_usage(stats: &Value) -> Usage {
    let count = |key: &str| stats[key].as_u64().unwrap_or(0);
    let input_tokens = count("input_tokens");
    let generated = count("total_tokens").saturating_sub(input_tokens);
    let output_tokens = count("output_tokens").max(generated);
    Usage { input_tokens, output_tokens, cache_read_tokens: count("cached"), ..Usage::default() }
}
