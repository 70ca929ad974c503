//! Assembles a model's answer from the pieces that a service streams: content blocks exactly as they were sent, and
//! what every caller can read of them. Bounded, and total: no order of events makes it panic.

use std::collections::HashSet;

use domain::conversation::{
    AssistantTurn, Message, ModelAnswer, ModelRequest, StopReason, ToolArguments, ToolCall,
};
use domain::run::{ModelError, Usage};
use serde_json::{Map, Value};

use super::failure::ServiceError;
use super::tool_arguments;

/// The most calls in one answer.
const CALLS_MAX: usize = 64;
const BLOCKS_MAX: usize = 512;
/// The most of an answer besides the arguments of its calls.
const CONTENT_BYTES_MAX: usize = 4 << 20;
/// The most that the arguments of all calls have together.
const ALL_ARGUMENTS_BYTES_MAX: usize = 4 << 20;
/// How deep a block may be nested. A line that carries it has further levels, and its reader accepts 128.
const NESTING_MAX: usize = 64;
/// A larger figure is an error of the service: no request has so many tokens, and a budget would be used up.
const TOKENS_MAX: u64 = 1_000_000_000;
/// The longest name of a tool that services accept.
const NAME_BYTES_MAX: usize = 64;
const ID_BYTES_MAX: usize = 256;

/// Tokens of a request and its answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tokens {
    /// Of the request, neither read from a cache nor written to one.
    pub(super) fresh: u64,
    pub(super) cache_read: u64,
    pub(super) cache_written: u64,
    pub(super) output: u64,
}

/// An answer that is being received.
#[derive(Debug, Default)]
pub(super) struct AnswerBuilder {
    pub(super) model: Option<String>,
    pub(super) stop: Option<StopReason>,
    /// The stream has signalled its end.
    pub(super) is_over: bool,
    tokens: Option<Tokens>,
    blocks: Vec<ContentBlock>,
    content_bytes: usize,
    argument_bytes: usize,
    /// Text that the caller has not fetched yet.
    unreported: String,
}

/// A content block that is being received.
#[derive(Debug)]
struct ContentBlock {
    index: u64,
    value: Map<String, Value>,
    /// The arguments of a call, as JSON in pieces.
    arguments: String,
    are_arguments_too_long: bool,
}

impl AnswerBuilder {
    pub(super) fn name_model(&mut self, model: &Value) {
        if let Some(model) = model.as_str().filter(|model| !model.is_empty()) {
            self.model = Some(domain::size::head(model, 200).to_owned());
        }
    }

