//! Understands the stream of Qwen Code, which resembles that of Claude Code. Only its `result` ends a run; the program
//! exits with 0 also when the service refused.

use domain::run::{AgentEnd, Failure, LimitName, ModelError, Stream as Pipe, Usage};
use serde_json::{Value, json};

use super::versions::{API_ERROR, EXIT_AUTHENTICATION, EXIT_TURNS, OWN_BUDGET, UNKNOWN_SESSION};
use crate::contract::{Answer, Ask, Conclusion, Decision, Exit, Reader, Report};
use crate::kept::{self, Kept};
use crate::lines::{Line, Lines};

/// What the run asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    pub(super) structured: bool,
    /// What the session used before this run, if that is known: its end tells the sum of all its runs.
    pub(super) used_before: Option<Usage>,
}

/// The stream of one run.
pub(super) struct Stream {
    expected: Expected,
    lines: Lines,
    kept: Kept,
    /// What the turns of this run used, as far as it was told.
    turns: Usage,
    result: Option<Value>,
}

impl Stream {
    pub(super) fn new(expected: Expected) -> Self {
        Self {
            expected,
            lines: Lines::default(),
            kept: Kept::default(),
            turns: Usage::default(),
            result: None,
        }
    }

    fn take(&mut self, line: Line) -> Vec<Report> {
        let Line::Whole(line) = line else {
            return vec![Report::Warned("a line of output was too long and was passed over".to_owned())];
        };
        let Ok(event) = serde_json::from_slice::<Value>(&line) else { return Vec::new() };
        match event["type"].as_str() {
            Some("system") if event["subtype"] == "init" => begun(&event),
            Some("assistant") => self.assistant(&event),
            Some("user") => tool_results(&event),
            Some("control_request") => asked(&event),
            Some("control_response") => opened(&event),
            Some("result") => {
                let reports = self.ended(&event);
                self.result = Some(event);
                reports
            }
            _ => Vec::new(),
        }
    }

    fn assistant(&mut self, event: &Value) -> Vec<Report> {
        let message = &event["message"];
        let used = tokens(&message["usage"]);
        self.turns.add(used);
        // What a sub-agent of its own says is no part of the answer.
        let own = event["parent_tool_use_id"].is_null();
        // Told at once: a run that is cut short has spent it too.
        let mut reports: Vec<Report> =
            (used != Usage::default()).then_some(Report::Used(used)).into_iter().collect();
        for block in message["content"].as_array().into_iter().flatten() {
            match (block["type"].as_str(), block["text"].as_str()) {
                (Some("text"), Some(text)) if own && !of_model(text).is_empty() => {
                    let text = of_model(text);
                    self.kept.say(text);
                    reports.push(Report::Said(format!("{text}\n")));
                }
                (Some("tool_use"), _) => reports.push(Report::ToolCalled {
                    id: text_of(&block["id"]),
                    name: text_of(&block["name"]),
                    input: block["input"].clone(),
                }),
                _ => {}
            }
        }
        reports
    }

    /// Reports what the terminal event tells, and lets the program go.
    fn ended(&mut self, event: &Value) -> Vec<Report> {
        let mut reports = Vec::new();
        let told = tokens(&event["usage"]);
        if let Some(mut before) = self.expected.used_before {
            before.add(self.turns);
            let rest = Usage {
                input_tokens: told.input_tokens.saturating_sub(before.input_tokens),
                output_tokens: told.output_tokens.saturating_sub(before.output_tokens),
                cache_read_tokens: told.cache_read_tokens.saturating_sub(before.cache_read_tokens),
                ..Usage::default()
            };
            reports.extend((rest != Usage::default()).then_some(Report::Used(rest)));
        } else if told != Usage::default() {
            let message = "only the tokens of the conversation's own turns are counted: qwen tells the rest \
                           for the whole session";
            reports.push(Report::Warned(message.to_owned()));
        }
        for denial in event["permission_denials"].as_array().into_iter().flatten() {
            let tool = text_of(&denial["tool_name"]);
            reports.push(Report::Warned(format!("denied: {tool}: by the options or settings of qwen")));
        }
        reports.push(Report::CloseInput);
        reports
    }

