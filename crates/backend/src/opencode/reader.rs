//! Understands the stream of opencode. It has no terminal event: only a last step that ended by itself, and a program
//! that ended well, are a success.

use domain::run::{AgentEnd, Cost, Failure, ModelError, Usage};
use serde_json::Value;

use super::versions::{DELEGATION, DENIED, INVALID, LOG_LINE, OTHER_AGENT, UNKNOWN_SESSION, lost_request};
use crate::contract::{Answer, Conclusion, Exit, Report};
use crate::json_lines::Events;
use crate::kept::{self, Kept, Message};
use crate::lines::{Line, Lines};
use crate::lost_requests::LostRequests;
use crate::worded_schema;

/// The stream of one run.
pub(super) struct Stream {
    structured: bool,
    kept: Kept,
    session: Option<String>,
    /// What was said in the step under way, or in the last one.
    step: Message,
    /// How the last step ended; nothing while one is under way.
    reason: Option<String>,
    error: Option<Value>,
    /// The line of the error stream under way.
    complaint: Lines,
    lost: LostRequests,
    /// Its service cannot be reached.
    lost_failure: Option<Failure>,
    /// Work was handed to another agent of the program's.
    has_delegated: bool,
}

impl Stream {
    pub(super) fn new(structured: bool) -> Self {
        Self {
            structured,
            kept: Kept::default(),
            session: None,
            step: Message::default(),
            reason: None,
            error: None,
            complaint: Lines::default(),
            lost: LostRequests::new(lost_request),
            lost_failure: None,
            has_delegated: false,
        }
    }

    /// Keeps a line that is not of the log.
    fn complain(&mut self, line: &[u8]) {
        if !line.starts_with(LOG_LINE.as_bytes()) {
            self.kept.complain(line);
            self.kept.complain(b"\n");
        }
    }

    fn end(&self, exit: Exit) -> AgentEnd {
        if let Some(failure) = &self.lost_failure {
            return AgentEnd::Failed(failure.clone());
        }
        let stderr = self.kept.stderr();
        let failure = match (exit, self.reason.as_deref()) {
            _ if stderr.contains(UNKNOWN_SESSION) => Failure::Session { reason: kept::message(&stderr) },
            _ if stderr.contains(OTHER_AGENT) => Failure::Agent { message: kept::message(&stderr) },
            _ if self.error.is_some() => failure(self.error.as_ref().unwrap_or(&Value::Null)),
            (Exit::Signal(signal), _) => Failure::Signal { signal },
            (Exit::Code(0), Some("stop")) => return AgentEnd::Done,
            (Exit::Code(0), Some("tool-calls")) => Failure::Agent {
                message: "it stopped after a tool was refused, without an answer".to_owned(),
            },
            (Exit::Code(0), Some("length")) => {
                Failure::Output { reason: "the model had no tokens left for its answer".to_owned() }
            }
            (Exit::Code(0), Some(other)) => {
                Failure::Output { reason: format!("the last step ended as {other}") }
            }
            (Exit::Code(0), None) => {
                Failure::Output { reason: "the stream ended without the end of a step".to_owned() }
            }
            (Exit::Code(code), _) => Failure::Exit { code },
        };
        AgentEnd::Failed(failure)
    }
}

impl Events for Stream {
    fn keeps(&mut self) -> &mut Kept {
        &mut self.kept
    }

    fn take(&mut self, event: Value) -> Vec<Report> {
        let mut reports = Vec::new();
        self.lost.reset();
        if self.session.is_none() {
            self.session = event["sessionID"].as_str().map(ToOwned::to_owned);
            reports.extend(self.session.clone().map(Report::Session));
        }
        let part = &event["part"];
        match event["type"].as_str() {
            Some("step_start") => {
                self.step.take();
                self.reason = None;
                self.error = None;
            }
            Some("text") => {
                let said = text(&part["text"]);
                if !said.is_empty() {
                    self.kept.say(said);
                    reports.extend(self.step.add(said));
                    reports.push(Report::Said(format!("{said}\n")));
                }
            }
            Some("tool_use") => {
                reports.extend(used(part));
                if part["tool"] == DELEGATION && !std::mem::replace(&mut self.has_delegated, true) {
                    let told = "what other agents of opencode used is not counted: it does not tell";
                    reports.push(Report::Warned(told.to_owned()));
                }
            }
            Some("step_finish") => {
                self.reason = Some(text(&part["reason"]).to_owned());
                reports.extend(usage(part).map(Report::Used));
            }
            Some("error") => self.error = Some(event["error"].clone()),
            _ => {}
        }
        reports
    }

