//! Understands the stream of Cursor. A failure has no event: only a message on the error stream and an exit code. The
//! program is known to stay after its result, so that the result ends it.

use domain::run::{AgentEnd, Failure};
use serde_json::Value;

use crate::contract::{Answer, Conclusion, Exit, Report};
use crate::json_lines::Events;
use crate::kept::{self, Kept};
use crate::stream_json::answer_of;
use crate::told_error;
use crate::worded_schema;

/// How the name of each kind of tool ends in the stream.
const TOOL_SUFFIX: &str = "ToolCall";
/// The kind of all tools that have none of their own; their name is a member.
const OTHER_TOOL: &str = "function";

/// The stream of one run.
pub(super) struct Stream {
    structured: bool,
    kept: Kept,
    session: Option<String>,
    result: Option<Value>,
}

impl Stream {
    pub(super) fn new(structured: bool) -> Self {
        Self { structured, kept: Kept::default(), session: None, result: None }
    }

    /// Takes in what was said. A piece has a time and no number of a call; a whole message repeats its pieces.
    fn hear(&mut self, event: &Value) -> Vec<Report> {
        let blocks = event["message"]["content"].as_array().into_iter().flatten();
        let said: String = blocks.filter_map(|block| block["text"].as_str()).collect();
        if said.is_empty() {
            return Vec::new();
        }
        if event.get("timestamp_ms").is_some() && event.get("model_call_id").is_none() {
            self.kept.piece(&said);
            return vec![Report::Said(said)];
        }
        let told = self.kept.has_pieces();
        self.kept.say(&said);
        vec![Report::Said(if told { "\n".to_owned() } else { format!("{said}\n") })]
    }

    fn without_result(&self, exit: Exit) -> Failure {
        let stderr = self.kept.stderr();
        let unknown_session = || {
            let text = stderr.to_lowercase();
            text.contains("chat") && text.contains("not found")
        };
        if let (Exit::Code(1..), Some(error)) = (exit, told_error::model_error(&stderr)) {
            return Failure::Model { error, message: kept::message(&stderr) };
        }
        match exit {
            Exit::Signal(signal) => Failure::Signal { signal },
            Exit::Code(_) if unknown_session() => Failure::Session { reason: kept::message(&stderr) },
            Exit::Code(0) => {
                Failure::Output { reason: "the stream ended without its terminal event".to_owned() }
            }
            Exit::Code(_) if !stderr.is_empty() => Failure::Agent { message: kept::message(&stderr) },
            Exit::Code(code) => Failure::Exit { code },
        }
    }
}

impl Events for Stream {
    fn keeps(&mut self) -> &mut Kept {
        &mut self.kept
    }

    fn take(&mut self, event: Value) -> Vec<Report> {
        let mut reports = Vec::new();
        if self.session.is_none() {
            self.session = event["session_id"].as_str().map(ToOwned::to_owned);
            reports.extend(self.session.clone().map(Report::Session));
        }
        match event["type"].as_str() {
            Some("system") => {
                reports.extend(event["model"].as_str().map(|model| Report::Model(model.to_owned())));
            }
            Some("assistant") => reports.extend(self.hear(&event)),
            Some("tool_call") => reports.extend(tool(&event)),
            // The first result counts: nothing that comes later was asked for.
            Some("result") if self.result.is_none() => {
                self.result = Some(event);
                reports.push(Report::Finished);
            }
            _ => {}
        }
        reports
    }

    fn concluded(&mut self, exit: Exit) -> Conclusion {
        let mut conclusion = match self.result.take() {
            Some(event) if event["subtype"] == "success" && event["is_error"] == false => {
                Conclusion::new(AgentEnd::Done, Answer::Text(answer_of(&event)))
            }
            Some(event) => {
                let message = kept::message(event["result"].as_str().unwrap_or("it failed without a reason"));
                Conclusion::new(AgentEnd::Failed(Failure::Agent { message }), self.kept.answer())
            }
            None => Conclusion::new(AgentEnd::Failed(self.without_result(exit)), self.kept.answer()),
        };
        if self.structured {
            worded_schema::read_value(&mut conclusion);
        }
        conclusion.session = self.session.take();
        conclusion
    }
}

/// A tool's begin or end. Its kind is the name of the one member.
fn tool(event: &Value) -> Vec<Report> {
    let id = event["call_id"].as_str().unwrap_or_default().to_owned();
    let Some((kind, call)) = event["tool_call"].as_object().and_then(|call| call.iter().next()) else {
        return Vec::new();
    };
    let own = call["name"].as_str().filter(|_| kind == OTHER_TOOL);
    let name = own.unwrap_or_else(|| kind.strip_suffix(TOOL_SUFFIX).unwrap_or(kind)).to_owned();
    if event["subtype"] == "started" {
        let input = call.get("args").or_else(|| call.get("arguments")).cloned().unwrap_or_default();
        return vec![Report::ToolCalled { id, name, input }];
    }
    let result = &call["result"];
    let ok = result.get("success").is_some();
    let output = result.get("success").unwrap_or(result).to_string();
    let rejected = result.get("rejected").is_some();
    let mut reports = vec![Report::ToolReturned { id: id.clone(), ok, output: kept::message(&output) }];
    if rejected {
        let reason = "by the settings of cursor".to_owned();
        reports.push(Report::Denied { call: id, tool: name, reason });
    }
    reports
}
