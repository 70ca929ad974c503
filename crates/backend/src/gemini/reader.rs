//! Understands the stream of Gemini CLI. Only its `result` ends a run; its exit code only tells which status the
//! service answered with.

use domain::run::{AgentEnd, Failure, LimitName, ModelError, Usage};
use serde_json::Value;

use super::versions::{EXIT_AUTHENTICATION, EXIT_TURNS, FORBIDDEN, NOT_OFFERED, UNKNOWN_SESSION, WOULD_ASK};
use crate::calls::Calls;
use crate::contract::{Answer, Conclusion, Exit, Report};
use crate::json_lines::Events;
use crate::kept::{self, Kept, Message};
use crate::worded_schema;

/// How many models are told apart.
const MODELS_MAX: usize = 16;
/// Written to stderr between two requests to the model.
const RETRYING: &str = "Retrying with backoff";
/// Said before a `result` that claims success.
const TURNS_EXCEEDED: &str = "Maximum session turns exceeded";

/// The stream of one run.
#[derive(Default)]
pub(super) struct Stream {
    /// The answer shall be a value.
    structured: bool,
    kept: Kept,
    /// What was said in the last turn that said something.
    answer: Message,
    turn_over: bool,
    calls: Calls,
    model: Option<String>,
    /// The last error that was told before the end.
    error: Option<String>,
    result: Option<Value>,
}

impl Stream {
    pub(super) fn new(structured: bool) -> Self {
        Self { structured, ..Self::default() }
    }

    fn begun(&mut self, event: &Value) -> Vec<Report> {
        self.model = event["model"].as_str().map(ToOwned::to_owned);
        let session = event["session_id"].as_str().map(|session| Report::Session(session.to_owned()));
        session.into_iter().chain(self.model.clone().map(Report::Model)).collect()
    }

    fn said(&mut self, event: &Value) -> Vec<Report> {
        let text = event["content"].as_str().unwrap_or_default();
        if text.is_empty() {
            return Vec::new();
        }
        let mut reports = Vec::new();
        if std::mem::take(&mut self.turn_over) && !self.answer.is_empty() {
            self.kept.piece("\n");
            reports.push(Report::Said("\n".to_owned()));
            self.answer.take();
        }
        self.kept.piece(text);
        reports.push(Report::Said(text.to_owned()));
        reports.extend(self.answer.add(text));
        reports
    }

    fn called(&mut self, event: &Value) -> Vec<Report> {
        self.turn_over = true;
        let (id, name) = (text_of(&event["tool_id"]), text_of(&event["tool_name"]));
        self.calls.began(&id, &name);
        vec![Report::ToolCalled { id, name, input: event["parameters"].clone() }]
    }

    fn returned(&mut self, event: &Value) -> Vec<Report> {
        let id = text_of(&event["tool_id"]);
        let name = self.calls.ended(&id);
        let error = &event["error"];
        let told = event["output"].as_str().or_else(|| error["message"].as_str()).unwrap_or_default();
        let ok = event["status"] == "success";
        let mut reports = vec![Report::ToolReturned { id: id.clone(), ok, output: told.to_owned() }];
        let reason = error["message"].as_str().unwrap_or(told);
        let denied = match error["type"].as_str() {
            Some(NOT_OFFERED) => Some("it is not offered to this agent"),
            Some(FORBIDDEN) => Some(reason),
            Some(_) if reason.contains(WOULD_ASK) => Some(reason),
            Some(_) | None => None,
        };
        if let Some(reason) = denied {
            reports.push(Report::Denied { call: id, tool: name, reason: kept::message(reason) });
        }
        reports
    }

    /// Reports what the terminal event tells.
    fn ended(&mut self, event: &Value) -> Vec<Report> {
        let stats = &event["stats"];
        let count = |of: &Value, key: &str| of[key].as_u64().unwrap_or(0);
        let models = stats["models"].as_object().into_iter().flatten();
        let busiest = models.clone().max_by_key(|(_, tokens)| count(tokens, "output_tokens"));
        let really = busiest.filter(|(_, tokens)| count(tokens, "output_tokens") > 0).map(|(name, _)| name);
        let other = really.filter(|name| self.model.as_ref() != Some(name));
        let mut reports: Vec<Report> = other.cloned().map(Report::Model).into_iter().collect();
        let mut rest = usage(stats);
        for (model, tokens) in models.take(MODELS_MAX) {
            let used = usage(tokens);
            if let Some(left) = rest.beyond(used).filter(|_| !used.is_nothing()) {
                rest = left;
                reports.push(Report::UsedBy { model: model.clone(), usage: used });
            }
        }
        reports.extend((!rest.is_nothing()).then_some(Report::Used(rest)));
        reports
    }

