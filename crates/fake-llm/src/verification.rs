//! Verification of requests in Anthropic's protocol: refuses what the service refuses, above all a conversation that
//! does not repeat the model's own turns as the service sent them. Off unless a test asks for it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::model_request::items;

const CACHE_MARKS_MAX: usize = 4;

/// What is verified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestChecks {
    /// The shape of a conversation, its tools and calls, and the signatures of its reasoning.
    pub conversation: bool,
    /// Each request continues an earlier one without a change before the last turn, so that a prompt cache is used.
    pub cache_prefix: bool,
}

/// What was sent and received so far.
#[derive(Debug, Default)]
pub(crate) struct Verifier {
    pub(crate) checks: RequestChecks,
    /// By signature or encrypted data: the model and the block.
    reasoning: BTreeMap<String, (String, Value)>,
    /// By the id of a call: the reasoning of its turn.
    reasoning_of_calls: BTreeMap<String, Vec<Value>>,
    /// The parts of each request, in the order in which a cache sees them.
    prefixes: Vec<Vec<String>>,
}

impl Verifier {
    /// Remembers the content of an answer.
    pub(crate) fn remember(&mut self, model: &str, content: &Value) {
        let blocks = content.as_array().map_or(&[][..], Vec::as_slice);
        let reasoning: Vec<Value> = blocks.iter().filter(|block| is_reasoning(block)).cloned().collect();
        for block in &reasoning {
            self.reasoning.insert(proof(block).to_owned(), (model.to_owned(), block.clone()));
        }
        for id in blocks.iter().filter(|block| block["type"] == "tool_use").filter_map(|b| b["id"].as_str()) {
            self.reasoning_of_calls.insert(id.to_owned(), reasoning.clone());
        }
    }

    /// Returns why the service would refuse a request.
    pub(crate) fn check(&mut self, body: &Value) -> Result<(), String> {
        if self.checks.conversation {
            check_tools(body)?;
            check_conversation(body)?;
            self.check_reasoning(body)?;
        }
        if self.checks.cache_prefix {
            self.check_prefix(body)?;
        }
        Ok(())
    }

    fn check_reasoning(&self, body: &Value) -> Result<(), String> {
        let messages: Vec<&Value> = items(body, "messages").collect();
        let has_result = |message: &Value| items(message, "content").any(|b| b["type"] == "tool_result");
        let cycle = messages
            .iter()
            .rposition(|message| message["role"] == "user" && !has_result(message))
            .unwrap_or_default();
        for (at, message) in messages.iter().enumerate().filter(|(_, message)| message["role"] == "assistant")
        {
            let found: Vec<&Value> = items(message, "content").filter(|block| is_reasoning(block)).collect();
            for block in &found {
                let known = self.reasoning.get(proof(block));
                if !known.is_some_and(|(model, known)| known == *block && body["model"] == model.as_str()) {
                    let kind = block["type"].as_str().unwrap_or_default();
                    return Err(format!("messages.{at}: Invalid `signature` in `{kind}` block"));
                }
            }
            let mut calls = items(message, "content").filter(|block| block["type"] == "tool_use");
            let expected = calls.find_map(|call| self.reasoning_of_calls.get(call["id"].as_str()?));
            let is_complete = expected.is_none_or(|expected| expected.iter().eq(found));
            if at > cycle && !is_complete {
                return Err(format!(
                    "messages.{at}: Expected `thinking` or `redacted_thinking` blocks as they were in the answer"
                ));
            }
        }
        Ok(())
    }

    fn check_prefix(&mut self, body: &Value) -> Result<(), String> {
        let mut parts = vec![format!("{}{}{}", body["model"], body["tools"], without_marks(&body["system"]))];
        let mut last_answer = None;
        for message in items(body, "messages") {
            if message["role"] == "assistant" {
                last_answer = Some(parts.len());
            }
            match message["content"].as_array() {
                Some(blocks) => {
                    parts.extend(
                        blocks.iter().map(|block| format!("{}{}", message["role"], without_marks(block))),
                    );
                }
                None => parts.push(format!("{}{}", message["role"], message["content"])),
            }
        }
        let is_continued =
            last_answer.is_none_or(|end| self.prefixes.iter().any(|known| known[..] == parts[..end]));
        self.prefixes.push(parts);
        match is_continued {
            true => Ok(()),
            false => Err("the request does not continue an earlier one: its cache prefix changed".to_owned()),
        }
    }
}

fn is_reasoning(block: &Value) -> bool {
    block["type"] == "thinking" || block["type"] == "redacted_thinking"
}

/// Returns what proves that a block of reasoning is the service's own.
fn proof(block: &Value) -> &str {
    block["signature"].as_str().or(block["data"].as_str()).unwrap_or_default()
}

