//! Anthropic Messages: formats requests. The same conversation always gives the same bytes, so that what the service
//! cached of it stays valid from turn to turn; only the marks of the cache move.

use std::collections::{BTreeSet, VecDeque};

use domain::conversation::{AssistantTurn, Message, ModelRequest, ToolArguments, ToolChoice, ToolResult};
use serde_json::{Value, json};

use super::{HttpRequest, Wire};
use crate::api::answer::{CallIds, empty_object, text_block, valid_name};

/// The service requires a limit with every request; all its models accept this one.
const MAX_TOKENS: u32 = 16_384;
const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");
/// How many user turns at the end are marked. The service accepts four marks; one is at the system prompt.
const MARKED_TURNS: usize = 2;
/// Sent where the service refuses an empty text.
const NO_TEXT: &str = "(no text)";
const NO_OUTPUT: &str = "(no output)";
/// The result of a call that has none, since the service requires one for each.
const NO_RESULT: &str = "This call was not carried out.";

pub(super) fn post(request: &ModelRequest) -> HttpRequest {
    let conversation = Conversation::new(request);
    let mut tools = tools(request);
    let mut is_forbidden = request.tool_choice == ToolChoice::Forbidden && !tools.is_empty();
    if tools.is_empty() && !conversation.tool_names.is_empty() {
        tools = conversation.tool_names.iter().map(|name| unavailable_tool(name)).collect();
        is_forbidden = true;
    }
    // A single question is asked once: to write it into the cache would cost more and save nothing.
    let is_cached = !tools.is_empty() || request.messages.len() > 1;
    let mut turns = conversation.turns;
    if is_cached {
        mark_turns(&mut turns);
    }
    let messages: Vec<Value> = turns.into_iter().map(Turn::into_value).collect();
    let mut body = json!({
        "model": request.model,
        "max_tokens": request.max_output_tokens.unwrap_or(MAX_TOKENS),
        "stream": true,
    });
    if !tools.is_empty() {
        if is_cached && request.system.is_empty() {
            tools.last_mut().into_iter().for_each(mark);
        }
        body["tools"] = tools.into();
    }
    if is_forbidden {
        body["tool_choice"] = json!({ "type": "none" });
    }
    if !request.system.is_empty() {
        let mut system = text_block(&request.system);
        if is_cached {
            mark(&mut system);
            body["system"] = json!([system]);
        } else {
            body["system"] = request.system.as_str().into();
        }
    }
    if let Some(temperature) = request.temperature {
        body["temperature"] = temperature.into();
    }
    if let Some(schema) = &request.output_schema {
        body["output_config"] = json!({ "format": { "type": "json_schema", "schema": schema } });
    }
    body["messages"] = messages.into();
    HttpRequest { path: "/v1/messages".to_owned(), headers: vec![VERSION], body }
}

fn tools(request: &ModelRequest) -> Vec<Value> {
    let mut tools: Vec<_> = request.tools.iter().collect();
    // The service caches a prefix that begins with the tools, so their order must not change.
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    let tool = |tool: &domain::conversation::ToolSpec| json!({ "name": tool.name, "description": tool.description, "input_schema": tool.input_schema });
    tools.into_iter().map(tool).collect()
}

/// Declares a tool of earlier calls: the service refuses a conversation that contains calls without any tool.
fn unavailable_tool(name: &str) -> Value {
    json!({ "name": name, "description": "No longer available.", "input_schema": { "type": "object" } })
}

fn mark(block: &mut Value) {
    block["cache_control"] = json!({ "type": "ephemeral" });
}

fn mark_turns(turns: &mut [Turn]) {
    let users = turns.iter_mut().rev().filter(|turn| turn.is_user);
    for turn in users.take(MARKED_TURNS) {
        turn.blocks.last_mut().into_iter().for_each(mark);
    }
}

struct Turn {
    is_user: bool,
    blocks: Vec<Value>,
}

impl Turn {
    fn into_value(self) -> Value {
        let role = if self.is_user { "user" } else { "assistant" };
        json!({ "role": role, "content": self.blocks })
    }
}

/// A call without a result: its id in the conversation, and the one that is sent.
struct OpenCall {
    id: String,
    sent_id: String,
}

/// The messages of a request as the service accepts them: roles alternate, no content is empty, and every call is
/// followed by its result.
struct Conversation {
    turns: Vec<Turn>,
    /// The names of all tools that were called.
    tool_names: BTreeSet<String>,
    open_calls: Vec<OpenCall>,
    ids: CallIds,
}

