//! The stream that Claude Code began and Qwen Code took over. Only its `result` ends a run; neither the exit code nor
//! `subtype` decide alone. What the two say differently is a [`Dialect`].

use domain::run::{AgentEnd, Failure, LimitName, Usage};
use serde_json::{Value, json};

use crate::contract::{Answer, Ask, Conclusion, Decision, Exit, Report};
use crate::json_lines::Events;
use crate::kept::{self, Kept};

/// How one program speaks this stream.
pub(crate) trait Dialect {
    /// Who denied what nobody was asked about.
    const DENIED_BY: &'static str;
    /// The limits at which the program itself ends a run, as its `subtype` names them.
    const LIMITS: &'static [(&'static str, LimitName)];
    /// Its list of denials begins with those that were decided here.
    const LISTS_DECIDED: bool;

    /// Returns what the beginning tells beside session and model.
    fn begun(&self, _event: &Value) -> Vec<Report> {
        Vec::new()
    }

    /// Tells whether the name is that of the model which answers, and not only what the program asks for.
    fn is_model(&self, _name: &str) -> bool {
        true
    }

    /// Returns what of a text the model said itself, and not the program in its name.
    fn of_model<'a>(&self, message: &Value, text: &'a str) -> &'a str;

    /// Takes in what one message used, if it tells that.
    fn turn_used(&mut self, _message: &Value) -> Usage {
        Usage::default()
    }

    /// Returns the tokens that an event within a message tells of that message so far, where no other event tells them
    /// before the end.
    fn tokens(&self, _usage: &Value) -> Option<Usage> {
        None
    }

    /// Returns the tool that an error says the agent does not have.
    fn missing_tool<'a>(&self, _error: &'a str) -> Option<&'a str> {
        None
    }

    /// Takes an event that only this program has.
    fn other(&mut self, event: &Value, kept: &mut Kept) -> Vec<Report>;

    /// Returns what the terminal event says was used.
    fn used(&mut self, event: &Value) -> Vec<Report>;

    /// Returns the answer as a value, if it is one.
    fn value(&self, event: &Value) -> Option<Value>;

    /// Names the failure that the terminal event tells.
    fn failure(&self, event: &Value) -> Failure;

    /// Names the end of a run that has no terminal event.
    fn without_result(&self, stderr: &str, exit: Exit) -> AgentEnd;
}

/// The stream of one run.
pub(crate) struct StreamJson<D> {
    dialect: D,
    /// The answer shall be a value.
    structured: bool,
    kept: Kept,
    /// Uses of tools that were denied here, and so were told already.
    denied: usize,
    /// Tokens of the messages since the last terminal event, and of the one that is being said.
    messages: Usage,
    message: Usage,
    result: Option<Value>,
}

impl<D: Dialect> StreamJson<D> {
    pub(crate) fn new(dialect: D, structured: bool) -> Self {
        Self {
            dialect,
            structured,
            kept: Kept::default(),
            denied: 0,
            messages: Usage::default(),
            message: Usage::default(),
            result: None,
        }
    }

    fn begun(&self, event: &Value) -> Vec<Report> {
        let mut reports = Vec::new();
        reports.extend(event["session_id"].as_str().map(|session| Report::Session(session.to_owned())));
        let model = event["model"].as_str().filter(|model| self.dialect.is_model(model));
        reports.extend(model.map(|model| Report::Model(model.to_owned())));
        reports.extend(self.dialect.begun(event));
        reports
    }

