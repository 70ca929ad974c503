//! OpenAI Responses.

use serde_json::{Value, json};

use super::{Event, Turn};
use crate::ask::{Ask, Message, ToolResult, items, string_of, text_of};
use crate::script::ToolCall;

pub(super) fn events(turn: &Turn<'_>) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut push = |name: &'static str, mut data: Value, breaks: bool| {
        data["type"] = name.into();
        data["sequence_number"] = events.len().into();
        events.push(Event { breaks, ..Event::named(name, data) });
    };
    let begun = response(turn, "in_progress", Vec::new(), Value::Null);
    push("response.created", json!({ "response": begun }), false);
    push("response.in_progress", json!({ "response": begun }), false);
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
                let place = json!({ "output_index": at, "content_index": 0, "item_id": id });
                push("response.content_part.added", with(&place, "part", part), false);
                let halves = turn.halves();
                let last = halves.len().saturating_sub(1);
                for (piece, text) in halves.into_iter().enumerate() {
                    let delta = with(&place, "delta", text.into());
                    push("response.output_text.delta", delta, piece == last);
                }
                let text = turn.answer.text.as_deref().unwrap_or_default();
                push("response.output_text.done", with(&place, "text", text.into()), false);
                push("response.content_part.done", with(&place, "part", item["content"][0].clone()), false);
            }
            Some("function_call") => {
                opened["arguments"] = "".into();
                push("response.output_item.added", json!({ "output_index": at, "item": opened }), false);
                let place = json!({ "output_index": at, "item_id": id });
                let arguments = item["arguments"].clone();
                let delta = with(&place, "delta", arguments.clone());
                push("response.function_call_arguments.delta", delta, false);
                let done = with(&place, "arguments", arguments);
                push("response.function_call_arguments.done", done, false);
            }
            _ => push("response.output_item.added", json!({ "output_index": at, "item": opened }), false),
        }
        push("response.output_item.done", json!({ "output_index": at, "item": item }), false);
    }
    let (name, ended) = ended(turn, items);
    push(name, json!({ "response": ended }), false);
    events
}

pub(super) fn whole(turn: &Turn<'_>) -> Value {
    ended(turn, output(turn)).1
}

pub(super) fn ask(body: &Value) -> Ask {
    let mut ask = Ask {
        model: string_of(body, "model"),
        stream: body["stream"].as_bool().unwrap_or(false),
        system: string_of(body, "instructions"),
        schema: body.pointer("/text/format/schema").cloned(),
        ..Ask::default()
    };
    for tool in items(body, "tools") {
        let inside: Vec<String> = items(tool, "tools").map(|tool| string_of(tool, "name")).collect();
        let name = string_of(tool, "name");
        // A namespace is a tool that holds tools.
        if !inside.is_empty() {
            ask.tools.extend(inside.into_iter().map(|tool| format!("{name}.{tool}")));
        } else if name.is_empty() {
            ask.tools.push(string_of(tool, "type"));
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
            let result =
                ToolResult { call: string_of(item, "call_id"), text: text_of(output), failed: false };
            Message { role: "tool".to_owned(), results: vec![result], ..Message::default() }
        }
        "function_call" | "custom_tool_call" => Message {
            role: "assistant".to_owned(),
            calls: vec![string_of(item, "name")],
            ..Message::default()
        },
        "message" => {
            Message { role: string_of(item, "role"), text: text_of(&item["content"]), ..Message::default() }
        }
        other => Message { role: other.to_owned(), ..Message::default() },
    }
}

fn output(turn: &Turn<'_>) -> Vec<Value> {
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

fn tool_call(turn: &Turn<'_>, at: usize, call: &ToolCall) -> Value {
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

fn ended(turn: &Turn<'_>, output: Vec<Value>) -> (&'static str, Value) {
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

fn response(turn: &Turn<'_>, status: &str, output: Vec<Value>, usage: Value) -> Value {
    json!({
        "id": format!("resp_{:04}", turn.number), "object": "response", "created_at": 0, "status": status,
        "model": turn.model, "output": output, "usage": usage, "error": null, "incomplete_details": null,
        "parallel_tool_calls": true, "tool_choice": "auto", "tools": [], "metadata": {},
    })
}

fn with(place: &Value, member: &str, value: Value) -> Value {
    let mut place = place.clone();
    place[member] = value;
    place
}
