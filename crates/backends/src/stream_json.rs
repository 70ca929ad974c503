//! Reads the stream format that Claude Code introduced and Qwen Code adopted. Only its `result` ends a run; neither
//! the exit code nor `subtype` decides alone. The differences between the two are a [`StreamJsonDialect`].

use std::collections::HashMap;

use domain::run::{AgentEnd, Failure, LimitName, Usage};
use serde_json::{Value, json};

use crate::agent_question;
use crate::contract::{
    AgentAnswer, AgentReport, Conclusion, Exit, NO_SUCH_TOOL, PermissionDecision, PermissionRequest,
};
use crate::json_lines::JsonLinesReader;
use crate::stream_buffer::{self, StreamBuffer};

/// How one program uses this stream format.
pub(crate) trait StreamJsonDialect {
    /// Names who denied a tool that nobody was asked about.
    const DENIED_BY: &'static str;
    /// The limits at which the program itself ends a run, as its `subtype` names them.
    const LIMITS: &'static [(&'static str, LimitName)];

    /// Returns what the first event reports besides session and model.
    fn handle_init(&self, _event: &Value) -> Vec<AgentReport> {
        Vec::new()
    }

    /// Returns whether this is the name of the model that answers, and not only of the one that the program requests.
    fn is_model(&self, _name: &str) -> bool {
        true
    }

    /// Returns the part of a text that the model wrote, without what the program wrote in its name.
    fn model_text<'a>(&self, message: &Value, text: &'a str) -> &'a str;

    /// Records and returns the usage of one message, if the message has it.
    fn message_usage(&mut self, _message: &Value) -> Usage {
        Usage::default()
    }

    /// Returns the tokens of the current message so far, if an event within it has them and no other event does
    /// before the end.
    fn partial_usage(&self, _usage: &Value) -> Option<Usage> {
        None
    }

    /// Returns the tool that the agent does not have, according to an error.
    fn missing_tool<'a>(&self, _error: &'a str) -> Option<&'a str> {
        None
    }

    /// Handles an event that only this program has.
    fn handle_other(&mut self, event: &Value, buffer: &mut StreamBuffer) -> Vec<AgentReport>;

    /// Returns the usage in the terminal event.
    fn result_usage(&mut self, event: &Value) -> Vec<AgentReport>;

    /// Returns the answer as a value, if it is one.
    fn structured_answer(&self, event: &Value) -> Option<Value>;

    /// Names the failure in the terminal event.
    fn result_failure(&self, event: &Value) -> Failure;

    /// Names the end of a run without a terminal event.
    fn end_without_result(&self, stderr: &str, exit: Exit) -> AgentEnd;
}

/// The stream of one run.
pub(crate) struct StreamJson<D> {
    dialect: D,
    /// The answer must be a value.
    structured: bool,
    buffer: StreamBuffer,
    /// The tool calls that Volery was asked about and has not decided yet, by the id of the request.
    requested: HashMap<String, RequestedTool>,
    /// The tool calls that Volery denied: they were reported already.
    denied: Vec<RequestedTool>,
    /// Tokens of the messages since the last terminal event, and of the current message.
    messages: Usage,
    message: Usage,
    result: Option<Value>,
}

/// A tool call as a permission request or a list of denials names it.
struct RequestedTool {
    /// Empty if the program does not name it.
    id: String,
    tool: String,
    input: Value,
}

impl RequestedTool {
    /// Ids decide. A program that omits one of them repeats the tool and its input.
    fn is_same(&self, other: &Self) -> bool {
        match self.id.is_empty() || other.id.is_empty() {
            true => self.tool == other.tool && self.input == other.input,
            false => self.id == other.id,
        }
    }
}

impl<D: StreamJsonDialect> StreamJson<D> {
    pub(crate) fn new(dialect: D, structured: bool) -> Self {
        Self {
            dialect,
            structured,
            buffer: StreamBuffer::default(),
            requested: HashMap::new(),
            denied: Vec::new(),
            messages: Usage::default(),
            message: Usage::default(),
            result: None,
        }
    }

    fn begun(&self, event: &Value) -> Vec<AgentReport> {
        let mut reports = Vec::new();
        reports.extend(event["session_id"].as_str().map(|session| AgentReport::Session(session.to_owned())));
        let model = event["model"].as_str().filter(|model| self.dialect.is_model(model));
        reports.extend(model.map(|model| AgentReport::Model(model.to_owned())));
        reports.extend(self.dialect.handle_init(event));
        reports
    }

