//! OpenAI Chat Completions, as OpenAI, xAI, Mistral and many self-hosted servers speak it.

use serde_json::{Value, json};

use super::{HttpRequest, ResponseState, content_text};
use crate::api::failure::{self, ServiceError};
use crate::api::job::ModelRequest;
use crate::api::protocol::{Stop, Tokens};
use crate::api::providers::{ProviderQuirks, TokensBy};

pub(super) fn post(request: &ModelRequest, quirks: ProviderQuirks) -> HttpRequest {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({ "role": "system", "content": request.system }));
    }
    messages.push(json!({ "role": "user", "content": request.prompt }));
    let mut body = json!({ "model": request.model, "stream": true, "messages": messages });
    if quirks.requests_usage {
        body["stream_options"] = json!({ "include_usage": true });
    }
    if let Some(temperature) = request.temperature {
        body["temperature"] = temperature.into();
    }
    if let Some(tokens) = request.max_tokens {
        let key = match quirks.tokens_by {
            TokensBy::MaxTokens => "max_tokens",
            TokensBy::MaxCompletionTokens => "max_completion_tokens",
        };
        body[key] = tokens.into();
    }
    HttpRequest { path: "/chat/completions".to_owned(), headers: Vec::new(), body }
}

pub(super) fn handle_event(event: &Value, state: &mut ResponseState) -> Result<String, ServiceError> {
    handle_choice(event, "delta", state)
}

pub(super) fn handle_document(document: &Value, state: &mut ResponseState) -> Result<String, ServiceError> {
    handle_choice(document, "message", state)
}

/// Handles a chunk or a whole completion, which differ in the key that holds the text.
fn handle_choice(event: &Value, part: &str, state: &mut ResponseState) -> Result<String, ServiceError> {
    let choice = &event["choices"][0];
    if choice.is_null() && failure::is_error(event) {
        return Err(failure::from_document(event));
    }
    state.name_model(&event["model"]);
    if let Some(usage) = event.get("usage").filter(|usage| usage.is_object()) {
        state.tokens = tokens(usage);
    }
    let message = &choice[part];
    let refused = message["refusal"].as_str().unwrap_or_default();
    if !refused.is_empty() {
        match &mut state.stop {
            Some(Stop::Refusal(words)) => words.push_str(refused),
            _ => state.stop = Some(Stop::Refusal(refused.to_owned())),
        }
    }
    let refusing = matches!(state.stop, Some(Stop::Refusal(_)));
    if let Some(reason) = choice["finish_reason"].as_str().filter(|_| !refusing) {
        state.stop = Some(stop(reason));
    }
    Ok(content_text(&message["content"]))
}

fn tokens(usage: &Value) -> Tokens {
    let number = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let (prompt, total) = (number("/prompt_tokens"), number("/total_tokens"));
    let cache_read = number("/prompt_tokens_details/cached_tokens").min(prompt);
    // Some count reasoning tokens only in the total.
    let output = number("/completion_tokens").max(total.saturating_sub(prompt));
    Tokens { fresh: prompt - cache_read, cache_read, cache_written: 0, output }
}

fn stop(reason: &str) -> Stop {
    match reason {
        "stop" | "end_turn" | "eos" => Stop::Whole,
        "length" | "model_length" | "max_tokens" => Stop::Length,
        "content_filter" => Stop::Refusal("the service's filter stopped the answer".to_owned()),
        other => Stop::Other(other.to_owned()),
    }
}
