//! Anthropic Messages.

use serde_json::{Value, json};

use super::{AnswerTurn, Event};
use crate::model_request::{Message, ModelRequest, ToolResult, collect_text, items, string_member};
use crate::script::{Fault, ScriptedCall};

/// The most of a call's arguments in one event.
const PIECE_BYTES_MAX: usize = 32 << 10;

pub(super) fn events(turn: &AnswerTurn<'_>) -> Vec<Event> {
    let mut start = envelope(turn);
    set_usage(&mut start, turn, 1);
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
            json!({ "type": "signature_delta", "signature": signature(turn, thinking) }),
        ];
        block(json!({ "type": "thinking", "thinking": "", "signature": "" }), deltas, false);
    }
    if let Some(data) = &turn.answer.redacted_thinking {
        block(json!({ "type": "redacted_thinking", "data": data }), Vec::new(), false);
    }
    if turn.answer.text.is_some() {
        let deltas = turn.halves().into_iter().map(|text| json!({ "type": "text_delta", "text": text }));
        block(json!({ "type": "text", "text": "" }), deltas.collect(), true);
    }
    for (at, call) in turn.answer.calls.iter().enumerate() {
        let mut opening = tool_use(turn, at, call);
        opening["input"] = json!({});
        let arguments = call.raw_arguments.clone().unwrap_or_else(|| call.arguments.to_string());
        let piece = |piece: &str| json!({ "type": "input_json_delta", "partial_json": piece });
        block(opening, pieces(&arguments).map(piece).collect(), false);
    }
    let mut end = json!({
        "type": "message_delta",
        "delta": { "stop_reason": stop_reason(turn), "stop_sequence": null },
        "usage": { "output_tokens": turn.usage.output },
    });
    if let Some(usage) = turn.usage_json {
        end["usage"] = usage.clone();
    }
    events.push(Event::with_name("message_delta", end));
    events.push(Event::with_name("message_stop", json!({ "type": "message_stop" })));
    events
}

pub(super) fn whole(turn: &AnswerTurn<'_>) -> Value {
    let mut content = Vec::new();
    if let Some(thinking) = &turn.answer.thinking {
        let signature = signature(turn, thinking);
        content.push(json!({ "type": "thinking", "thinking": thinking, "signature": signature }));
    }
    if let Some(data) = &turn.answer.redacted_thinking {
        content.push(json!({ "type": "redacted_thinking", "data": data }));
    }
    if let Some(text) = &turn.answer.text {
        content.push(json!({ "type": "text", "text": text }));
    }
    for (at, call) in turn.answer.calls.iter().enumerate() {
        content.push(tool_use(turn, at, call));
    }
    let mut message = envelope(turn);
    message["content"] = content.into();
    message["stop_reason"] = stop_reason(turn).into();
    set_usage(&mut message, turn, turn.usage.output);
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
        tools: items(body, "tools")
            .filter(|_| body.pointer("/tool_choice/type").is_none_or(|choice| choice != "none"))
            .map(|tool| string_member(tool, "name"))
            .collect(),
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

fn set_usage(message: &mut Value, turn: &AnswerTurn<'_>, output: u64) {
    let usage = turn.usage;
    message["usage"] = turn.usage_json.cloned().unwrap_or_else(|| {
        json!({
            "input_tokens": usage.input.saturating_sub(usage.cached), "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": usage.cached, "output_tokens": output,
        })
    });
}

fn tool_use(turn: &AnswerTurn<'_>, at: usize, call: &ScriptedCall) -> Value {
    let id = call.id.clone().unwrap_or_else(|| tool_id(turn, at));
    let mut block = json!({ "type": "tool_use", "id": id, "name": call.name, "input": call.arguments });
    if id.is_empty()
        && let Some(members) = block.as_object_mut()
    {
        members.shift_remove("id");
    }
    block
}

/// Returns a text in pieces that fit into events.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES_MAX));
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Returns a signature that belongs to this text of this answer only.
fn signature(turn: &AnswerTurn<'_>, thinking: &str) -> String {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = thinking.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    format!("c2ln{:04}{hash:016x}", turn.number)
}

/// Ids of Anthropic's tool calls begin with `toolu_`, and clients may rely on it.
fn tool_id(turn: &AnswerTurn<'_>, at: usize) -> String {
    format!("toolu_{:04}_{at}", turn.number)
}

fn stop_reason<'a>(turn: &AnswerTurn<'a>) -> &'a str {
    if let Some(reason) = &turn.answer.stop_reason {
        reason
    } else if turn.is_short() {
        "max_tokens"
    } else if turn.answer.calls.is_empty() {
        "end_turn"
    } else {
        "tool_use"
    }
}
