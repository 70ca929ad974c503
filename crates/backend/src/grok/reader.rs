//! Understands the stream of Grok: pieces of text, tools, and an end or an error as its last word.

use domain::run::{AgentEnd, Cost, CostBasis, Failure, LimitName, ModelError, Usage};
use serde_json::Value;

use crate::calls::Calls;
use crate::contract::{Answer, Conclusion, Exit, Report};
use crate::json_lines::Events;
use crate::kept::{self, Kept, Message};
use crate::told_error;
use crate::worded_schema;

/// Its smallest part of a dollar, of which a millionth has so many.
const TICKS_PER_MICROUSD: u64 = 10_000;

/// The stream of one run.
pub(super) struct Stream {
    structured: bool,
    kept: Kept,
    /// What was said since the last tool was used.
    message: Message,
    calls: Calls,
    /// The last word: an end, or an error.
    last: Option<Value>,
}

impl Stream {
    pub(super) fn new(structured: bool) -> Self {
        Self {
            structured,
            kept: Kept::default(),
            message: Message::default(),
            calls: Calls::default(),
            last: None,
        }
    }

    fn tool_began(&mut self, event: &Value) -> Vec<Report> {
        let mut reports = Vec::new();
        if !self.message.is_empty() {
            self.kept.say(&self.message.take());
            reports.push(Report::Said("\n".to_owned()));
        }
        let told = event["toolName"].as_str().or(event["title"].as_str()).unwrap_or_default();
        let (id, name) = (id_of(event), told.to_owned());
        self.calls.began(&id, &name);
        reports.push(Report::ToolCalled { id, name, input: event["rawInput"].clone() });
        reports
    }

    fn tool_ended(&mut self, event: &Value) -> Vec<Report> {
        let ok = match event["status"].as_str() {
            Some("completed") => true,
            Some("failed") => false,
            _ => return Vec::new(),
        };
        let id = id_of(event);
        let name = self.calls.ended(&id);
        let output = kept::message(&event["rawOutput"].to_string());
        let denied = !ok && output.to_lowercase().contains("permission denied");
        let mut reports = vec![Report::ToolReturned { id: id.clone(), ok, output }];
        if denied {
            reports.push(Report::Denied {
                call: id,
                tool: name,
                reason: "by the rules or the sandbox of grok".to_owned(),
            });
        }
        reports
    }

    fn without_end(&self, exit: Exit) -> Failure {
        let stderr = self.kept.stderr();
        match exit {
            Exit::Code(1..) if !stderr.is_empty() => failure(&stderr),
            exit => kept::without_end(exit),
        }
    }
}

impl Events for Stream {
    fn keeps(&mut self) -> &mut Kept {
        &mut self.kept
    }

    fn take(&mut self, event: Value) -> Vec<Report> {
        match event["type"].as_str() {
            Some("text") => {
                let text = event["data"].as_str().unwrap_or_default();
                let cut = self.message.add(text);
                self.kept.piece(text);
                std::iter::once(Report::Said(text.to_owned())).chain(cut).collect()
            }
            Some("tool_call") => self.tool_began(&event),
            Some("tool_call_update") => self.tool_ended(&event),
            Some("end" | "error") if self.last.is_none() => {
                let reports = told_at_the_end(&event);
                self.last = Some(event);
                reports
            }
            _ => Vec::new(),
        }
    }

    fn concluded(&mut self, exit: Exit) -> Conclusion {
        let last = self.last.take();
        let end = match (&last, exit) {
            (None, exit) => AgentEnd::Failed(self.without_end(exit)),
            (Some(event), _) if event["type"] == "error" => {
                AgentEnd::Failed(failure(event["message"].as_str().unwrap_or("it failed without a reason")))
            }
            (Some(_), Exit::Signal(signal)) => AgentEnd::Failed(Failure::Signal { signal }),
            (Some(event), Exit::Code(code)) => end(event, code, self.message.as_str()),
        };
        let answer = match (&end, self.message.is_empty()) {
            (AgentEnd::Done, false) => Answer::Text(self.message.take()),
            _ => self.kept.answer(),
        };
        let mut conclusion = Conclusion::new(end, answer);
        conclusion.session = last.and_then(|event| Some(event["sessionId"].as_str()?.to_owned()));
        if self.structured {
            worded_schema::read_value(&mut conclusion);
        }
        conclusion
    }
}

fn id_of(event: &Value) -> String {
    event["toolCallId"].as_str().unwrap_or_default().to_owned()
}

/// Returns what a message about a failure means.
fn failure(message: &str) -> Failure {
    let text = message.to_lowercase();
    let told = kept::message(message);
    match told_error::model_error(message) {
        _ if text.contains("session") && text.contains("not found") => Failure::Session { reason: told },
        Some(error) => Failure::Model { error, message: told },
        None => Failure::Agent { message: told },
    }
}

/// Returns what the last word says about what was used: tokens of this run alone, and a price if it is complete.
fn told_at_the_end(event: &Value) -> Vec<Report> {
    let models = event["modelUsage"].as_object().into_iter().flatten();
    let mut reports: Vec<Report> = models.map(|(model, _)| Report::Model(model.clone())).take(1).collect();
    let Some(told) = event.get("usage").filter(|told| told.is_object()) else { return reports };
    let count = |keys: &[&str]| keys.iter().filter_map(|key| told[*key].as_u64()).sum::<u64>();
    let ticks = event["total_cost_usd_ticks"].as_u64();
    let cost = ticks.map(|ticks| Cost { microusd: ticks / TICKS_PER_MICROUSD, basis: CostBasis::Reported });
    reports.push(Report::Used(Usage {
        input_tokens: count(&["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"]),
        output_tokens: count(&["output_tokens"]),
        cache_read_tokens: count(&["cache_read_input_tokens"]),
        cache_write_tokens: count(&["cache_creation_input_tokens"]),
        cost,
    }));
    reports
}

fn end(event: &Value, code: i32, said: &str) -> AgentEnd {
    let told = event["stopReason"].as_str().unwrap_or_default();
    // Older versions write the same words in one: `EndTurn`.
    let reason = told.replace('_', "").to_lowercase();
    match (reason.as_str(), code) {
        ("refusal", _) => {
            let message = kept::message(said);
            AgentEnd::Failed(Failure::Model { error: ModelError::Refusal, message })
        }
        ("maxturnrequests", _) => AgentEnd::OverBudget(LimitName::Turns),
        (_, code) if code != 0 => AgentEnd::Failed(Failure::Exit { code }),
        ("endturn", _) => AgentEnd::Done,
        ("", _) => AgentEnd::Failed(Failure::Output { reason: "the end has no stopReason".to_owned() }),
        _ => AgentEnd::Failed(Failure::Output { reason: format!("it stopped as {told}") }),
    }
}
