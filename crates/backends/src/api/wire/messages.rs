//! Anthropic Messages.

use serde_json::{Value, json};

use super::{HttpRequest, ResponseState, content_text};
use crate::api::failure::{self, ServiceError};
use crate::api::job::ModelRequest;
use crate::api::protocol::{Stop, Tokens};

/// The service requires a limit with every request; all its models accept this one.
const MAX_TOKENS: u32 = 16_384;
const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

pub(super) fn post(request: &ModelRequest) -> HttpRequest {
    let mut body = json!({
        "model": request.model,
        "max_tokens": request.max_tokens.unwrap_or(MAX_TOKENS),
        "stream": true,
        "messages": [{ "role": "user", "content": request.prompt }],
    });
    if !request.system.is_empty() {
        body["system"] = request.system.as_str().into();
    }
    if let Some(temperature) = request.temperature {
        body["temperature"] = temperature.into();
    }
    HttpRequest { path: "/v1/messages".to_owned(), headers: vec![VERSION], body }
}

pub(super) fn handle_event(event: &Value, state: &mut ResponseState) -> Result<String, ServiceError> {
    match event["type"].as_str() {
        Some("message_start") => {
            state.name_model(&event["message"]["model"]);
            use_tokens(&event["message"]["usage"], &mut state.tokens);
        }
        Some("content_block_start") => return Ok(block_text(&event["content_block"])),
        Some("content_block_delta") if event["delta"]["type"] == "text_delta" => {
            return Ok(event["delta"]["text"].as_str().unwrap_or_default().to_owned());
        }
        Some("message_delta") => {
            use_tokens(&event["usage"], &mut state.tokens);
            state.stop = stop(&event["delta"]["stop_reason"]).or(state.stop.take());
        }
        Some("message_stop") => state.over = true,
        Some("error") => return Err(failure::from_document(event)),
        _ => {}
    }
    Ok(String::new())
}

pub(super) fn handle_document(document: &Value, state: &mut ResponseState) -> Result<String, ServiceError> {
    if document["type"] == "error" || document.get("error").is_some() {
        return Err(failure::from_document(document));
    }
    state.name_model(&document["model"]);
    use_tokens(&document["usage"], &mut state.tokens);
    state.stop = stop(&document["stop_reason"]);
    Ok(content_text(&document["content"]))
}

fn block_text(block: &Value) -> String {
    block["text"].as_str().filter(|_| block["type"] == "text").unwrap_or_default().to_owned()
}

/// Later figures replace earlier ones; figures that an event leaves out stay.
fn use_tokens(usage: &Value, tokens: &mut Tokens) {
    let mut take = |key: &str, field: fn(&mut Tokens) -> &mut u64| {
        if let Some(number) = usage[key].as_u64() {
            *field(tokens) = number;
        }
    };
    take("input_tokens", |tokens| &mut tokens.fresh);
    take("cache_read_input_tokens", |tokens| &mut tokens.cache_read);
    take("cache_creation_input_tokens", |tokens| &mut tokens.cache_written);
    take("output_tokens", |tokens| &mut tokens.output);
}

fn stop(reason: &Value) -> Option<Stop> {
    Some(match reason.as_str()? {
        "end_turn" | "stop_sequence" => Stop::Whole,
        "max_tokens" | "model_context_window_exceeded" => Stop::Length,
        "refusal" => Stop::Refusal("the model declines to answer".to_owned()),
        other => Stop::Other(other.to_owned()),
    })
}
