//! OpenAI Chat Completions, as OpenAI, xAI, Mistral and many self-hosted servers speak it.

use domain::conversation::{ModelRequest, StopReason};
use serde_json::{Value, json};

use super::{HttpRequest, Wire, content_text};
use crate::api::answer::{AnswerBuilder, Tokens};
use crate::api::failure::{self, ServiceError};
use crate::api::providers::{ProviderQuirks, TokensBy};

pub(super) fn post(request: &ModelRequest, quirks: ProviderQuirks) -> Result<HttpRequest, ServiceError> {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({ "role": "system", "content": request.system }));
    }
    for turn in Wire::Chat.text_turns(request)? {
        let role = if turn.is_user { "user" } else { "assistant" };
        messages.push(json!({ "role": role, "content": turn.text }));
    }
    let mut body = json!({ "model": request.model, "stream": true, "messages": messages });
    if quirks.requests_usage {
        body["stream_options"] = json!({ "include_usage": true });
    }
    if let Some(temperature) = request.temperature {
        body["temperature"] = temperature.into();
    }
    if let Some(tokens) = request.max_output_tokens {
        let key = match quirks.tokens_by {
            TokensBy::MaxTokens => "max_tokens",
            TokensBy::MaxCompletionTokens => "max_completion_tokens",
        };
        body[key] = tokens.into();
    }
    if let Some(schema) = &request.output_schema {
        let format = json!({ "name": "answer", "schema": schema });
        body["response_format"] = json!({ "type": "json_schema", "json_schema": format });
    }
    Ok(HttpRequest { path: "/chat/completions".to_owned(), headers: Vec::new(), body })
}

pub(super) fn handle_event(event: &Value, answer: &mut AnswerBuilder) -> Result<(), ServiceError> {
    handle_choice(event, "delta", answer)
}

pub(super) fn handle_document(document: &Value, answer: &mut AnswerBuilder) -> Result<(), ServiceError> {
    handle_choice(document, "message", answer)
}

/// Handles a chunk or a whole completion, which differ in the key that holds the text.
fn handle_choice(event: &Value, part: &str, answer: &mut AnswerBuilder) -> Result<(), ServiceError> {
    let choice = &event["choices"][0];
    if choice.is_null() && failure::is_error(event) {
        return Err(failure::from_document(event));
    }
    answer.name_model(&event["model"]);
    if let Some(usage) = event.get("usage").filter(|usage| usage.is_object()) {
        answer.set_tokens(tokens(usage));
    }
    let message = &choice[part];
    let refused = message["refusal"].as_str().unwrap_or_default();
    if !refused.is_empty() {
        match &mut answer.stop {
            Some(StopReason::Refusal(words)) => words.push_str(refused),
            _ => answer.stop = Some(StopReason::Refusal(refused.to_owned())),
        }
    }
    let refusing = matches!(answer.stop, Some(StopReason::Refusal(_)));
    if let Some(reason) = choice["finish_reason"].as_str().filter(|_| !refusing) {
        answer.stop = Some(stop(reason));
    }
    answer.push_text(&content_text(&message["content"]))
}

fn tokens(usage: &Value) -> Tokens {
    let number = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let (prompt, total) = (number("/prompt_tokens"), number("/total_tokens"));
    let cache_read = number("/prompt_tokens_details/cached_tokens").min(prompt);
    // Some count reasoning tokens only in the total.
    let output = number("/completion_tokens").max(total.saturating_sub(prompt));
    Tokens { fresh: prompt - cache_read, cache_read, cache_written: 0, output }
}

fn stop(reason: &str) -> StopReason {
    match reason {
        "stop" | "end_turn" | "eos" => StopReason::EndTurn,
        "length" | "model_length" | "max_tokens" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refusal("the service's filter stopped the answer".to_owned()),
        other => StopReason::Other(domain::size::head(other, 200).to_owned()),
    }
}