    /// Returns whether a part of the content has arrived, so that another attempt would be another answer.
    pub(super) fn has_content(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Returns the usage so far; `None` if the service has reported none.
    pub(super) fn usage(&self) -> Option<Usage> {
        let Tokens { fresh, cache_read, cache_written, output } = self.tokens?;
        Some(Usage {
            input_tokens: fresh.saturating_add(cache_read).saturating_add(cache_written),
            output_tokens: output,
            cache_read_tokens: cache_read,
            cache_write_tokens: cache_written,
            cost: None,
        })
    }

    pub(super) fn set_tokens(&mut self, tokens: Tokens) {
        let Tokens { fresh, cache_read, cache_written, output } = tokens;
        if [fresh, cache_read, cache_written, output].into_iter().all(|figure| figure <= TOKENS_MAX) {
            self.tokens = Some(tokens);
        }
    }

    /// Returns what was reported so far, for services that report each figure on its own.
    pub(super) fn tokens(&self) -> Tokens {
        self.tokens.unwrap_or_default()
    }

    /// Returns the text that arrived since the last call.
    pub(super) fn take_text(&mut self) -> String {
        std::mem::take(&mut self.unreported)
    }

    /// Adds text of a service whose answers have no blocks.
    pub(super) fn push_text(&mut self, text: &str) -> Result<(), ServiceError> {
        if text.is_empty() {
            return Ok(());
        }
        if self.blocks.is_empty() {
            self.start_block(None, &serde_json::json!({ "type": "text", "text": "" }))?;
        }
        self.append(None, "text", text)
    }

    /// Begins a block.
    pub(super) fn start_block(&mut self, index: Option<u64>, block: &Value) -> Result<(), ServiceError> {
        let Some(value) = block.as_object() else { return Ok(()) };
        if self.blocks.len() >= BLOCKS_MAX {
            return Err(too_long("it has too many content blocks"));
        }
        let mut content = ContentBlock {
            index: index.unwrap_or(self.blocks.len() as u64),
            value: value.clone(),
            arguments: String::new(),
            are_arguments_too_long: false,
        };
        let input_bytes = match value.get("input") {
            Some(input) => size(input),
            None => 0,
        };
        self.content_bytes += size(block).saturating_sub(input_bytes);
        self.argument_bytes += input_bytes;
        if self.argument_bytes > ALL_ARGUMENTS_BYTES_MAX || input_bytes > tool_arguments::BYTES_MAX {
            content.are_arguments_too_long = true;
            content.value.insert("input".to_owned(), Value::Object(Map::new()));
        }
        if content.value.get("type") == Some(&Value::from("text")) {
            self.unreported.push_str(content.value.get("text").and_then(Value::as_str).unwrap_or_default());
        }
        let is_too_deep = !is_shallow(&Value::Object(content.value.clone()), NESTING_MAX);
        if is_too_deep {
            // The input of a call is the model's mistake, anything else is the service's.
            content.value.insert("input".to_owned(), Value::Object(Map::new()));
            content.are_arguments_too_long = true;
        }
        if !is_shallow(&Value::Object(content.value.clone()), NESTING_MAX) {
            return Err(too_long("a content block is nested too deeply"));
        }
        self.blocks.push(content);
        self.check_size()
    }

    /// Applies a piece of a block. Its members have the names of the block's members, except for arguments and
    /// citations.
    pub(super) fn apply_delta(&mut self, index: Option<u64>, delta: &Value) -> Result<(), ServiceError> {
        if let Some(piece) = delta["partial_json"].as_str() {
            self.append_arguments(index, piece);
            return Ok(());
        }
        if delta["type"] == "citations_delta" {
            return self.push_citation(index, &delta["citation"]);
        }
        for (member, piece) in delta.as_object().into_iter().flatten() {
            if let Some(piece) = piece.as_str().filter(|_| member != "type") {
                self.append(index, member, piece)?;
            }
        }
        Ok(())
    }

    fn block_at(&mut self, index: Option<u64>) -> Option<&mut ContentBlock> {
        match index {
            // The last one, since some servers number all blocks alike.
            Some(index) => self.blocks.iter_mut().rev().find(|block| block.index == index),
            None => self.blocks.last_mut(),
        }
    }

    fn append(&mut self, index: Option<u64>, member: &str, piece: &str) -> Result<(), ServiceError> {
        let Some(block) = self.block_at(index) else {
            // Some servers send the text of the first block without its beginning.
            let is_text = member == "text";
            return if is_text { self.start_block(index, &text_block(piece)) } else { Ok(()) };
        };
        match block.value.get_mut(member) {
            Some(Value::String(text)) => text.push_str(piece),
            Some(Value::Null) | None => {
                block.value.insert(member.to_owned(), piece.into());
            }
            Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => return Ok(()),
        }
        let is_text = member == "text" && block.value.get("type") == Some(&Value::from("text"));
        if is_text {
            self.unreported.push_str(piece);
        }
        self.content_bytes += piece.len();
        self.check_size()
    }

    fn append_arguments(&mut self, index: Option<u64>, piece: &str) {
        let total = self.argument_bytes + piece.len();
        let Some(block) = self.block_at(index) else { return };
        let is_too_long = block.are_arguments_too_long
            || total > ALL_ARGUMENTS_BYTES_MAX
            || block.arguments.len() + piece.len() > tool_arguments::BYTES_MAX;
        if is_too_long {
            block.are_arguments_too_long = true;
            let freed = std::mem::take(&mut block.arguments).len();
            self.argument_bytes = self.argument_bytes.saturating_sub(freed);
            return;
        }
        block.arguments.push_str(piece);
        self.argument_bytes = total;
    }

    fn push_citation(&mut self, index: Option<u64>, citation: &Value) -> Result<(), ServiceError> {
        let bytes = size(citation);
        let Some(block) = self.block_at(index).filter(|_| is_shallow(citation, NESTING_MAX)) else {
            return Ok(());
        };
        match block.value.get_mut("citations") {
            Some(Value::Array(citations)) => citations.push(citation.clone()),
            _ => {
                block.value.insert("citations".to_owned(), Value::Array(vec![citation.clone()]));
            }
        }
        self.content_bytes += bytes;
        self.check_size()
    }

    fn check_size(&self) -> Result<(), ServiceError> {
        match self.content_bytes > CONTENT_BYTES_MAX {
            true => Err(too_long("its content is too long")),
            false => Ok(()),
        }
    }

    /// Returns the complete answer to a request.
    pub(super) fn finish(self, wire: &str, request: &ModelRequest) -> Result<ModelAnswer, ServiceError> {
        let usage = self.usage();
        let stop = match self.stop {
            Some(StopReason::Refusal(words)) => {
                StopReason::Refusal(domain::size::head(&words, 2_000).to_owned())
            }
            stop => stop.unwrap_or(StopReason::EndTurn),
        };
        let is_cut = matches!(stop, StopReason::MaxTokens | StopReason::ContextWindow);
        let mut ids = CallIds::new(request);
        let (mut native, mut text, mut calls) = (Vec::new(), String::new(), Vec::new());
        let last = self.blocks.len().saturating_sub(1);
        for (at, mut block) in self.blocks.into_iter().enumerate() {
            match block.value.get("type").and_then(Value::as_str) {
                Some("text") => {
                    text.push_str(block.value.get("text").and_then(Value::as_str).unwrap_or_default());
                }
                Some("tool_use") => calls.push(block.finish_call(is_cut && at == last, &mut ids)),
                _ if !block.arguments.is_empty() => {
                    let input = tool_arguments::parse(&block.arguments);
                    block.value.insert("input".to_owned(), input.unwrap_or_else(|_| empty_object()));
                }
                _ => {}
            }
            native.push(Value::Object(block.value));
        }
        if calls.len() > CALLS_MAX {
            return Err(too_long(&format!("it calls more than {CALLS_MAX} tools at once")));
        }
        let turn = AssistantTurn {
            wire: wire.to_owned(),
            model: request.model.clone(),
            // Only this protocol has content blocks that must be sent back; the others are rebuilt.
            native: if wire == super::wire::Wire::Messages.name() { native } else { Vec::new() },
            text,
            calls,
        };
        let stop = consistent_stop(stop, turn.calls.is_empty());
        Ok(ModelAnswer { turn, stop, usage, answered_by: self.model })
    }
}

/// Some servers name the wrong reason when a model calls tools.
fn consistent_stop(stop: StopReason, has_no_calls: bool) -> StopReason {
    match (stop, has_no_calls) {
        (StopReason::EndTurn, false) => StopReason::ToolUse,
        (StopReason::ToolUse, true) => StopReason::EndTurn,
        (stop, _) => stop,
    }
}

impl ContentBlock {
    /// Returns the call of a `tool_use` block, and makes the block one that the service accepts when it is sent back.
    fn finish_call(&mut self, is_cut: bool, ids: &mut CallIds) -> ToolCall {
        let input = self.value.get("input").filter(|input| **input != empty_object());
        let arguments = if self.are_arguments_too_long {
            ToolArguments::Unreadable(tool_arguments::too_long())
        } else if !self.arguments.trim().is_empty() {
            match tool_arguments::parse(&self.arguments) {
                Ok(value) => ToolArguments::Parsed(value),
                Err(reason) => ToolArguments::Unreadable(reason),
            }
        } else {
            match input {
                Some(input @ Value::Object(_)) => ToolArguments::Parsed(input.clone()),
                Some(Value::Null) | None if !is_cut => ToolArguments::Parsed(empty_object()),
                Some(Value::Null) | None => ToolArguments::Unreadable(tool_arguments::cut_off()),
                Some(_) => ToolArguments::Unreadable(tool_arguments::no_object()),
            }
        };
        let sent_back = match &arguments {
            ToolArguments::Parsed(value) => value.clone(),
            ToolArguments::Unreadable(_) => empty_object(),
        };
        self.value.insert("input".to_owned(), sent_back);
        let name = self.value.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let id = ids.assign(self.value.get("id").and_then(Value::as_str).unwrap_or_default());
        self.value.insert("name".to_owned(), valid_name(&name).into());
        self.value.insert("id".to_owned(), id.clone().into());
        ToolCall { id, name: domain::size::head(&name, ID_BYTES_MAX).to_owned(), arguments }
    }
}

/// Gives each call of a conversation an id of its own, which is the service's if that can be used.
#[derive(Debug)]
pub(super) struct CallIds {
    used: HashSet<String>,
    /// The number of the turn; it makes new ids differ from those of other turns.
    turn: usize,
    next: usize,
}

impl CallIds {
    /// Knows the ids of all earlier turns of a request.
    fn new(request: &ModelRequest) -> Self {
        let turns = request.messages.iter().filter_map(|message| match message {
            Message::Assistant(turn) => Some(turn),
            Message::User { .. } | Message::ToolResults { .. } => None,
        });
        let used = turns.flat_map(|turn| &turn.calls).map(|call| call.id.clone()).collect();
        Self { used, turn: request.messages.len(), next: 0 }
    }