impl Conversation {
    fn new(request: &ModelRequest) -> Self {
        let mut conversation = Self {
            turns: Vec::new(),
            tool_names: BTreeSet::new(),
            open_calls: Vec::new(),
            ids: CallIds::empty(),
        };
        for (number, message) in request.messages.iter().enumerate() {
            match message {
                Message::User { text } => {
                    conversation.push_results(&[]);
                    conversation.push(true, vec![text_block(non_empty(text, NO_TEXT))]);
                }
                Message::Assistant(turn) => {
                    conversation.push_results(&[]);
                    conversation.ids.begin_turn(number);
                    conversation.push_assistant(turn, &request.model);
                }
                Message::ToolResults { results } => conversation.push_results(results),
            }
        }
        conversation.push_results(&[]);
        if conversation.turns.is_empty() {
            conversation.push(true, vec![text_block(NO_TEXT)]);
        }
        conversation
    }

    fn push(&mut self, is_user: bool, blocks: Vec<Value>) {
        if blocks.is_empty() {
            return;
        }
        if self.turns.is_empty() && !is_user {
            self.turns.push(Turn { is_user: true, blocks: vec![text_block(NO_TEXT)] });
        }
        match self.turns.last_mut().filter(|turn| turn.is_user == is_user) {
            Some(turn) => turn.blocks.extend(blocks),
            None => self.turns.push(Turn { is_user, blocks }),
        }
    }

    /// Adds an answer: as the service sent it if it comes from the same service and model, otherwise rebuilt.
    fn push_assistant(&mut self, turn: &AssistantTurn, model: &str) {
        let is_same = turn.wire == Wire::Messages.name() && turn.model == model && !turn.native.is_empty();
        let mut blocks = if is_same { self.native_blocks(turn) } else { self.rebuilt_blocks(turn) };
        let is_reasoning =
            |block: &Value| block["type"] == "thinking" || block["type"] == "redacted_thinking";
        if blocks.iter().all(is_reasoning) {
            blocks.push(text_block(NO_TEXT));
        }
        self.push(false, blocks);
    }

    fn native_blocks(&mut self, turn: &AssistantTurn) -> Vec<Value> {
        let mut blocks = Vec::new();
        for block in turn.native.iter().filter(|block| is_accepted(block)) {
            let mut block = block.clone();
            if block["type"] == "tool_use" {
                let sent_id = self.open_call(block["id"].as_str().unwrap_or_default());
                self.tool_names.insert(valid_name(block["name"].as_str().unwrap_or_default()));
                block["id"] = sent_id.into();
            }
            blocks.push(block);
        }
        blocks
    }

    fn rebuilt_blocks(&mut self, turn: &AssistantTurn) -> Vec<Value> {
        let text = Some(&turn.text).filter(|text| !text.trim().is_empty());
        let mut blocks: Vec<Value> = text.into_iter().map(|text| text_block(text)).collect();
        for call in &turn.calls {
            let input = match &call.arguments {
                ToolArguments::Parsed(value @ Value::Object(_)) => value.clone(),
                ToolArguments::Parsed(_) | ToolArguments::Unreadable(_) => empty_object(),
            };
            let (sent_id, name) = (self.open_call(&call.id), valid_name(&call.name));
            self.tool_names.insert(name.clone());
            blocks.push(json!({ "type": "tool_use", "id": sent_id, "name": name, "input": input }));
        }
        blocks
    }

    fn open_call(&mut self, id: &str) -> String {
        let sent_id = self.ids.assign(id);
        self.open_calls.push(OpenCall { id: id.to_owned(), sent_id: sent_id.clone() });
        sent_id
    }

    /// Adds a result for each open call, in the order of the calls. Results of other calls become text.
    fn push_results(&mut self, results: &[ToolResult]) {
        let mut left: VecDeque<&ToolResult> = results.iter().collect();
        let mut blocks = Vec::new();
        for call in std::mem::take(&mut self.open_calls) {
            let at = left.iter().position(|result| result.id == call.id);
            let (text, is_error) = match at.and_then(|at| left.remove(at)) {
                Some(result) => (non_empty(&result.text, NO_OUTPUT), result.is_error),
                None => (NO_RESULT, true),
            };
            let mut block = json!({ "type": "tool_result", "tool_use_id": call.sent_id, "content": text });
            if is_error {
                block["is_error"] = true.into();
            }
            blocks.push(block);
        }
        blocks.extend(
            left.into_iter().map(|result| text_block(&format!("Result of {}: {}", result.name, result.text))),
        );
        self.push(true, blocks);
    }
}

/// Returns whether the service accepts a block of its own answer: it refuses blank text, and reasoning without the
/// signature that follows at its end, if the answer was cut off before.
fn is_accepted(block: &Value) -> bool {
    let has = |member: &str| block[member].as_str().is_some_and(|text| !text.trim().is_empty());
    match block["type"].as_str() {
        Some("text") => has("text"),
        Some("thinking") => has("signature"),
        Some("redacted_thinking") => has("data"),
        Some(_) => true,
        None => false,
    }
}

fn non_empty<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.trim().is_empty() { otherwise } else { text }
}