    fn complained(&mut self, bytes: &[u8]) -> Vec<Report> {
        for line in self.complaint.feed(bytes) {
            if let Line::Whole(line) = line {
                self.complain(&line);
            }
        }
        let Some(failure) = self.lost.feed(bytes) else { return Vec::new() };
        self.lost_failure = Some(failure);
        vec![Report::Finished]
    }

    fn without_login(&mut self) {
        self.lost.expect_no_login();
    }

    fn concluded(&mut self, exit: Exit) -> Conclusion {
        if let Some(rest) = self.complaint.finish() {
            self.complain(&rest);
        }
        let end = self.end(exit);
        let answer = match end {
            AgentEnd::Done => Answer::Text(self.step.take()),
            _ => self.kept.answer(),
        };
        let mut conclusion = Conclusion { session: self.session.take(), ..Conclusion::new(end, answer) };
        if self.structured {
            worded_schema::read_value(&mut conclusion);
        }
        conclusion
    }
}

/// A use of a tool is told when it is over.
fn used(part: &Value) -> Vec<Report> {
    let state = &part["state"];
    // A tool that was taken away, or called wrongly, is told as a use of another that has worked.
    let is_stand_in = part["tool"] == INVALID && state["input"]["tool"].is_string();
    let name = text(if is_stand_in { &state["input"]["tool"] } else { &part["tool"] }).to_owned();
    let id = text(&part["callID"]).to_owned();
    let completed = state["status"] == "completed";
    let ok = completed && !is_stand_in;
    let output = text(&state[if completed { "output" } else { "error" }]).to_owned();
    let denied = !ok && DENIED.iter().any(|words| output.contains(words));
    let warning = denied.then(|| Report::Denied {
        call: id.clone(),
        tool: name.clone(),
        reason: "by the rules of this run".to_owned(),
    });
    let mut reports = vec![
        Report::ToolCalled { id: id.clone(), name, input: state["input"].clone() },
        Report::ToolReturned { id, ok, output },
    ];
    reports.extend(warning);
    reports
}

fn usage(part: &Value) -> Option<Usage> {
    let tokens = &part["tokens"];
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    // Nothing stands for a price that is not known.
    let cost = part["cost"].as_f64().and_then(Cost::reported).filter(|cost| cost.microusd > 0);
    let usage = Usage {
        input_tokens: count(&tokens["input"])
            .saturating_add(count(&tokens["cache"]["read"]))
            .saturating_add(count(&tokens["cache"]["write"])),
        output_tokens: count(&tokens["output"]).saturating_add(count(&tokens["reasoning"])),
        cache_read_tokens: count(&tokens["cache"]["read"]),
        cache_write_tokens: count(&tokens["cache"]["write"]),
        cost,
    };
    (usage != Usage::default()).then_some(usage)
}

fn failure(error: &Value) -> Failure {
    let data = &error["data"];
    let name = text(&error["name"]);
    let told = [text(&data["message"]), text(&error["message"]), name];
    let message = kept::message(told.into_iter().find(|text| !text.is_empty()).unwrap_or_default());
    let status = data["statusCode"].as_u64().map(ModelError::of_status);
    let error = match (name, status) {
        ("ProviderAuthError", _) => ModelError::Denied,
        ("ContextOverflowError", _) => ModelError::TooLong,
        (_, Some(error)) => error,
        ("APIError" | "MessageOutputLengthError", None) => ModelError::Other,
        ("ProviderModelNotFoundError", None) => ModelError::Unknown,
        _ => return Failure::Agent { message },
    };
    Failure::Model { error, message }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