    fn assistant(&mut self, event: &Value) -> Vec<Report> {
        let message = &event["message"];
        let used = self.dialect.turn_used(message);
        // Told at once: a run that is cut short has spent it too.
        let mut reports: Vec<Report> =
            (used != Usage::default()).then_some(Report::Used(used)).into_iter().collect();
        // What a sub-agent of its own says is no part of the answer.
        let own = event["parent_tool_use_id"].is_null();
        for block in message["content"].as_array().into_iter().flatten() {
            match (block["type"].as_str(), block["text"].as_str()) {
                (Some("text"), Some(text)) if own => {
                    let text = self.dialect.of_model(message, text);
                    if !text.is_empty() {
                        self.kept.say(text);
                        reports.push(Report::Said(format!("{text}\n")));
                    }
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

    /// Counts a message while it comes: its beginning tells what went in, and what follows how much came out so far.
    fn count(&mut self, event: &Value) {
        let (begins, told) = match event["type"].as_str() {
            Some("message_start") => (true, &event["message"]["usage"]),
            Some("message_delta") => (false, &event["usage"]),
            _ => return,
        };
        let Some(told) = self.dialect.tokens(told) else { return };
        if begins {
            self.messages.add(std::mem::take(&mut self.message));
        }
        let known = self.message;
        self.message = Usage {
            input_tokens: told.input_tokens.max(known.input_tokens),
            output_tokens: told.output_tokens.max(known.output_tokens),
            cache_read_tokens: told.cache_read_tokens.max(known.cache_read_tokens),
            cache_write_tokens: told.cache_write_tokens.max(known.cache_write_tokens),
            cost: None,
        };
    }

    fn tool_results(&self, event: &Value) -> Vec<Report> {
        let blocks = event["message"]["content"].as_array().into_iter().flatten();
        let returned = blocks.filter(|block| block["type"] == "tool_result").flat_map(|block| {
            let (ok, output) = (block["is_error"] != true, content_text(&block["content"]));
            let missing = Some(&output).filter(|_| !ok).and_then(|error| self.dialect.missing_tool(error));
            let id = text_of(&block["tool_use_id"]);
            let denied = missing.map(|tool| Report::Denied {
                call: id.clone(),
                tool: kept::message(tool),
                reason: "the agent has no such tool".to_owned(),
            });
            denied.into_iter().chain([Report::ToolReturned { id, ok, output }])
        });
        returned.collect()
    }

    /// Reports what the terminal event tells, and lets the program go.
    fn ended(&mut self, event: &Value) -> Vec<Report> {
        // All that was counted is part of what it tells.
        (self.messages, self.message) = (Usage::default(), Usage::default());
        let mut reports = self.dialect.used(event);
        let denials = event["permission_denials"].as_array().into_iter().flatten();
        let told = if D::LISTS_DECIDED { self.denied } else { 0 };
        reports.extend(denials.skip(told).map(|denial| Report::Denied {
            call: text_of(&denial["tool_use_id"]),
            tool: text_of(&denial["tool_name"]),
            reason: D::DENIED_BY.to_owned(),
        }));
        reports.push(Report::CloseInput);
        reports
    }

    fn end(&self, event: &Value) -> AgentEnd {
        let subtype = event["subtype"].as_str().unwrap_or_default();
        let limit = D::LIMITS.iter().find(|(name, _)| *name == subtype);
        match (limit, subtype) {
            (Some((_, limit)), _) => AgentEnd::OverBudget(*limit),
            (None, "success") if event["is_error"] == false => AgentEnd::Done,
            (None, _) => AgentEnd::Failed(self.dialect.failure(event)),
        }
    }
}

impl<D: Dialect> Events for StreamJson<D> {
    fn keeps(&mut self) -> &mut Kept {
        &mut self.kept
    }

    fn take(&mut self, event: Value) -> Vec<Report> {
        match event["type"].as_str() {
            Some("system") if event["subtype"] == "init" => self.begun(&event),
            Some("assistant") => self.assistant(&event),
            Some("user") => self.tool_results(&event),
            Some("control_request") => asked(&event),
            Some("result") => {
                let reports = self.ended(&event);
                self.result = Some(event);
                reports
            }
            _ => {
                if event["type"] == "stream_event" && event["parent_tool_use_id"].is_null() {
                    self.count(&event["event"]);
                }
                self.dialect.other(&event, &mut self.kept)
            }
        }
    }

    fn decided(&mut self, ask: &str, decision: &Decision) -> Vec<Report> {
        let answer = match decision {
            // Without the input it would be used as it was asked for.
            Decision::Allow(input) => json!({"behavior": "allow", "updatedInput": input}),
            Decision::Answer { input, text } => {
                json!({"behavior": "allow", "updatedInput": answered(input, text)})
            }
            Decision::Deny(reason) => {
                self.denied += 1;
                json!({"behavior": "deny", "message": reason})
            }
        };
        vec![response(ask, "success", "response", &answer)]
    }

    fn concluded(&mut self, exit: Exit) -> Conclusion {
        let Some(event) = self.result.take() else {
            let end = self.dialect.without_result(&self.kept.stderr(), exit);
            self.messages.add(self.message);
            let used = (!self.messages.is_nothing()).then_some(Report::Used(self.messages));
            let reports = used.into_iter().collect();
            return Conclusion { reports, ..Conclusion::new(end, self.kept.answer()) };
        };
        let end = self.end(&event);
        let answer = match end {
            AgentEnd::Done => Answer::Text(answer_of(&event)),
            _ => self.kept.answer(),
        };
        let session = event["session_id"].as_str().map(ToOwned::to_owned);
        let mut conclusion = Conclusion { session, ..Conclusion::new(end, answer) };
        if self.structured && conclusion.end == AgentEnd::Done {
            conclusion.structured = self.dialect.value(&event);
            if conclusion.structured.is_none() {
                let reason = "the agent answered in words and gave no value".to_owned();
                conclusion.end = AgentEnd::Failed(Failure::without_value(reason));
            }
        }
        conclusion
    }
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
    vec![response(&id, "error", "error", &refused)]
}

/// Returns what an agent asked with what it is told: a line for each question, or the whole for each.
fn answered(input: &Value, text: &str) -> Value {
    let questions = input["questions"].as_array().cloned().unwrap_or_default();
    let lines: Vec<&str> = text.trim().lines().collect();
    let each = questions.iter().enumerate().filter_map(|(at, question)| {
        let said = if lines.len() == questions.len() { lines[at] } else { text.trim() };
        Some((question["question"].as_str()?.to_owned(), json!(said)))
    });
    let answers: serde_json::Map<String, Value> = each.collect();
    let mut input = input.clone();
    input["answers"] = Value::Object(answers);
    input
}

fn response(id: &str, subtype: &str, key: &str, value: &Value) -> Report {
    let response = json!({"subtype": subtype, "request_id": id, key: value});
    Report::Write(format!("{}\n", json!({"type": "control_response", "response": response})).into_bytes())
}

/// Returns the answer in a terminal event: its `result`, or its `content` where a program writes that instead.
pub(crate) fn answer_of(event: &Value) -> String {
    match event["result"].as_str().filter(|text| !text.is_empty()) {
        Some(text) => text.to_owned(),
        None if event["content"].is_null() => String::new(),
        None => content_text(&event["content"]),
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

/// Returns a text of the stream; what is none is empty.
pub(crate) fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
