//! Understands the stream of goose. Its exit code is 0 and its terminal event comes whatever happened: errors and the
//! end of all turns are messages without an id.

use std::collections::BTreeMap;

use domain::run::{AgentEnd, Failure, LimitName, ModelError, Usage};
use serde_json::Value;

use super::versions::{
    ERROR, ERROR_MARKS, ERRORS, FINAL_OUTPUT, NO_CREDITS, NO_CREDITS_WORDS, NO_TURNS_LEFT, UNKNOWN_SESSION,
    UNKNOWN_TOOL,
};
use crate::calls::Calls;
use crate::contract::{Answer, Conclusion, Exit, Report};
use crate::cumulative;
use crate::json_lines::Events;
use crate::kept::{self, Kept, Message};

/// How many values may be given as the final output before one is accepted.
const OUTPUTS_MAX: usize = 8;

/// What the run asked for.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) structured: bool,
    /// What the session had used before, if that is known.
    pub(super) used_before: Option<Usage>,
    pub(super) session: String,
    pub(super) left_out: Vec<String>,
}

/// The stream of one run.
pub(super) struct Stream {
    expected: Expected,
    kept: Kept,
    begun: bool,
    /// The message under way, which comes in pieces, and its id.
    message: Message,
    id: Option<String>,
    calls: Calls,
    /// Values that were given as the final output and not accepted yet.
    outputs: BTreeMap<String, Value>,
    structured: Option<Value>,
    error: Option<String>,
    no_turns_left: bool,
    /// The model said something or used a tool.
    answered: bool,
    complete: bool,
}

impl Stream {
    pub(super) fn new(expected: Expected) -> Self {
        Self {
            expected,
            kept: Kept::default(),
            begun: false,
            message: Message::default(),
            id: None,
            calls: Calls::default(),
            outputs: BTreeMap::new(),
            structured: None,
            error: None,
            no_turns_left: false,
            answered: false,
            complete: false,
        }
    }

    fn message(&mut self, message: &Value) -> Vec<Report> {
        let assistant = message["role"] == "assistant";
        let id = message["id"].as_str();
        let mut reports = Vec::new();
        for part in message["content"].as_array().into_iter().flatten() {
            match part["type"].as_str() {
                Some("text") if assistant => reports.extend(self.text(text(&part["text"]), id)),
                Some("toolRequest") => {
                    reports.extend(self.finish_message());
                    self.message.take();
                    reports.extend(self.called(part));
                }
                Some("toolResponse") => reports.extend(self.returned(part)),
                Some("systemNotification") if part["notificationType"] == NO_CREDITS => {
                    self.error = Some(format!("{NO_CREDITS_WORDS}: {}", text(&part["msg"])));
                }
                _ => {}
            }
        }
        reports
    }

    /// Takes a piece of a message, or what only looks like one.
    fn text(&mut self, piece: &str, id: Option<&str>) -> Vec<Report> {
        let is_error =
            |(begin, end): &(&str, &str)| piece.starts_with(begin) && piece.trim_end().ends_with(end);
        if id.is_none() && ERROR_MARKS.iter().any(is_error) {
            self.error = Some(piece.strip_prefix(ERROR).unwrap_or(piece).to_owned());
            return self.finish_message();
        }
        if id.is_none() && piece.starts_with(NO_TURNS_LEFT) {
            self.no_turns_left = true;
            return self.finish_message();
        }
        let mut reports = Vec::new();
        if id != self.id.as_deref() || id.is_none() {
            reports = self.finish_message();
            self.message.take();
            self.id = id.map(ToOwned::to_owned);
        }
        self.answered |= !piece.trim().is_empty();
        self.kept.piece(piece);
        reports.extend(self.message.add(piece));
        reports
    }

    /// Reports the message under way as a whole, once.
    fn finish_message(&mut self) -> Vec<Report> {
        self.id = None;
        if self.message.is_empty() || !self.kept.has_pieces() {
            return Vec::new();
        }
        self.kept.say(self.message.as_str());
        vec![Report::Said(format!("{}\n", self.message.as_str()))]
    }

    fn called(&mut self, part: &Value) -> Vec<Report> {
        self.answered = true;
        let id = text(&part["id"]).to_owned();
        let call = &part["toolCall"]["value"];
        let name = text(&call["name"]);
        if name == FINAL_OUTPUT && self.outputs.len() < OUTPUTS_MAX {
            self.outputs.insert(id.clone(), call["arguments"].clone());
        }
        let name = name
            .split_once("__")
            .map_or_else(|| name.to_owned(), |(server, tool)| format!("mcp__{server}__{tool}"));
        self.calls.began(&id, &name);
        vec![Report::ToolCalled { id, name, input: call["arguments"].clone() }]
    }

