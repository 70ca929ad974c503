//! Google generateContent and streamGenerateContent.

use serde_json::{Value, json};

use super::{AnswerTurn, Event};
use crate::model_request::{Message, ModelRequest, ToolResult, collect_text, items, string_member};
use crate::script::Fault;

pub(super) fn events(turn: &AnswerTurn<'_>) -> Vec<Event> {
    let mut events = Vec::new();
    if let Some(thinking) = &turn.answer.thinking {
        events.push(Event::json(reply(turn, vec![json!({ "text": thinking, "thought": true })], None)));
    }
    let halves = turn.halves();
    let last = halves.len().saturating_sub(1);
    for (at, text) in halves.into_iter().enumerate() {
        let event = Event::json(reply(turn, vec![json!({ "text": text })], None));
        events.push(Event { is_break_point: at == last, ..event });
    }
    // A stream ends with the finish reason; there is no separate event for the end.
    events.push(Event::json(reply(turn, calls(turn), Some(finish(turn)))));
    events
}

pub(super) fn whole(turn: &AnswerTurn<'_>) -> Value {
    let mut parts = Vec::new();
    if let Some(thinking) = &turn.answer.thinking {
        parts.push(json!({ "text": thinking, "thought": true }));
    }
    if let Some(text) = &turn.answer.text {
        parts.push(json!({ "text": text }));
    }
    parts.extend(calls(turn));
    reply(turn, parts, Some(finish(turn)))
}

pub(super) fn fault(fault: &Fault) -> Value {
    let status = fault.kind.as_deref().unwrap_or(match fault.status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 | 529 => "UNAVAILABLE",
        400..500 => "INVALID_ARGUMENT",
        _ => "INTERNAL",
    });
    let mut error = json!({ "code": fault.status, "message": fault.message, "status": status });
    if let Some(seconds) = fault.retry_after_s {
        let kind = "type.googleapis.com/google.rpc.RetryInfo";
        error["details"] = json!([{ "@type": kind, "retryDelay": format!("{seconds}s") }]);
    }
    json!({ "error": error })
}

pub(super) fn parse_request(path: &str, body: &Value) -> ModelRequest {
    let model = path.rsplit('/').next().and_then(|last| last.split(':').next()).unwrap_or_default();
    let declared = |tool: &Value| {
        let names = items(tool, "functionDeclarations").map(|tool| string_member(tool, "name"));
        names.collect::<Vec<_>>()
    };
    let settings = &body["generationConfig"];
    let schema = settings.get("responseJsonSchema").or_else(|| settings.get("responseSchema"));
    ModelRequest {
        model: model.to_owned(),
        stream: path.ends_with(":streamGenerateContent"),
        system: collect_text(&body["systemInstruction"]["parts"]),
        tools: items(body, "tools").flat_map(declared).collect(),
        messages: items(body, "contents").map(message).collect(),
        schema: schema.cloned(),
    }
}

fn message(content: &Value) -> Message {
    let mut message = Message { role: string_member(content, "role"), ..Message::default() };
    let mut texts = Vec::new();
    for part in items(content, "parts") {
        if let Some(call) = part.get("functionCall") {
            message.calls.push(string_member(call, "name"));
        } else if let Some(result) = part.get("functionResponse") {
            let response = &result["response"];
            let text = response.get("output").or_else(|| response.get("error")).unwrap_or(response);
            let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
            let failed = response.get("error").is_some();
            message.results.push(ToolResult { call: string_member(result, "name"), text, failed });
        } else {
            texts.push(collect_text(part));
        }
    }
    message.text = texts.join("\n");
    message
}

fn calls(turn: &AnswerTurn<'_>) -> Vec<Value> {
    let call = |(at, call): (usize, &crate::script::ScriptedCall)| json!({ "functionCall": { "id": turn.call_id(at), "name": call.name, "args": call.arguments } });
    turn.answer.calls.iter().enumerate().map(call).collect()
}

fn reply(turn: &AnswerTurn<'_>, parts: Vec<Value>, finish: Option<&str>) -> Value {
    let mut candidate = json!({ "index": 0, "content": { "role": "model", "parts": parts } });
    let mut reply = json!({ "modelVersion": turn.model, "responseId": turn.message_id() });
    if let Some(finish) = finish {
        candidate["finishReason"] = finish.into();
        reply["usageMetadata"] = json!({
            "promptTokenCount": turn.usage.input, "candidatesTokenCount": turn.usage.output,
            "cachedContentTokenCount": turn.usage.cached,
            "totalTokenCount": turn.usage.input + turn.usage.output,
        });
    }
    reply["candidates"] = json!([candidate]);
    reply
}

fn finish(turn: &AnswerTurn<'_>) -> &'static str {
    if turn.is_short() { "MAX_TOKENS" } else { "STOP" }
}