    fn conclude_result(&mut self, event: &Value) -> Conclusion {
        let result = event["result"].as_str().unwrap_or_default();
        let told = event["error"]["message"].as_str().filter(|message| !message.is_empty());
        let message = kept::message(told.unwrap_or(result));
        let end = match event["subtype"].as_str() {
            Some("success") if event["is_error"] == false => AgentEnd::Done,
            Some("error_max_turns") => AgentEnd::OverBudget(LimitName::Turns),
            _ => AgentEnd::Failed(match model_error(&message) {
                Some(error) => Failure::Model { error, message },
                None => Failure::Agent { message },
            }),
        };
        let done = end == AgentEnd::Done;
        let answer = if done { Answer::Text(result.to_owned()) } else { self.kept.answer() };
        let mut conclusion = Conclusion::new(end, answer);
        conclusion.session = event["session_id"].as_str().map(ToOwned::to_owned);
        if self.expected.structured && done {
            match serde_json::from_str(result) {
                Ok(value) => conclusion.structured = Some(value),
                Err(_) => {
                    let reason = "the agent answered in words and gave no value".to_owned();
                    conclusion.end = AgentEnd::Failed(Failure::without_value(reason));
                }
            }
        }
        conclusion
    }
}

impl Reader for Stream {
    fn feed(&mut self, pipe: Pipe, bytes: &[u8]) -> Vec<Report> {
        match pipe {
            Pipe::Stdout => {
                let lines = self.lines.feed(bytes);
                lines.into_iter().flat_map(|line| self.take(line)).collect()
            }
            Pipe::Stderr => {
                self.kept.complain(bytes);
                Vec::new()
            }
        }
    }

    fn decide(&mut self, ask: &str, decision: &Decision) -> Vec<Report> {
        let answer = match decision {
            Decision::Allow(input) => json!({"behavior": "allow", "updatedInput": input}),
            Decision::Deny(reason) => json!({"behavior": "deny", "message": reason}),
        };
        let response = json!({"subtype": "success", "request_id": ask, "response": answer});
        vec![written(&json!({"type": "control_response", "response": response}))]
    }

    fn conclude(&mut self, exit: Exit) -> Conclusion {
        if let Some(rest) = self.lines.finish() {
            self.take(Line::Whole(rest));
        }
        if let Some(event) = self.result.take() {
            return self.conclude_result(&event);
        }
        let stderr = self.kept.stderr();
        let end = match (stderr.find(UNKNOWN_SESSION), exit) {
            (Some(at), _) => AgentEnd::Failed(Failure::Session { reason: kept::message(&stderr[at..]) }),
            (None, Exit::Code(EXIT_TURNS)) => AgentEnd::OverBudget(LimitName::Turns),
            (None, Exit::Code(EXIT_AUTHENTICATION)) => {
                let message = kept::message(&stderr);
                AgentEnd::Failed(Failure::Model { error: ModelError::Denied, message })
            }
            (None, exit) => AgentEnd::Failed(match stderr.find(OWN_BUDGET) {
                Some(at) => Failure::Agent { message: kept::message(&stderr[at..]) },
                None => kept::without_end(exit),
            }),
        };
        Conclusion::new(end, self.kept.answer())
    }
}

fn begun(event: &Value) -> Vec<Report> {
    let mut reports = Vec::new();
    reports.extend(event["session_id"].as_str().map(|session| Report::Session(session.to_owned())));
    reports.extend(event["model"].as_str().map(|model| Report::Model(model.to_owned())));
    reports
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

fn tool_results(event: &Value) -> Vec<Report> {
    let blocks = event["message"]["content"].as_array().into_iter().flatten();
    blocks
        .filter(|block| block["type"] == "tool_result")
        .map(|block| Report::ToolReturned {
            id: text_of(&block["tool_use_id"]),
            ok: block["is_error"] != true,
            output: content_text(&block["content"]),
        })
        .collect()
}

/// A question of the program's own protocol: about a tool, or one that nobody here understands.
fn asked(event: &Value) -> Vec<Report> {
    let id = text_of(&event["request_id"]);
    let request = &event["request"];
    if request["subtype"] == "can_use_tool" {
        let (tool, input) = (text_of(&request["tool_name"]), request["input"].clone());
        return vec![Report::Asks(Ask { id, tool, input })];
    }
    let refused = format!("{} is not supported", text_of(&request["subtype"]));
    let response = json!({"subtype": "error", "request_id": id, "error": refused});
    vec![written(&json!({"type": "control_response", "response": response}))]
}

fn written(message: &Value) -> Report {
    Report::Write(format!("{message}\n").into_bytes())
}

/// Returns what the model said of a text: the program puts its own words about a failure into the model's mouth.
fn of_model(text: &str) -> &str {
    let at = text.rfind(API_ERROR).filter(|_| text.trim_end().ends_with(']'));
    at.map_or(text, |at| &text[..at])
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

fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
