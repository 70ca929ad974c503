//! Google streamGenerateContent.

use domain::conversation::{ModelRequest, StopReason};
use serde_json::{Value, json};

use super::{HttpRequest, Wire};
use crate::api::answer::{AnswerBuilder, Tokens};
use crate::api::failure::{self, ServiceError};

pub(super) fn post(request: &ModelRequest) -> Result<HttpRequest, ServiceError> {
    let part = |text: &str| json!([{ "text": text }]);
    let turns = Wire::Google.text_turns(request)?;
    let contents = turns.iter().map(|turn| {
        let role = if turn.is_user { "user" } else { "model" };
        json!({ "role": role, "parts": part(turn.text) })
    });
    let mut body = json!({ "contents": contents.collect::<Vec<_>>() });
    if !request.system.is_empty() {
        body["systemInstruction"] = json!({ "parts": part(&request.system) });
    }
    let mut settings = serde_json::Map::new();
    if let Some(temperature) = request.temperature {
        settings.insert("temperature".to_owned(), temperature.into());
    }
    if let Some(tokens) = request.max_output_tokens {
        settings.insert("maxOutputTokens".to_owned(), tokens.into());
    }
    if let Some(schema) = &request.output_schema {
        settings.insert("responseMimeType".to_owned(), "application/json".into());
        settings.insert("responseJsonSchema".to_owned(), schema.clone());
    }
    if !settings.is_empty() {
        body["generationConfig"] = settings.into();
    }
    let model = request.model.strip_prefix("models/").unwrap_or(&request.model);
    let path = format!("/v1beta/models/{}:streamGenerateContent?alt=sse", in_path(model));
    Ok(HttpRequest { path, headers: Vec::new(), body })
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

pub(super) fn handle_event(event: &Value, answer: &mut AnswerBuilder) -> Result<(), ServiceError> {
    // Without a stream of events the answers are in a list.
    if let Some(events) = event.as_array() {
        return events
            .iter()
            .filter(|event| event.is_object())
            .try_for_each(|event| handle_event(event, answer));
    }
    if failure::is_error(event) {
        return Err(failure::from_document(event));
    }
    answer.name_model(&event["modelVersion"]);
    if let Some(usage) = event.get("usageMetadata").filter(|usage| usage.is_object()) {
        answer.set_tokens(tokens(usage));
    }
    if let Some(reason) = event["promptFeedback"]["blockReason"].as_str() {
        answer.stop = Some(StopReason::Refusal(format!("the service blocked the prompt: {reason}")));
    }
    let candidate = &event["candidates"][0];
    if let Some(reason) = candidate["finishReason"].as_str() {
        answer.stop = Some(stop(reason));
    }
    let parts = candidate["content"]["parts"].as_array().into_iter().flatten();
    let answer_parts = parts.filter(|part| part["thought"] != true);
    let text: String = answer_parts.filter_map(|part| part["text"].as_str()).collect();
    answer.push_text(&text)
}

fn tokens(usage: &Value) -> Tokens {
    let number = |key: &str| usage[key].as_u64().unwrap_or(0);
    let prompt = number("promptTokenCount");
    let cache_read = number("cachedContentTokenCount").min(prompt);
    let output = number("candidatesTokenCount").saturating_add(number("thoughtsTokenCount"));
    Tokens { fresh: prompt - cache_read, cache_read, cache_written: 0, output }
}

fn stop(reason: &str) -> StopReason {
    match reason {
        "STOP" => StopReason::EndTurn,
        "MAX_TOKENS" => StopReason::MaxTokens,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY" => {
            StopReason::Refusal(format!("the service stopped the answer: {reason}"))
        }
        other => StopReason::Other(domain::size::head(other, 200).to_owned()),
    }
}
