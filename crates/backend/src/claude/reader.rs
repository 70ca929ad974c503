//! Understands the stream of Claude Code. Only its `result` ends a run; neither its exit code nor `subtype` decide alone.

use domain::run::{AgentEnd, Cost, CostBasis, Failure, LimitName, ModelError, Stream as Pipe, Usage};
use serde_json::{Value, json};

use crate::contract::{Answer, Ask, Conclusion, Decision, Exit, Reader, Report};
use crate::kept::{self, Kept};
use crate::lines::{Line, Lines};

/// How the use of a tool is answered that the agent does not have; its name follows.
const UNKNOWN_TOOL: &str = "No such tool available: ";
/// How the program says that it does not know a session.
const UNKNOWN_SESSION: &str = "No conversation found";

/// What the run asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    pub(super) structured: bool,
    pub(super) cost: Told,
}

/// What the figures in the terminal event are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// This run.
    Own,
    /// The whole session, of which earlier runs had cost this much, in millionths of a dollar.
    SumFrom(u64),
    /// The whole session, and nobody knows what came before.
    Sum,
}

/// The stream of one run.
pub(super) struct Stream {
    expected: Expected,
    lines: Lines,
    kept: Kept,
    /// Tool uses that were denied here, and so were told already.
    denied: u64,
    result: Option<Value>,
}

impl Stream {
    pub(super) fn new(expected: Expected) -> Self {
        Self { expected, lines: Lines::default(), kept: Kept::default(), denied: 0, result: None }
    }

    fn take(&mut self, line: Line) -> Vec<Report> {
        let Line::Whole(line) = line else {
            return vec![Report::Warned("a line of output was too long and was passed over".to_owned())];
        };
        let Ok(event) = serde_json::from_slice::<Value>(&line) else { return Vec::new() };
        match event["type"].as_str() {
            Some("system") if event["subtype"] == "init" => begun(&event),
            // The program's own words about an error, which the result tells too.
            Some("assistant") if event["message"]["model"] == "<synthetic>" => Vec::new(),
            Some("assistant") => self.assistant(&event),
            Some("stream_event") if event["parent_tool_use_id"].is_null() => {
                self.piece(&event["event"]);
                Vec::new()
            }
            Some("user") => tool_results(&event),
            Some("control_request") => asked(&event),
            Some("result") => {
                let reports = self.ended(&event);
                self.result = Some(event);
                reports
            }
            _ => Vec::new(),
        }
    }

    /// Keeps what is said of a message that may never come whole.
    fn piece(&mut self, event: &Value) {
        match event["type"].as_str() {
            Some("message_start") => self.kept.begin(),
            Some("content_block_delta") => {
                self.kept.piece(event["delta"]["text"].as_str().unwrap_or_default());
            }
            _ => {}
        }
    }

