//! Google streamGenerateContent.

use serde_json::{Value, json};

use super::{Heard, Posted};
use crate::api::failure::{self, Trouble};
use crate::api::job::Question;
use crate::api::word::{Stop, Tokens};

pub(super) fn post(question: &Question) -> Posted {
    let part = |text: &str| json!([{ "text": text }]);
    let mut body = json!({ "contents": [{ "role": "user", "parts": part(&question.prompt) }] });
    if !question.system.is_empty() {
        body["systemInstruction"] = json!({ "parts": part(&question.system) });
    }
    let mut settings = serde_json::Map::new();
    if let Some(temperature) = question.temperature {
        settings.insert("temperature".to_owned(), temperature.into());
    }
    if let Some(tokens) = question.max_tokens {
        settings.insert("maxOutputTokens".to_owned(), tokens.into());
    }
    if !settings.is_empty() {
        body["generationConfig"] = settings.into();
    }
    let model = question.model.strip_prefix("models/").unwrap_or(&question.model);
    let path = format!("/v1beta/models/{}:streamGenerateContent?alt=sse", in_path(model));
    Posted { path, headers: Vec::new(), body }
}

/// Returns a name as one part of a path: whatever a model is called, it cannot lead elsewhere.
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

pub(super) fn hear(event: &Value, heard: &mut Heard) -> Result<String, Trouble> {
    // Without a stream of events the answers stand in a list.
    if let Some(events) = event.as_array() {
        return events.iter().map(|event| hear(event, heard)).collect();
    }
    if failure::is_told(event) {
        return Err(failure::told(event));
    }
    heard.name_model(&event["modelVersion"]);
    if let Some(usage) = event.get("usageMetadata").filter(|usage| usage.is_object()) {
        heard.tokens = tokens(usage);
    }
    if let Some(reason) = event["promptFeedback"]["blockReason"].as_str() {
        heard.stop = Some(Stop::Refusal(format!("the service blocked the prompt: {reason}")));
    }
    let candidate = &event["candidates"][0];
    if let Some(reason) = candidate["finishReason"].as_str() {
        heard.stop = Some(stop(reason));
    }
    let parts = candidate["content"]["parts"].as_array().into_iter().flatten();
    let said = parts.filter(|part| part["thought"] != true);
    Ok(said.filter_map(|part| part["text"].as_str()).collect())
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
