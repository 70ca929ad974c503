//! Anthropic Messages.

use serde_json::{Value, json};

use super::{AnswerTurn, Event};
use crate::model_request::{Message, ModelRequest, ToolResult, collect_text, items, string_member};
use crate::script::{Fault, ScriptedUsage};

pub(super) fn events(turn: &AnswerTurn<'_>) -> Vec<Event> {
    let mut start = envelope(turn);
    start["usage"] = usage(turn.usage, 1);
    let mut events =
        vec![Event::with_name("message_start", json!({ "type": "message_start", "message": start }))];
    let mut index = 0;
    let mut block = |opening: Value, deltas: Vec<Value>, is_break_point: bool| {
        events.push(Event::with_name(
            "content_block_start",
            json!({ "type": "content_block_start", "index": index, "content_block": opening }),
        ));
        let last = deltas.len().saturating_sub(1);
        for (at, delta) in deltas.into_iter().enumerate() {
            let delta = json!({ "type": "content_block_delta", "index": index, "delta": delta });
            let event = Event::with_name("content_block_delta", delta);
            events.push(Event { is_break_point: is_break_point && at == last, ..event });
        }
        events.push(Event::with_name(
            "content_block_stop",
            json!({ "type": "content_block_stop", "index": index }),
        ));
        index += 1;
    };
    if let Some(thinking) = &turn.answer.thinking {
        let deltas = vec![
            json!({ "type": "thinking_delta", "thinking": thinking }),
            json!({ "type": "signature_delta", "signature": "c2lnbmVk" }),
        ];
        block(json!({ "type": "thinking", "thinking": "", "signature": "" }), deltas, false);
    }
    if turn.answer.text.is_some() {
        let deltas = turn.halves().into_iter().map(|text| json!({ "type": "text_delta", "text": text }));
        block(json!({ "type": "text", "text": "" }), deltas.collect(), true);
    }
    for (at, call) in turn.answer.calls.iter().enumerate() {
        let opening = json!({ "type": "tool_use", "id": tool_id(turn, at), "name": call.name, "input": {} });
        let input = json!({ "type": "input_json_delta", "partial_json": call.arguments.to_string() });
        block(opening, vec![input], false);
    }
    let end = json!({
        "type": "message_delta",
        "delta": { "stop_reason": stop_reason(turn), "stop_sequence": null },
        "usage": { "output_tokens": turn.usage.output },
    });
    events.push(Event::with_name("message_delta", end));
    events.push(Event::with_name("message_stop", json!({ "type": "message_stop" })));
    events
}

pub(super) fn whole(turn: &AnswerTurn<'_>) -> Value {
    let mut content = Vec::new();
    if let Some(thinking) = &turn.answer.thinking {
        content.push(json!({ "type": "thinking", "thinking": thinking, "signature": "c2lnbmVk" }));
    }
    if let Some(text) = &turn.answer.text {
        content.push(json!({ "type": "text", "text": text }));
    }
    for (at, call) in turn.answer.calls.iter().enumerate() {
        let call = json!({
            "type": "tool_use", "id": tool_id(turn, at), "name": call.name, "input": call.arguments,
        });
        content.push(call);
    }
    let mut message = envelope(turn);
    message["content"] = content.into();
    message["stop_reason"] = stop_reason(turn).into();
    message["usage"] = usage(turn.usage, turn.usage.output);
    message
}

pub(super) fn fault(fault: &Fault) -> Value {
    let kind = fault.kind.as_deref().unwrap_or(match fault.status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        400..500 => "invalid_request_error",
        _ => "api_error",
    });
    json!({ "type": "error", "error": { "type": kind, "message": fault.message }, "request_id": "req_0001" })
}

pub(super) fn parse_request(body: &Value) -> ModelRequest {
    let schema = body.pointer("/output_config/format/schema").or(body.pointer("/output_format/schema"));
    ModelRequest {
        model: string_member(body, "model"),
        stream: body["stream"].as_bool().unwrap_or(false),
        system: collect_text(&body["system"]),
        tools: items(body, "tools").map(|tool| string_member(tool, "name")).collect(),
        messages: items(body, "messages").map(message).collect(),
        schema: schema.cloned(),
    }
}

fn message(value: &Value) -> Message {
    let content = &value["content"];
    let Some(blocks) = content.as_array() else {
        return Message {
            role: string_member(value, "role"),
            text: collect_text(content),
            ..Message::default()
        };
    };
    let mut message = Message { role: string_member(value, "role"), ..Message::default() };
    let mut texts = Vec::new();
    for block in blocks {
        match block["type"].as_str() {
            Some("tool_use") => message.calls.push(string_member(block, "name")),
            Some("tool_result") => message.results.push(ToolResult {
                call: string_member(block, "tool_use_id"),
                text: collect_text(&block["content"]),
                failed: block["is_error"].as_bool().unwrap_or(false),
            }),
            _ => texts.push(collect_text(block)),
        }
    }
    message.text = texts.join("\n");
    message
}

fn envelope(turn: &AnswerTurn<'_>) -> Value {
    json!({
        "id": turn.message_id(), "type": "message", "role": "assistant", "model": turn.model, "content": [],
        "stop_reason": null, "stop_sequence": null,
    })
}

fn usage(usage: ScriptedUsage, output: u64) -> Value {
    json!({
        "input_tokens": usage.input.saturating_sub(usage.cached), "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached, "output_tokens": output,
    })
}

/// Ids of Anthropic's tool calls begin with `toolu_`, and clients may rely on it.
fn tool_id(turn: &AnswerTurn<'_>, at: usize) -> String {
    format!("toolu_{:04}_{at}", turn.number)
}

fn stop_reason(turn: &AnswerTurn<'_>) -> &'static str {
    if turn.is_short() {
        "max_tokens"
    } else if turn.answer.calls.is_empty() {
        "end_turn"
    } else {
        "tool_use"
    }
}