    fn conclude_result(&mut self, event: &Value, exit: Exit) -> Conclusion {
        let told = event["error"]["message"].as_str().map(kept::message);
        let exceeded = self.error.as_deref() == Some(TURNS_EXCEEDED);
        let end = match (event["status"].as_str(), event["error"]["type"].as_str()) {
            (Some("success"), _) if exceeded => AgentEnd::OverBudget(LimitName::Turns),
            (Some("success"), _) => AgentEnd::Done,
            (_, Some("FatalTurnLimitedError")) => AgentEnd::OverBudget(LimitName::Turns),
            (_, _) if exit == Exit::Code(EXIT_TURNS) => AgentEnd::OverBudget(LimitName::Turns),
            (_, _) => {
                let message = told.or_else(|| self.error.take()).unwrap_or_default();
                AgentEnd::Failed(match model_error(event, &message, exit) {
                    Some(error) => Failure::Model { error, message },
                    None => Failure::Agent { message },
                })
            }
        };
        let answer = match end {
            AgentEnd::Done => Answer::Text(self.answer.take()),
            _ => self.kept.answer(),
        };
        let mut conclusion = Conclusion::new(end, answer);
        if self.structured {
            worded_schema::read_value(&mut conclusion);
        }
        conclusion
    }
}

impl Events for Stream {
    fn keeps(&mut self) -> &mut Kept {
        &mut self.kept
    }

    fn take(&mut self, event: Value) -> Vec<Report> {
        match event["type"].as_str() {
            Some("init") => self.begun(&event),
            Some("message") if event["role"] == "assistant" => self.said(&event),
            Some("tool_use") => self.called(&event),
            Some("tool_result") => self.returned(&event),
            Some("error") => {
                let message = kept::message(event["message"].as_str().unwrap_or_default());
                self.error = Some(message.clone());
                vec![Report::Warned(message)]
            }
            Some("result") => {
                let reports = self.ended(&event);
                self.result = Some(event);
                reports
            }
            _ => Vec::new(),
        }
    }

    fn concluded(&mut self, exit: Exit) -> Conclusion {
        if let Some(event) = self.result.take() {
            return self.conclude_result(&event, exit);
        }
        let stderr = self.kept.stderr();
        let unknown = UNKNOWN_SESSION.iter().find_map(|words| stderr.find(words));
        let failure = match (unknown, exit) {
            (Some(at), _) => Failure::Session { reason: kept::message(&stderr[at..]) },
            (None, Exit::Code(EXIT_AUTHENTICATION)) => {
                Failure::Model { error: ModelError::Denied, message: kept::message(&stderr) }
            }
            (None, exit) => kept::without_end(exit),
        };
        let answer = self.kept.answer();
        // What it wrote before it said anything may be long over.
        let retries = retries(&stderr).filter(|_| answer == Answer::Nothing);
        let reports = retries.into_iter().collect();
        Conclusion { reports, ..Conclusion::new(AgentEnd::Failed(failure), answer) }
    }
}

/// Returns why the program was asking its model again when it was ended: `Attempt 3 failed with status 503. Retrying with
/// backoff... Error: …`, of which the last one counts.
fn retries(stderr: &str) -> Option<Report> {
    let line = stderr.lines().rfind(|line| line.starts_with("Attempt ") && line.contains(RETRYING))?;
    let (_, why) = line.split_once(RETRYING)?;
    let mut words = line.split(|character: char| !character.is_ascii_digit());
    let status = words.find_map(|word| word.parse().ok().filter(|status| (400..600).contains(status)));
    let error = status.map_or_else(
        || if is_unreachable(why) { ModelError::Unreachable } else { ModelError::Other },
        ModelError::of_status,
    );
    let why = why.trim_start_matches(['.', ' ']).trim();
    Some(Report::Retries { error, message: kept::message(&format!("gemini asks its model again: {why}")) })
}

/// Returns what was wrong with the model, if it was the model.
fn model_error(event: &Value, message: &str, exit: Exit) -> Option<ModelError> {
    if message.starts_with("The model response was blocked") {
        return Some(ModelError::Refusal);
    }
    if is_unreachable(message) {
        return Some(ModelError::Unreachable);
    }
    let lower = message.to_ascii_lowercase();
    if lower.contains("token count") && lower.contains("exceeds") {
        return Some(ModelError::TooLong);
    }
    // The only status that it exits with 1 for.
    if lower.contains("models/") && lower.contains("is not found") {
        return Some(ModelError::Unknown);
    }
    // The exit code is the status of the service, of which eight bits are left.
    let status = match exit {
        Exit::Code(code @ 144..=255) => u64::try_from(code).ok().map(|code| code + 256),
        Exit::Code(17) => Some(529),
        Exit::Code(_) | Exit::Signal(_) => None,
    };
    match status {
        Some(status) => Some(ModelError::of_status(status)),
        // An answer that the program cannot take has no error of its own, only words before it.
        None => (event["error"].is_null() || message.starts_with("[API Error")).then_some(ModelError::Other),
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Gemini counts what came from a cache as input, and what the model thought in the total only.
fn usage(told: &Value) -> Usage {
    let count = |key: &str| told[key].as_u64().unwrap_or(0);
    let input_tokens = count("input_tokens");
    let beyond = count("total_tokens").saturating_sub(input_tokens);
    let output_tokens = count("output_tokens").max(beyond);
    Usage { input_tokens, output_tokens, cache_read_tokens: count("cached"), ..Usage::default() }
}

fn is_unreachable(message: &str) -> bool {
    let lower = message.to_ascii_lowercase();
    ["fetch failed", "econnrefused", "enotfound", "eai_again", "etimedout"]
        .iter()
        .any(|word| lower.contains(word))
}
