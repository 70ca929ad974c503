//! OpenAI Responses.

use serde_json::{Value, json};

use super::{AnswerTurn, Event};
use crate::model_request::{Message, ModelRequest, ToolResult, collect_text, items, string_member};
use crate::script::ScriptedCall;

pub(super) fn events(turn: &AnswerTurn<'_>) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut push = |name: &'static str, mut data: Value, is_break_point: bool| {
        data["type"] = name.into();
        data["sequence_number"] = events.len().into();
        events.push(Event { is_break_point, ..Event::with_name(name, data) });
    };
    let started = response(turn, "in_progress", Vec::new(), Value::Null);
    push("response.created", json!({ "response": started }), false);
    push("response.in_progress", json!({ "response": started }), false);
    let items = output(turn);
    for (at, item) in items.iter().enumerate() {
        let id = item["id"].clone();
        let mut opened = item.clone();
        opened["status"] = "in_progress".into();
        match item["type"].as_str() {
            Some("message") => {
                opened["content"] = json!([]);
                push("response.output_item.added", json!({ "output_index": at, "item": opened }), false);
                let part = json!({ "type": "output_text", "text": "", "annotations": [] });
                let location = json!({ "output_index": at, "content_index": 0, "item_id": id });
                push("response.content_part.added", with_member(&location, "part", part), false);
                let halves = turn.halves();
                let last = halves.len().saturating_sub(1);
                for (piece, text) in halves.into_iter().enumerate() {
                    let delta = with_member(&location, "delta", text.into());
                    push("response.output_text.delta", delta, piece == last);
                }
                let text = turn.answer.text.as_deref().unwrap_or_default();
                push("response.output_text.done", with_member(&location, "text", text.into()), false);
                push(
                    "response.content_part.done",
                    with_member(&location, "part", item["content"][0].clone()),
                    false,
                );
            }
            Some("function_call") => {
                opened["arguments"] = "".into();
                push("response.output_item.added", json!({ "output_index": at, "item": opened }), false);
                let location = json!({ "output_index": at, "item_id": id });
                let arguments = item["arguments"].clone();
                let delta = with_member(&location, "delta", arguments.clone());
                push("response.function_call_arguments.delta", delta, false);
                let done = with_member(&location, "arguments", arguments);
                push("response.function_call_arguments.done", done, false);
            }
            _ => push("response.output_item.added", json!({ "output_index": at, "item": opened }), false),
        }
        push("response.output_item.done", json!({ "output_index": at, "item": item }), false);
    }
    let (name, ended_response) = ended_response(turn, items);
    push(name, json!({ "response": ended_response }), false);
    events
}

pub(super) fn whole(turn: &AnswerTurn<'_>) -> Value {
    ended_response(turn, output(turn)).1
}

pub(super) fn parse_request(body: &Value) -> ModelRequest {
    let mut ask = ModelRequest {
        model: string_member(body, "model"),
        stream: body["stream"].as_bool().unwrap_or(false),
        system: string_member(body, "instructions"),
        schema: body.pointer("/text/format/schema").cloned(),
        ..ModelRequest::default()
    };
    for tool in items(body, "tools") {
        let inside: Vec<String> = items(tool, "tools").map(|tool| string_member(tool, "name")).collect();
        let name = string_member(tool, "name");
        // A namespace is a tool that contains tools.
        if !inside.is_empty() {
            ask.tools.extend(inside.into_iter().map(|tool| format!("{name}.{tool}")));
        } else if name.is_empty() {
            ask.tools.push(string_member(tool, "type"));
        } else {
            ask.tools.push(name);
        }
    }
    match &body["input"] {
        Value::String(text) => {
            let user = Message { role: "user".to_owned(), text: text.clone(), ..Message::default() };
            ask.messages.push(user);
        }
        input => ask.messages = input.as_array().into_iter().flatten().map(message).collect(),
    }
    ask
}

fn message(item: &Value) -> Message {
    let kind = item["type"].as_str().unwrap_or("message");
    match kind {
        "function_call_output" | "custom_tool_call_output" => {
            let output = &item["output"];
            let result = ToolResult {
                call: string_member(item, "call_id"),
                text: collect_text(output),
                failed: false,
            };
            Message { role: "tool".to_owned(), results: vec![result], ..Message::default() }
        }
        "function_call" | "custom_tool_call" => Message {
            role: "assistant".to_owned(),
            calls: vec![string_member(item, "name")],
            ..Message::default()
        },
        "message" => Message {
            role: string_member(item, "role"),
            text: collect_text(&item["content"]),
            ..Message::default()
        },
        other => Message { role: other.to_owned(), ..Message::default() },
    }
}

fn output(turn: &AnswerTurn<'_>) -> Vec<Value> {
    let mut items = Vec::new();
    if let Some(thinking) = &turn.answer.thinking {
        items.push(json!({
            "id": format!("rs_{:04}", turn.number), "type": "reasoning", "status": "completed",
            "summary": [{ "type": "summary_text", "text": thinking }], "encrypted_content": "c2VjcmV0",
        }));
    }
    if let Some(text) = &turn.answer.text {
        items.push(json!({
            "id": turn.message_id(), "type": "message", "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }],
        }));
    }
    items.extend(turn.answer.calls.iter().enumerate().map(|(at, call)| tool_call(turn, at, call)));
    items
}

fn tool_call(turn: &AnswerTurn<'_>, at: usize, call: &ScriptedCall) -> Value {
    let id = format!("fc_{:04}_{at}", turn.number);
    if let Value::String(input) = &call.arguments {
        return json!({
            "id": id, "type": "custom_tool_call", "status": "completed", "call_id": turn.call_id(at),
            "name": call.name, "input": input,
        });
    }
    let mut item = json!({
        "id": id, "type": "function_call", "status": "completed", "call_id": turn.call_id(at),
        "name": call.name, "arguments": call.arguments.to_string(),
    });
    if let Some(namespace) = &call.namespace {
        item["namespace"] = namespace.as_str().into();
    }
    item
}

fn ended_response(turn: &AnswerTurn<'_>, output: Vec<Value>) -> (&'static str, Value) {
    let usage = json!({
        "input_tokens": turn.usage.input, "input_tokens_details": { "cached_tokens": turn.usage.cached },
        "output_tokens": turn.usage.output, "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": turn.usage.input + turn.usage.output,
    });
    if turn.is_short() {
        let mut response = response(turn, "incomplete", output, usage);
        response["incomplete_details"] = json!({ "reason": "max_output_tokens" });
        return ("response.incomplete", response);
    }
    ("response.completed", response(turn, "completed", output, usage))
}

fn response(turn: &AnswerTurn<'_>, status: &str, output: Vec<Value>, usage: Value) -> Value {
    json!({
        "id": format!("resp_{:04}", turn.number), "object": "response", "created_at": 0, "status": status,
        "model": turn.model, "output": output, "usage": usage, "error": null, "incomplete_details": null,
        "parallel_tool_calls": true, "tool_choice": "auto", "tools": [], "metadata": {},
    })
}

fn with_member(location: &Value, member: &str, value: Value) -> Value {
    let mut location = location.clone();
    location[member] = value;
    location
}