    fn returned(&mut self, part: &Value) -> Vec<Report> {
        let id = text(&part["id"]).to_owned();
        let result = &part["toolResult"];
        let ok = result["status"] == "success" && result["value"]["isError"] != true;
        let texts = result["value"]["content"].as_array().into_iter().flatten();
        let mut output = texts.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n");
        if output.is_empty() {
            output = text(&result["error"]).to_owned();
        }
        if let Some(value) = self.outputs.remove(&id).filter(|_| ok) {
            self.structured = Some(value);
        }
        let name = self.calls.ended(&id);
        let denied = (!ok && output.contains(UNKNOWN_TOOL)).then(|| Report::Denied {
            call: id.clone(),
            tool: name,
            reason: "the agent has no such tool".to_owned(),
        });
        let mut reports = vec![Report::ToolReturned { id, ok, output }];
        reports.extend(denied);
        reports
    }

    fn usage(&self, event: &Value) -> Option<Report> {
        let count = |key: &str| event[key].as_u64();
        let (input, output) = (count("input_tokens")?, count("output_tokens")?);
        let sum = Usage { input_tokens: input, output_tokens: output, ..Usage::default() };
        Some(cumulative::own_part("goose", sum, self.expected.used_before))
    }

    fn end(&self, exit: Exit) -> AgentEnd {
        let stderr = self.kept.stderr();
        let failure = match exit {
            _ if stderr.contains(UNKNOWN_SESSION) => Failure::Session { reason: kept::message(&stderr) },
            _ if self.error.is_some() => of_words(self.error.as_deref().unwrap_or_default()),
            Exit::Signal(signal) => Failure::Signal { signal },
            Exit::Code(0) if self.complete && self.no_turns_left => {
                return AgentEnd::OverBudget(LimitName::Turns);
            }
            Exit::Code(0) if !self.complete => {
                Failure::Output { reason: "the stream ended without its terminal event".to_owned() }
            }
            Exit::Code(0) if !self.answered => {
                let message = "goose ended without a word of its model".to_owned();
                Failure::Model { error: ModelError::Other, message }
            }
            Exit::Code(0) if self.expected.structured && self.structured.is_none() => {
                Failure::without_value("the agent answered in words and gave no value")
            }
            Exit::Code(0) => return AgentEnd::Done,
            // Before it begins, it says in words on standard output what it lacks.
            Exit::Code(_) if !self.begun && !self.kept.text().is_empty() => {
                let text = self.kept.text();
                of_words(&kept::message(text.strip_prefix("error:").unwrap_or(&text)))
            }
            Exit::Code(code) => Failure::Exit { code },
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
        if !std::mem::replace(&mut self.begun, true) {
            reports.push(Report::Session(self.expected.session.clone()));
            let left_out = self.expected.left_out.iter();
            reports.extend(left_out.map(|server| {
                Report::Warned(format!(
                    "the MCP server {server} is left out: the permission allows none of its tools"
                ))
            }));
        }
        match event["type"].as_str() {
            Some("message") => reports.extend(self.message(&event["message"])),
            Some("error") => self.error = Some(text(&event["error"]).to_owned()),
            Some("complete") => {
                self.complete = true;
                reports.extend(self.finish_message());
                reports.extend(self.usage(&event));
            }
            _ => {}
        }
        reports
    }

    fn concluded(&mut self, exit: Exit) -> Conclusion {
        let end = self.end(exit);
        let answer = match (&end, &self.structured) {
            (AgentEnd::Done, Some(value)) => Answer::Text(value.to_string()),
            (AgentEnd::Done, None) => Answer::Text(self.message.take()),
            _ => self.kept.answer(),
        };
        let mut conclusion = Conclusion::new(end, answer);
        conclusion.structured = self.structured.take().filter(|_| conclusion.end == AgentEnd::Done);
        conclusion
    }
}

/// Returns what the words of an error mean.
fn of_words(words: &str) -> Failure {
    let known = ERRORS.iter().find(|(start, _)| words.contains(start)).map(|(_, error)| *error);
    let error = known.unwrap_or(ModelError::Other);
    Failure::Model { error, message: kept::message(words) }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