    /// Knows no ids yet.
    pub(super) fn empty() -> Self {
        Self { used: HashSet::new(), turn: 0, next: 0 }
    }

    /// Begins the turn with this number.
    pub(super) fn begin_turn(&mut self, turn: usize) {
        (self.turn, self.next) = (turn, 0);
    }

    /// Returns an id that no other call has.
    pub(super) fn assign(&mut self, id: &str) -> String {
        if is_valid_id(id) && self.used.insert(id.to_owned()) {
            return id.to_owned();
        }
        loop {
            let id = format!("call_{}_{}", self.turn, self.next);
            self.next += 1;
            if self.used.insert(id.clone()) {
                return id;
            }
        }
    }
}

fn is_valid_id(id: &str) -> bool {
    (1..=ID_BYTES_MAX).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Returns a name that services accept in a call that is sent back.
pub(super) fn valid_name(name: &str) -> String {
    let valid = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => character,
        _ => '_',
    };
    let name: String = name.chars().take(NAME_BYTES_MAX).map(valid).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

pub(super) fn text_block(text: &str) -> Value {
    serde_json::json!({ "type": "text", "text": text })
}

pub(super) fn empty_object() -> Value {
    Value::Object(Map::new())
}

/// Returns about how many bytes a value has as JSON.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(size).sum::<usize>(),
        Value::Object(members) => {
            2 + members.iter().map(|(name, value)| name.len() + 3 + size(value)).sum::<usize>()
        }
    }
}

/// Returns whether a value is nested at most `levels` deep.
pub(super) fn is_shallow(value: &Value, levels: usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        Value::Array(items) => levels > 0 && items.iter().all(|item| is_shallow(item, levels - 1)),
        Value::Object(members) => levels > 0 && members.values().all(|member| is_shallow(member, levels - 1)),
    }
}

fn too_long(why: &str) -> ServiceError {
    ServiceError::new(ModelError::Other, format!("the answer cannot be used: {why}"))
}
