//! Parses the stream of Qwen Code: the part of `stream_json` that is specific to it. It reports tokens of each turn and of the
//! whole session, and has its own error messages. It exits with 0 even if the service refused.

use domain::run::{AgentEnd, Failure, LimitName, ModelError, Usage};
use serde_json::Value;

use super::errors::model_error;
use super::versions::{API_ERROR, BUDGET_EXCEEDED, EXIT_AUTHENTICATION, EXIT_TURNS, UNKNOWN_SESSION};
use crate::contract::{AgentReport, Exit};
use crate::stream_buffer::{self, StreamBuffer};
use crate::stream_json::{StreamJson, StreamJsonDialect, string_or_empty};

/// The stream of one run.
pub(super) type QwenStream = StreamJson<QwenDialect>;

/// What differs from Claude Code, and the usage so far.
pub(super) struct QwenDialect {
    /// Usage of the session before this run, if it is known: the terminal event has the total of the session.
    used_before: Option<Usage>,
    /// Usage of the turns of this run.
    used_by_turns: Usage,
}

impl QwenDialect {
    pub(super) fn new(used_before: Option<Usage>) -> Self {
        Self { used_before, used_by_turns: Usage::default() }
    }
}

impl StreamJsonDialect for QwenDialect {
    const DENIED_BY: &'static str = "by the options or settings of qwen";
    const LIMITS: &'static [(&'static str, LimitName)] = &[("error_max_turns", LimitName::Turns)];

    /// Qwen Code appends its own error message to the text of the model.
    fn model_text<'a>(&self, _message: &Value, text: &'a str) -> &'a str {
        let error_start = text.rfind(API_ERROR).filter(|_| text.trim_end().ends_with(']'));
        error_start.map_or(text, |error_start| &text[..error_start])
    }

    fn message_usage(&mut self, message: &Value) -> Usage {
        let used = tokens(&message["usage"]);
        self.used_by_turns.add(used);
        used
    }

    fn handle_other(&mut self, event: &Value, _buffer: &mut StreamBuffer) -> Vec<AgentReport> {
        if event["type"] == "control_response" { initialization_warnings(event) } else { Vec::new() }
    }

    fn result_usage(&mut self, event: &Value) -> Vec<AgentReport> {
        let total = tokens(&event["usage"]);
        let Some(mut used_before) = self.used_before else {
            let message = "only the tokens of the conversation's own turns are counted: qwen tells the rest \
                           for the whole session";
            let warning = (total != Usage::default()).then(|| AgentReport::Warned(message.to_owned()));
            return warning.into_iter().collect();
        };
        used_before.add(self.used_by_turns);
        let remaining = Usage {
            input_tokens: total.input_tokens.saturating_sub(used_before.input_tokens),
            output_tokens: total.output_tokens.saturating_sub(used_before.output_tokens),
            cache_read_tokens: total.cache_read_tokens.saturating_sub(used_before.cache_read_tokens),
            ..Usage::default()
        };
        (remaining != Usage::default()).then_some(AgentReport::Used(remaining)).into_iter().collect()
    }

    fn structured_answer(&self, event: &Value) -> Option<Value> {
        serde_json::from_str(event["result"].as_str().unwrap_or_default()).ok()
    }

    fn result_failure(&self, event: &Value) -> Failure {
        let message = event["error"]["message"].as_str().filter(|message| !message.is_empty());
        let message =
            stream_buffer::bounded_message(message.or(event["result"].as_str()).unwrap_or_default());
        match model_error(&message) {
            Some(error) => Failure::Model { error, message },
            None => Failure::Agent { message },
        }
    }

    fn end_without_result(&self, stderr: &str, exit: Exit) -> AgentEnd {
        match (stderr.find(UNKNOWN_SESSION), exit) {
            (Some(at), _) => {
                AgentEnd::Failed(Failure::Session { reason: stream_buffer::bounded_message(&stderr[at..]) })
            }
            (None, Exit::Code(EXIT_TURNS)) => AgentEnd::OverBudget(LimitName::Turns),
            (None, Exit::Code(EXIT_AUTHENTICATION)) => {
                let message = stream_buffer::bounded_message(stderr);
                AgentEnd::Failed(Failure::Model { error: ModelError::Denied, message })
            }
            (None, exit) => AgentEnd::Failed(match stderr.find(BUDGET_EXCEEDED) {
                Some(at) => Failure::Agent { message: stream_buffer::bounded_message(&stderr[at..]) },
                None => stream_buffer::missing_end_failure(exit),
            }),
        }
    }
}

/// Returns warnings about what Qwen Code rejected of the opening messages.
fn initialization_warnings(event: &Value) -> Vec<AgentReport> {
    let response = &event["response"];
    if response["subtype"] == "error" {
        let reason = response["error"]
            .as_str()
            .map_or_else(|| response["error"].to_string(), stream_buffer::bounded_message);
        return vec![AgentReport::Warned(format!("qwen did not take what it was told: {reason}"))];
    }
    let effort = &response["response"]["effort_status"];
    if effort["applied"] == false {
        let reason = string_or_empty(&effort["reason"]);
        return vec![AgentReport::Warned(format!("the effort was not applied: {reason}"))];
    }
    Vec::new()
}

fn tokens(usage: &Value) -> Usage {
    let count = |key: &str| usage[key].as_u64().unwrap_or(0);
    // Cached tokens are part of the input here, unlike in the stream of Claude Code.
    Usage {
        input_tokens: count("input_tokens"),
        output_tokens: count("output_tokens"),
        cache_read_tokens: count("cache_read_input_tokens"),
        ..Usage::default()
    }
}
