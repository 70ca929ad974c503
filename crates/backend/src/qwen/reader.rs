//! How Qwen Code speaks the stream of Claude Code: tokens by the turn and for the whole session, and its own words about
//! failures. The program exits with 0 also when the service refused.

use domain::run::{AgentEnd, Failure, LimitName, ModelError, Usage};
use serde_json::Value;

use super::versions::{API_ERROR, EXIT_AUTHENTICATION, EXIT_TURNS, OWN_BUDGET, UNKNOWN_SESSION};
use crate::contract::{Exit, Report};
use crate::kept::{self, Kept};
use crate::stream_json::{Dialect, StreamJson, text_of};

/// The stream of one run.
pub(super) type Stream = StreamJson<Counted>;

/// What was used, as far as it was told.
pub(super) struct Counted {
    /// By the session before this run, if that is known: its end tells the sum of all its runs.
    before: Option<Usage>,
    /// By the turns of this run.
    turns: Usage,
}

impl Counted {
    pub(super) fn after(before: Option<Usage>) -> Self {
        Self { before, turns: Usage::default() }
    }
}

impl Dialect for Counted {
    const DENIED_BY: &'static str = "by the options or settings of qwen";
    const LIMITS: &'static [(&'static str, LimitName)] = &[("error_max_turns", LimitName::Turns)];
    const LISTS_DECIDED: bool = false;

    /// The program puts its own words about a failure into the model's mouth.
    fn of_model<'a>(&self, _message: &Value, text: &'a str) -> &'a str {
        let at = text.rfind(API_ERROR).filter(|_| text.trim_end().ends_with(']'));
        at.map_or(text, |at| &text[..at])
    }

    fn turn_used(&mut self, message: &Value) -> Usage {
        let used = tokens(&message["usage"]);
        self.turns.add(used);
        used
    }

    fn other(&mut self, event: &Value, _kept: &mut Kept) -> Vec<Report> {
        if event["type"] == "control_response" { opened(event) } else { Vec::new() }
    }

    fn used(&mut self, event: &Value) -> Vec<Report> {
        let told = tokens(&event["usage"]);
        let Some(mut before) = self.before else {
            let message = "only the tokens of the conversation's own turns are counted: qwen tells the rest \
                           for the whole session";
            let warned = (told != Usage::default()).then(|| Report::Warned(message.to_owned()));
            return warned.into_iter().collect();
        };
        before.add(self.turns);
        let rest = Usage {
            input_tokens: told.input_tokens.saturating_sub(before.input_tokens),
            output_tokens: told.output_tokens.saturating_sub(before.output_tokens),
            cache_read_tokens: told.cache_read_tokens.saturating_sub(before.cache_read_tokens),
            ..Usage::default()
        };
        (rest != Usage::default()).then_some(Report::Used(rest)).into_iter().collect()
    }

    fn value(&self, event: &Value) -> Option<Value> {
        serde_json::from_str(event["result"].as_str().unwrap_or_default()).ok()
    }

    fn failure(&self, event: &Value) -> Failure {
        let told = event["error"]["message"].as_str().filter(|message| !message.is_empty());
        let message = kept::message(told.or(event["result"].as_str()).unwrap_or_default());
        match model_error(&message) {
            Some(error) => Failure::Model { error, message },
            None => Failure::Agent { message },
        }
    }

    fn without_result(&self, stderr: &str, exit: Exit) -> AgentEnd {
        match (stderr.find(UNKNOWN_SESSION), exit) {
            (Some(at), _) => AgentEnd::Failed(Failure::Session { reason: kept::message(&stderr[at..]) }),
            (None, Exit::Code(EXIT_TURNS)) => AgentEnd::OverBudget(LimitName::Turns),
            (None, Exit::Code(EXIT_AUTHENTICATION)) => {
                let message = kept::message(stderr);
                AgentEnd::Failed(Failure::Model { error: ModelError::Denied, message })
            }
            (None, exit) => AgentEnd::Failed(match stderr.find(OWN_BUDGET) {
                Some(at) => Failure::Agent { message: kept::message(&stderr[at..]) },
                None => kept::without_end(exit),
            }),
        }
    }
}

/// The answer to the opening: only what was not taken is worth a word.
fn opened(event: &Value) -> Vec<Report> {
    let response = &event["response"];
    if response["subtype"] == "error" {
        let reason = response["error"].as_str().map_or_else(|| response["error"].to_string(), kept::message);
        return vec![Report::Warned(format!("qwen did not take what it was told: {reason}"))];
    }
    let effort = &response["response"]["effort_status"];
    if effort["applied"] == false {
        let reason = text_of(&effort["reason"]);
        return vec![Report::Warned(format!("the effort was not applied: {reason}"))];
    }
    Vec::new()
}

fn tokens(usage: &Value) -> Usage {
    let count = |key: &str| usage[key].as_u64().unwrap_or(0);
    // What came from a cache is part of the input here, unlike in the stream of Claude Code.
    Usage {
        input_tokens: count("input_tokens"),
        output_tokens: count("output_tokens"),
        cache_read_tokens: count("cache_read_input_tokens"),
        ..Usage::default()
    }
}

/// Returns what was wrong with the model, if the message says that it was the model.
fn model_error(message: &str) -> Option<ModelError> {
    let told = message.strip_prefix(API_ERROR)?;
    let lower = told.to_ascii_lowercase();
    if lower.contains("context length") || lower.contains("maximum context") {
        return Some(ModelError::TooLong);
    }
    let status = told.split(|digit: char| !digit.is_ascii_digit()).next().unwrap_or_default();
    match status.parse() {
        Ok(status) => Some(ModelError::of_status(status)),
        Err(_) if lower.starts_with("connection error") || lower.contains("fetch failed") => {
            Some(ModelError::Unreachable)
        }
        Err(_) => Some(ModelError::Other),
    }
}
