//! Understands the lines of Kimi Code. Only its word about how to go on ends a run well; why one failed stands on its
//! error stream alone.

use domain::run::{AgentEnd, Failure, ModelError};
use serde_json::Value;

use super::versions::{ERRORS, FAILED, NO_SESSION, UNKNOWN_TOOL, WRONG};
use crate::contract::{Answer, Conclusion, Exit, Report};
use crate::json_lines::Events;
use crate::kept::{self, Kept};
use crate::worded_schema;

/// The output of one run.
pub(super) struct Stream {
    structured: bool,
    /// What the name of the session ends with.
    began_with: String,
    kept: Kept,
    /// The last message that the agent wrote.
    answer: String,
    /// The session, whose name is its last word.
    session: Option<String>,
    /// That it tries again was told.
    retried: bool,
}

impl Stream {
    pub(super) fn new(structured: bool, began_with: String) -> Self {
        Self {
            structured,
            began_with,
            kept: Kept::default(),
            answer: String::new(),
            session: None,
            retried: false,
        }
    }

    fn message(&mut self, event: &Value) -> Vec<Report> {
        let mut reports = Vec::new();
        let said = text(&event["content"]);
        if !said.trim().is_empty() {
            self.kept.say(&said);
            reports.push(Report::Said(format!("{said}\n")));
            self.answer = said;
        }
        for call in event["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            let arguments = text(&function["arguments"]);
            let input = serde_json::from_str(&arguments).unwrap_or(Value::String(arguments));
            reports.push(Report::ToolCalled { id: text(&call["id"]), name: text(&function["name"]), input });
        }
        reports
    }

    /// Names why a run ended without its last word.
    fn failure(&self, exit: Exit) -> Failure {
        let stderr = self.kept.stderr();
        let line = |mark: &str| stderr.lines().find_map(|line| line.strip_prefix(mark)).map(kept::message);
        let (Exit::Code(1), Some(message)) = (exit, line(FAILED).or_else(|| line(WRONG))) else {
            return kept::without_end(exit);
        };
        if message.starts_with(NO_SESSION.0) && message.contains(NO_SESSION.1) {
            return Failure::Session { reason: message };
        }
        match model_error(&message) {
            Some(error) => Failure::Model { error, message },
            None => Failure::Agent { message },
        }
    }
}

impl Events for Stream {
    fn keeps(&mut self) -> &mut Kept {
        &mut self.kept
    }

    fn take(&mut self, event: Value) -> Vec<Report> {
        match (event["role"].as_str(), event["type"].as_str()) {
            (Some("assistant"), _) => self.message(&event),
            (Some("tool"), _) => {
                let (id, output) = (text(&event["tool_call_id"]), text(&event["content"]));
                let missing = missing_tool(&output);
                let denied = missing.map(|tool| Report::Denied {
                    call: id.clone(),
                    tool,
                    reason: "the agent has no such tool".to_owned(),
                });
                let ok = event["is_error"] != true && denied.is_none();
                denied.into_iter().chain([Report::ToolReturned { id, ok, output }]).collect()
            }
            (Some("meta"), Some("session.resume_hint")) => {
                let named = event["session_id"].as_str().map(|id| format!("{id}-{}", self.began_with));
                self.session = named.clone().or(self.session.take());
                named.map(Report::Session).into_iter().collect()
            }
            (Some("meta"), Some("turn.step.retrying")) if !self.retried => {
                self.retried = true;
                let why = event["error_message"].as_str().unwrap_or("it does not say why");
                let error = model_error(why).unwrap_or(ModelError::Other);
                let message = kept::message(&format!("kimi asks its model again: {why}"));
                vec![Report::Retries { error, message }]
            }
            _ => Vec::new(),
        }
    }

    fn concluded(&mut self, exit: Exit) -> Conclusion {
        let end = match (&self.session, exit) {
            (Some(_), Exit::Code(0)) => AgentEnd::Done,
            _ => AgentEnd::Failed(self.failure(exit)),
        };
        let answer = match end {
            AgentEnd::Done => Answer::Text(std::mem::take(&mut self.answer)),
            _ => self.kept.answer(),
        };
        let mut conclusion = Conclusion { session: self.session.take(), ..Conclusion::new(end, answer) };
        if self.structured {
            worded_schema::read_value(&mut conclusion);
        }
        conclusion
    }
}

/// Returns the tool that a run tried to use and does not have.
/// Returns what was wrong with the model, if the message begins with the name of such an error.
fn model_error(message: &str) -> Option<ModelError> {
    let (_, named) = ERRORS.iter().find(|(name, _)| message.starts_with(name))?;
    let words = message.split(|character: char| !character.is_ascii_digit());
    let status = words.filter_map(|word| word.parse().ok()).find(|status| (400..600).contains(status));
    Some(status.map_or(*named, ModelError::of_status))
}

fn missing_tool(output: &str) -> Option<String> {
    let (before, after) = UNKNOWN_TOOL;
    let name = output.trim().strip_prefix(before)?.strip_suffix(after)?;
    (!name.contains('"')).then(|| kept::message(name))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
