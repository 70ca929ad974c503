//! OpenAI Chat Completions.

use serde_json::{Value, json};

use super::{AnswerTurn, Event, Payload};
use crate::model_request::{Message, ModelRequest, ToolResult, collect_text, items, string_member};
use crate::script::Fault;

pub(super) fn events(turn: &AnswerTurn<'_>) -> Vec<Event> {
    let mut events = Vec::new();
    let chunk = |delta: Value, finish: Option<&str>| {
        Event::json(json!({
            "id": turn.message_id(), "object": "chat.completion.chunk", "created": 0, "model": turn.model,
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
        }))
    };
    events.push(chunk(json!({ "role": "assistant", "content": "" }), None));
    if let Some(thinking) = &turn.answer.thinking {
        events.push(chunk(json!({ "reasoning_content": thinking }), None));
    }
    let halves = turn.halves();
    let last = halves.len().saturating_sub(1);
    for (at, text) in halves.into_iter().enumerate() {
        events.push(Event { is_break_point: at == last, ..chunk(json!({ "content": text }), None) });
    }
    for (at, call) in tool_calls(turn).into_iter().enumerate() {
        let mut call = call;
        call["index"] = at.into();
        events.push(chunk(json!({ "tool_calls": [call] }), None));
    }
    events.push(chunk(json!({}), Some(finish(turn))));
    // Usage has a separate chunk without choices, as with `stream_options.include_usage`.
    events.push(Event::json(json!({
        "id": turn.message_id(), "object": "chat.completion.chunk", "created": 0, "model": turn.model,
        "choices": [], "usage": usage(turn),
    })));
    events.push(Event { name: None, data: Payload::Done, is_break_point: false });
    events
}

pub(super) fn whole(turn: &AnswerTurn<'_>) -> Value {
    let mut message = json!({ "role": "assistant", "content": turn.answer.text });
    if let Some(thinking) = &turn.answer.thinking {
        message["reasoning_content"] = thinking.as_str().into();
    }
    if !turn.answer.calls.is_empty() {
        message["tool_calls"] = tool_calls(turn).into();
    }
    json!({
        "id": turn.message_id(), "object": "chat.completion", "created": 0, "model": turn.model,
        "choices": [{ "index": 0, "message": message, "finish_reason": finish(turn) }],
        "usage": usage(turn),
    })
}

pub(super) fn fault(fault: &Fault) -> Value {
    let kind = fault.kind.as_deref().unwrap_or(match fault.status {
        401 => "invalid_api_key",
        429 => "rate_limit_exceeded",
        400..500 => "invalid_request_error",
        _ => "server_error",
    });
    json!({ "error": { "message": fault.message, "type": kind, "param": null, "code": kind } })
}

pub(super) fn parse_request(body: &Value) -> ModelRequest {
    ModelRequest {
        model: string_member(body, "model"),
        stream: body["stream"].as_bool().unwrap_or(false),
        system: String::new(),
        tools: items(body, "tools").map(|tool| string_member(&tool["function"], "name")).collect(),
        messages: items(body, "messages").map(message).collect(),
        schema: body.pointer("/response_format/json_schema/schema").cloned(),
    }
}

fn message(value: &Value) -> Message {
    let role = string_member(value, "role");
    let text = collect_text(&value["content"]);
    if role == "tool" {
        let result = ToolResult { call: string_member(value, "tool_call_id"), text, failed: false };
        return Message { role, results: vec![result], ..Message::default() };
    }
    let calls = items(value, "tool_calls").map(|call| string_member(&call["function"], "name")).collect();
    Message { role, text, calls, results: Vec::new() }
}

fn tool_calls(turn: &AnswerTurn<'_>) -> Vec<Value> {
    let call = |(at, call): (usize, &crate::script::ScriptedCall)| {
        json!({
            "id": turn.call_id(at), "type": "function",
            "function": { "name": call.name, "arguments": call.arguments.to_string() },
        })
    };
    turn.answer.calls.iter().enumerate().map(call).collect()
}

fn usage(turn: &AnswerTurn<'_>) -> Value {
    json!({
        "prompt_tokens": turn.usage.input, "completion_tokens": turn.usage.output,
        "total_tokens": turn.usage.input + turn.usage.output,
        "prompt_tokens_details": { "cached_tokens": turn.usage.cached },
    })
}

fn finish(turn: &AnswerTurn<'_>) -> &'static str {
    if turn.is_short() {
        "length"
    } else if turn.answer.calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    }
}