    fn assistant(&mut self, event: &Value) -> Vec<AgentReport> {
        let message = &event["message"];
        let used = self.dialect.message_usage(message);
        // Reported at once: a run that is cut short has spent it too.
        let mut reports: Vec<AgentReport> =
            (used != Usage::default()).then_some(AgentReport::Used(used)).into_iter().collect();
        // Text of the program's own sub-agents is not part of the answer.
        let own = event["parent_tool_use_id"].is_null();
        for block in message["content"].as_array().into_iter().flatten() {
            match (block["type"].as_str(), block["text"].as_str()) {
                (Some("text"), Some(text)) if own => {
                    let text = self.dialect.model_text(message, text);
                    if !text.is_empty() {
                        self.buffer.push_message(text);
                        reports.push(AgentReport::Text(format!("{text}\n")));
                    }
                }
                (Some("tool_use"), _) => reports.push(AgentReport::ToolCalled {
                    id: string_or_empty(&block["id"]),
                    name: string_or_empty(&block["name"]),
                    input: block["input"].clone(),
                }),
                _ => {}
            }
        }
        reports
    }

    /// Counts a message while it arrives: its first event has the input tokens, later ones the output tokens so far.
    fn count(&mut self, event: &Value) {
        let (begins, usage) = match event["type"].as_str() {
            Some("message_start") => (true, &event["message"]["usage"]),
            Some("message_delta") => (false, &event["usage"]),
            _ => return,
        };
        let Some(usage) = self.dialect.partial_usage(usage) else { return };
        if begins {
            self.messages.add(std::mem::take(&mut self.message));
        }
        let previous = self.message;
        self.message = Usage {
            input_tokens: usage.input_tokens.max(previous.input_tokens),
            output_tokens: usage.output_tokens.max(previous.output_tokens),
            cache_read_tokens: usage.cache_read_tokens.max(previous.cache_read_tokens),
            cache_write_tokens: usage.cache_write_tokens.max(previous.cache_write_tokens),
            cost: None,
        };
    }

    fn tool_results(&self, event: &Value) -> Vec<AgentReport> {
        let blocks = event["message"]["content"].as_array().into_iter().flatten();
        let returned = blocks.filter(|block| block["type"] == "tool_result").flat_map(|block| {
            let (ok, output) = (block["is_error"] != true, content_text(&block["content"]));
            let missing = Some(&output).filter(|_| !ok).and_then(|error| self.dialect.missing_tool(error));
            let id = string_or_empty(&block["tool_use_id"]);
            let denied = missing.map(|tool| AgentReport::Denied {
                call: id.clone(),
                tool: stream_buffer::bounded_message(tool),
                reason: NO_SUCH_TOOL.to_owned(),
            });
            denied.into_iter().chain([AgentReport::ToolReturned { id, ok, output }])
        });
        returned.collect()
    }

    /// Handles a request of the program's own protocol: about a tool, or an unsupported one.
    fn handle_control_request(&mut self, event: &Value) -> Vec<AgentReport> {
        let id = string_or_empty(&event["request_id"]);
        let request = &event["request"];
        if request["subtype"] == "can_use_tool" {
            let (tool, input) = (string_or_empty(&request["tool_name"]), request["input"].clone());
            let call_id = string_or_empty(&request["tool_use_id"]);
            let call = RequestedTool { id: call_id, tool: tool.clone(), input: input.clone() };
            self.requested.insert(id.clone(), call);
            return vec![AgentReport::PermissionRequested(PermissionRequest { id, tool, input })];
        }
        let refused = json!(format!("{} is not supported", string_or_empty(&request["subtype"])));
        vec![response(&id, "error", "error", &refused)]
    }

