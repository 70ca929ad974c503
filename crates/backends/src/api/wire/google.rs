//! Google streamGenerateContent.

use serde_json::{Value, json};

use super::{HttpRequest, ResponseState};
use crate::api::failure::{self, ServiceError};
use crate::api::job::ModelRequest;
use crate::api::protocol::{Stop, Tokens};

pub(super) fn post(request: &ModelRequest) -> HttpRequest {
    let part = |text: &str| json!([{ "text": text }]);
    let mut body = json!({ "contents": [{ "role": "user", "parts": part(&request.prompt) }] });
    if !request.system.is_empty() {
        body["systemInstruction"] = json!({ "parts": part(&request.system) });
    }
    let mut settings = serde_json::Map::new();
    if let Some(temperature) = request.temperature {
        settings.insert("temperature".to_owned(), temperature.into());
    }
    if let Some(tokens) = request.max_tokens {
        settings.insert("maxOutputTokens".to_owned(), tokens.into());
    }
    if !settings.is_empty() {
        body["generationConfig"] = settings.into();
    }
    let model = request.model.strip_prefix("models/").unwrap_or(&request.model);
    let path = format!("/v1beta/models/{}:streamGenerateContent?alt=sse", in_path(model));
    HttpRequest { path, headers: Vec::new(), body }
}

/// Returns a name as one part of a path, so that no name of a model can lead elsewhere.
fn in_path(name: &str) -> String {
    let mut path = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => path.push(char::from(byte)),
            // A name of nothing but dots would be a step upward.
            b'.' if name.bytes().any(|byte| byte.is_ascii_alphanumeric()) => path.push('.'),
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

pub(super) fn handle_event(event: &Value, state: &mut ResponseState) -> Result<String, ServiceError> {
    // Without a stream of events the answers are in a list.
    if let Some(events) = event.as_array() {
        return events.iter().map(|event| handle_event(event, state)).collect();
    }
    if failure::is_error(event) {
        return Err(failure::from_document(event));
    }
    state.name_model(&event["modelVersion"]);
    if let Some(usage) = event.get("usageMetadata").filter(|usage| usage.is_object()) {
        state.tokens = tokens(usage);
    }
    if let Some(reason) = event["promptFeedback"]["blockReason"].as_str() {
        state.stop = Some(Stop::Refusal(format!("the service blocked the prompt: {reason}")));
    }
    let candidate = &event["candidates"][0];
    if let Some(reason) = candidate["finishReason"].as_str() {
        state.stop = Some(stop(reason));
    }
    let parts = candidate["content"]["parts"].as_array().into_iter().flatten();
    let answer_parts = parts.filter(|part| part["thought"] != true);
    Ok(answer_parts.filter_map(|part| part["text"].as_str()).collect())
}

fn tokens(usage: &Value) -> Tokens {
    let number = |key: &str| usage[key].as_u64().unwrap_or(0);
    let prompt = number("promptTokenCount");
    let cache_read = number("cachedContentTokenCount").min(prompt);
    let output = number("candidatesTokenCount") + number("thoughtsTokenCount");
    Tokens { fresh: prompt - cache_read, cache_read, cache_written: 0, output }
}

fn stop(reason: &str) -> Stop {
    match reason {
        "STOP" => Stop::Whole,
        "MAX_TOKENS" => Stop::Length,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY" => {
            Stop::Refusal(format!("the service stopped the answer: {reason}"))
        }
        other => Stop::Other(other.to_owned()),
    }
}