    fn assistant(&mut self, event: &Value) -> Vec<Report> {
        // What a sub-agent of its own says is no part of the answer.
        let own = event["parent_tool_use_id"].is_null();
        let mut reports = Vec::new();
        for block in event["message"]["content"].as_array().into_iter().flatten() {
            match (block["type"].as_str(), block["text"].as_str()) {
                (Some("text"), Some(text)) if own && !text.is_empty() => {
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
        if let Some(usage) = self.usage(event) {
            reports.push(Report::Used(usage));
        }
        let denials = event["permission_denials"].as_array().into_iter().flatten();
        let already = usize::try_from(self.denied).unwrap_or(usize::MAX);
        for denial in denials.skip(already) {
            let tool = text_of(&denial["tool_name"]);
            reports.push(Report::Warned(format!("denied: {tool}: by the settings of claude")));
        }
        reports.push(Report::CloseInput);
        reports
    }

    fn usage(&self, event: &Value) -> Option<Usage> {
        let count = |of: &Value, keys: &[&str]| keys.iter().filter_map(|key| of[*key].as_u64()).sum::<u64>();
        let told = &event["usage"];
        let mut usage = Usage {
            input_tokens: count(
                told,
                &["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"],
            ),
            output_tokens: count(told, &["output_tokens"]),
            cache_read_tokens: count(told, &["cache_read_input_tokens"]),
            cache_write_tokens: count(told, &["cache_creation_input_tokens"]),
            ..Usage::default()
        };
        let models: Vec<&Value> =
            event["modelUsage"].as_object().into_iter().flat_map(|all| all.values()).collect();
        // A run that stopped at its budget reports nothing here, and everything by model.
        if usage.input_tokens + usage.output_tokens == 0 && self.expected.cost == Told::Own {
            let inputs = ["inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"];
            let sum = |keys: &[&str]| models.iter().map(|model| count(model, keys)).sum();
            usage.input_tokens = sum(&inputs);
            usage.output_tokens = sum(&["outputTokens"]);
            usage.cache_read_tokens = sum(&["cacheReadInputTokens"]);
            usage.cache_write_tokens = sum(&["cacheCreationInputTokens"]);
        }
        let priced = models.iter().all(|model| model["costBasis"] != "unknown");
        let told = event["total_cost_usd"].as_f64().filter(|_| priced).and_then(microusd);
        let own = told.and_then(|told| match self.expected.cost {
            Told::Own => Some(told),
            Told::SumFrom(before) => told.checked_sub(before),
            Told::Sum => None,
        });
        usage.cost = own.map(|microusd| Cost { microusd, basis: CostBasis::Reported });
        (usage != Usage::default()).then_some(usage)
    }

    fn conclude_result(&mut self, event: &Value) -> Conclusion {
        let partial = self.kept.answer();
        let result = event["result"].as_str();
        let errors: Vec<&str> =
            event["errors"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let message =
            result.filter(|text| !text.is_empty()).map_or_else(|| errors.join("; "), ToOwned::to_owned);
        let message = kept::message(&message);
        let subtype = event["subtype"].as_str().unwrap_or_default();
        let mut conclusion = match subtype {
            "error_max_turns" => Conclusion::new(AgentEnd::OverBudget(LimitName::Turns), partial),
            "error_max_budget_usd" => Conclusion::new(AgentEnd::OverBudget(LimitName::Cost), partial),
            "success" if event["is_error"] == false => {
                let answer = Answer::Text(result.unwrap_or_default().to_owned());
                Conclusion::new(AgentEnd::Done, answer)
            }
            _ if message.contains(UNKNOWN_SESSION) => {
                Conclusion::new(AgentEnd::Failed(Failure::Session { reason: message }), partial)
            }
            _ => match model_error(event) {
                Some(error) => Conclusion::new(AgentEnd::Failed(Failure::Model { error, message }), partial),
                None => Conclusion::new(AgentEnd::Failed(Failure::Agent { message }), partial),
            },
        };
        conclusion.session = event["session_id"].as_str().map(ToOwned::to_owned);
        let structured = event.get("structured_output").filter(|value| !value.is_null());
        conclusion.structured = structured.cloned();
        if self.expected.structured && structured.is_none() && conclusion.end == AgentEnd::Done {
            let reason = "the agent answered in words and gave no value".to_owned();
            conclusion.end = AgentEnd::Failed(Failure::without_value(reason));
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
            // Without the input it would be used as it was asked for.
            Decision::Allow(input) => json!({"behavior": "allow", "updatedInput": input}),
            Decision::Deny(reason) => {
                self.denied += 1;
                json!({"behavior": "deny", "message": reason})
            }
        };
        vec![Report::Write(control_response(ask, "success", "response", &answer))]
    }

    fn conclude(&mut self, exit: Exit) -> Conclusion {
        if let Some(rest) = self.lines.finish() {
            self.take(Line::Whole(rest));
        }
        if let Some(event) = self.result.take() {
            return self.conclude_result(&event);
        }
        let stderr = self.kept.stderr();
        let failure = match stderr.contains(UNKNOWN_SESSION) {
            true => Failure::Session { reason: kept::message(&stderr) },
            false => kept::without_end(exit),
        };
        let answer = self.kept.answer();
        Conclusion::new(AgentEnd::Failed(failure), answer)
    }
}

fn begun(event: &Value) -> Vec<Report> {
    let mut reports = Vec::new();
    reports.extend(event["session_id"].as_str().map(|session| Report::Session(session.to_owned())));
    reports.extend(event["model"].as_str().map(|model| Report::Model(model.to_owned())));
    for server in event["mcp_servers"].as_array().into_iter().flatten() {
        let status = text_of(&server["status"]);
        if !matches!(status.as_str(), "connected" | "pending") {
            let name = text_of(&server["name"]);
            reports.push(Report::Warned(format!("the MCP server {name} is not there: {status}")));
        }
    }
    reports
}

fn tool_results(event: &Value) -> Vec<Report> {
    let blocks = event["message"]["content"].as_array().into_iter().flatten();
    let returned = blocks.filter(|block| block["type"] == "tool_result").flat_map(|block| {
        let (ok, output) = (block["is_error"] != true, content_text(&block["content"]));
        let missing = output.split_once(UNKNOWN_TOOL).filter(|_| !ok).and_then(|(_, rest)| {
            rest.split(|letter: char| letter.is_whitespace() || "<.".contains(letter)).next()
        });
        let denied = missing.map(|tool| {
            Report::Warned(format!("denied: {}: the agent has no such tool", kept::message(tool)))
        });
        let id = text_of(&block["tool_use_id"]);
        denied.into_iter().chain([Report::ToolReturned { id, ok, output }])
    });
    returned.collect()
}

/// A question of the program's own protocol: about a tool, or one that nobody here understands.
fn asked(event: &Value) -> Vec<Report> {
    let id = text_of(&event["request_id"]);
    let request = &event["request"];
    if request["subtype"] == "can_use_tool" {
        let (tool, input) = (text_of(&request["tool_name"]), request["input"].clone());
        return vec![Report::Asks(Ask { id, tool, input })];
    }
    let refused = json!(format!("{} is not supported", text_of(&request["subtype"])));
    vec![Report::Write(control_response(&id, "error", "error", &refused))]
}

fn control_response(id: &str, subtype: &str, key: &str, value: &Value) -> Vec<u8> {
    let response = json!({"subtype": subtype, "request_id": id, key: value});
    format!("{}\n", json!({"type": "control_response", "response": response})).into_bytes()
}

/// Returns what was wrong with the model, if the terminal event says that it was the model.
fn model_error(event: &Value) -> Option<ModelError> {
    if event["terminal_reason"] == "prompt_too_long" {
        return Some(ModelError::TooLong);
    }
    if event["stop_reason"] == "refusal" {
        return Some(ModelError::Refusal);
    }
    if let Some(status) = event["api_error_status"].as_u64() {
        return Some(ModelError::of_status(status));
    }
    match event["api_error"].as_str() {
        Some("connection_failed") => Some(ModelError::Unreachable),
        Some(_) => Some(ModelError::Other),
        None if event["terminal_reason"] == "api_error" => Some(ModelError::Other),
        None => of_words(event["result"].as_str().unwrap_or_default()),
    }
}

/// Older versions tell the status only in words.
fn of_words(text: &str) -> Option<ModelError> {
    let status = text.split("API Error: ").nth(1)?.split(|digit: char| !digit.is_ascii_digit()).next()?;
    Some(status.parse().map_or(ModelError::Other, ModelError::of_status))
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

/// Returns an amount in millionths of a dollar, unless it is none.
fn microusd(dollars: f64) -> Option<u64> {
    let amount = (dollars * 1_000_000.0).round();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
    (amount.is_finite() && (0.0..1e15).contains(&amount)).then_some(amount as u64)
}