    /// Reports the content of the terminal event, and lets the program exit.
    fn ended(&mut self, event: &Value) -> Vec<AgentReport> {
        // The usage of the terminal event includes everything that was counted.
        (self.messages, self.message) = (Usage::default(), Usage::default());
        let mut reports = self.dialect.result_usage(event);
        for denial in event["permission_denials"].as_array().into_iter().flatten() {
            let call = RequestedTool {
                id: string_or_empty(&denial["tool_use_id"]),
                tool: string_or_empty(&denial["tool_name"]),
                input: denial["tool_input"].clone(),
            };
            // The list has both kinds in the order of the calls: those that the program denied by itself, and those
            // that Volery denied. Each denial by Volery accounts for one entry.
            match self.denied.iter().position(|denied| denied.is_same(&call)) {
                Some(ours) => drop(self.denied.swap_remove(ours)),
                None => reports.push(AgentReport::Denied {
                    call: call.id,
                    tool: call.tool,
                    reason: D::DENIED_BY.to_owned(),
                }),
            }
        }
        reports.push(AgentReport::CloseInput);
        reports
    }

    fn end(&self, event: &Value) -> AgentEnd {
        let subtype = event["subtype"].as_str().unwrap_or_default();
        let limit = D::LIMITS.iter().find(|(name, _)| *name == subtype);
        match (limit, subtype) {
            (Some((_, limit)), _) => AgentEnd::OverBudget(*limit),
            (None, "success") if event["is_error"] == false => AgentEnd::Done,
            (None, _) => AgentEnd::Failed(self.dialect.result_failure(event)),
        }
    }
}

impl<D: StreamJsonDialect> JsonLinesReader for StreamJson<D> {
    fn buffer(&mut self) -> &mut StreamBuffer {
        &mut self.buffer
    }

    fn handle_event(&mut self, event: Value) -> Vec<AgentReport> {
        match event["type"].as_str() {
            Some("system") if event["subtype"] == "init" => self.begun(&event),
            Some("assistant") => self.assistant(&event),
            Some("user") => self.tool_results(&event),
            Some("control_request") => self.handle_control_request(&event),
            Some("result") => {
                let reports = self.ended(&event);
                self.result = Some(event);
                reports
            }
            _ => {
                if event["type"] == "stream_event" && event["parent_tool_use_id"].is_null() {
                    self.count(&event["event"]);
                }
                self.dialect.handle_other(&event, &mut self.buffer)
            }
        }
    }

    fn handle_decision(&mut self, ask: &str, decision: &PermissionDecision) -> Vec<AgentReport> {
        let requested = self.requested.remove(ask);
        let answer = match decision {
            // Without the input the tool would run with the one that was requested.
            PermissionDecision::Allow(input) => json!({"behavior": "allow", "updatedInput": input}),
            PermissionDecision::AgentAnswer { input, text } => {
                json!({"behavior": "allow", "updatedInput": agent_question::with_answers(input, text)})
            }
            PermissionDecision::Deny(reason) => {
                self.denied.extend(requested);
                json!({"behavior": "deny", "message": reason})
            }
        };
        vec![response(ask, "success", "response", &answer)]
    }

    fn finish(&mut self, exit: Exit) -> Conclusion {
        let Some(event) = self.result.take() else {
            let end = self.dialect.end_without_result(&self.buffer.stderr(), exit);
            self.messages.add(self.message);
            let used = (!self.messages.has_no_tokens()).then_some(AgentReport::Used(self.messages));
            let reports = used.into_iter().collect();
            return Conclusion { reports, ..Conclusion::new(end, self.buffer.take_answer()) };
        };
        let end = self.end(&event);
        let answer = match end {
            AgentEnd::Done => AgentAnswer::Text(result_text(&event)),
            _ => self.buffer.take_answer(),
        };
        let session = event["session_id"].as_str().map(ToOwned::to_owned);
        let mut conclusion = Conclusion { session, ..Conclusion::new(end, answer) };
        if self.structured && conclusion.end == AgentEnd::Done {
            conclusion.structured = self.dialect.structured_answer(&event);
            if conclusion.structured.is_none() {
                let reason = "the agent answered in words and gave no value".to_owned();
                conclusion.end = AgentEnd::Failed(Failure::missing_value(reason));
            }
        }
        conclusion
    }
}

fn response(id: &str, subtype: &str, key: &str, value: &Value) -> AgentReport {
    let response = json!({"subtype": subtype, "request_id": id, key: value});
    AgentReport::Write(
        format!("{}\n", json!({"type": "control_response", "response": response})).into_bytes(),
    )
}

/// Returns the answer in a terminal event: its `result`, or its `content` where a program writes that instead.
pub(crate) fn result_text(event: &Value) -> String {
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

/// Returns a string of the stream; any other value gives an empty one.
pub(crate) fn string_or_empty(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