/// Returns a value without the marks of the cache, which move from turn to turn.
fn without_marks(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members = members.iter().filter(|(name, _)| *name != "cache_control");
            members.map(|(name, value)| format!("{name}:{};", without_marks(value))).collect()
        }
        Value::Array(values) => values.iter().map(without_marks).collect::<Vec<_>>().join(","),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

fn check_tools(body: &Value) -> Result<(), String> {
    if body["max_tokens"].as_u64().is_none_or(|tokens| tokens == 0) {
        return Err("max_tokens: Field required".to_owned());
    }
    let mut names = BTreeSet::new();
    for (at, tool) in items(body, "tools").enumerate() {
        let name = tool["name"].as_str().unwrap_or_default();
        if !is_name(name) {
            return Err(format!("tools.{at}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"));
        }
        if !names.insert(name) {
            return Err("tools: Tool names must be unique.".to_owned());
        }
        if tool["input_schema"]["type"] != "object" {
            return Err(format!("tools.{at}.input_schema.type: Field required"));
        }
    }
    let uses_tools = items(body, "messages")
        .flat_map(|message| items(message, "content"))
        .any(|block| block["type"] == "tool_use" || block["type"] == "tool_result");
    if uses_tools && names.is_empty() {
        return Err("Requests which include `tool_use` or `tool_result` blocks must define tools".to_owned());
    }
    match body.to_string().matches("\"cache_control\":").count() > CACHE_MARKS_MAX {
        true => Err("A maximum of 4 blocks with cache_control may be provided.".to_owned()),
        false => Ok(()),
    }
}

fn is_name(name: &str) -> bool {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=128).contains(&name.len()) && name.bytes().all(valid)
}

fn check_conversation(body: &Value) -> Result<(), String> {
    let messages: Vec<&Value> = items(body, "messages").collect();
    if messages.is_empty() {
        return Err("messages: at least one message is required".to_owned());
    }
    let (mut open, mut used) = (Vec::new(), BTreeSet::new());
    for (at, message) in messages.iter().enumerate() {
        let expected = if at % 2 == 0 { "user" } else { "assistant" };
        if message["role"] != expected {
            return Err(format!("messages.{at}: roles must alternate between \"user\" and \"assistant\""));
        }
        check_content(at, message)?;
        check_results(at, message, &open)?;
        open = items(message, "content").filter(|block| block["type"] == "tool_use").collect();
        for call in &open {
            let id = call["id"].as_str().unwrap_or_default();
            if !is_name(id) {
                return Err(format!("messages.{at}: tool_use.id: String should match pattern"));
            }
            if !used.insert(id) {
                return Err(format!("messages.{at}: `tool_use` ids must be unique"));
            }
            if !is_name(call["name"].as_str().unwrap_or_default()) {
                return Err(format!("messages.{at}: tool_use.name: String should match pattern"));
            }
            if !call["input"].is_object() {
                return Err(format!("messages.{at}: tool_use.input: Input should be a valid dictionary"));
            }
        }
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err("`tool_use` ids were found without `tool_result` blocks immediately after".to_owned()),
    }
}

fn check_content(at: usize, message: &Value) -> Result<(), String> {
    let is_blank = |text: &Value| text.as_str().is_none_or(|text| text.trim().is_empty());
    let empty = match &message["content"] {
        Value::Array(blocks) => {
            blocks.is_empty()
                || blocks.iter().any(|block| block["type"] == "text" && is_blank(&block["text"]))
                || blocks.iter().all(is_reasoning)
        }
        text => is_blank(text),
    };
    match empty {
        true => Err(format!("messages.{at}: text content blocks must contain non-whitespace text")),
        false => Ok(()),
    }
}

/// Checks that a message begins with the results of all calls of the message before, and has no others.
fn check_results(at: usize, message: &Value, calls: &[&Value]) -> Result<(), String> {
    let blocks: Vec<&Value> = items(message, "content").collect();
    let results: Vec<&Value> = blocks.iter().copied().filter(|b| b["type"] == "tool_result").collect();
    let is_leading = blocks[..results.len()].iter().all(|block| block["type"] == "tool_result");
    let ids: BTreeSet<&str> = results.iter().filter_map(|block| block["tool_use_id"].as_str()).collect();
    let expected: BTreeSet<&str> = calls.iter().filter_map(|call| call["id"].as_str()).collect();
    if let Some(missing) = expected.difference(&ids).next() {
        return Err(format!(
            "messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {missing}"
        ));
    }
    if let Some(unknown) = ids.difference(&expected).next() {
        return Err(format!(
            "messages.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {unknown}"
        ));
    }
    if ids.len() != results.len() || !is_leading {
        return Err(format!(
            "messages.{at}: each `tool_use` must have a single result, before other content"
        ));
    }
    let is_unexplained = |block: &Value| block["is_error"] == true && block["content"] == "";
    match results.iter().any(|block| is_unexplained(block)) {
        true => Err(format!("messages.{at}: content cannot be empty if `is_error` is true")),
        false => Ok(()),
    }
}
