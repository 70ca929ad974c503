//! Anthropic Messages: parses answers. Content blocks stay as the service sent them, because it accepts signatures
//! and encrypted reasoning only unchanged.

use domain::conversation::StopReason;
use serde_json::Value;

use crate::api::answer::{AnswerBuilder, text_block};
use crate::api::failure::{self, ServiceError};

pub(super) fn handle_event(event: &Value, answer: &mut AnswerBuilder) -> Result<(), ServiceError> {
    let index = event["index"].as_u64();
    match event["type"].as_str() {
        Some("message_start") => {
            answer.name_model(&event["message"]["model"]);
            use_tokens(&event["message"]["usage"], answer);
        }
        Some("content_block_start") => return answer.start_block(index, &event["content_block"]),
        Some("content_block_delta") => return answer.apply_delta(index, &event["delta"]),
        Some("message_delta") => {
            use_tokens(&event["usage"], answer);
            answer.stop = stop(&event["delta"]).or(answer.stop.take());
        }
        Some("message_stop") => answer.is_over = true,
        Some("error") => return Err(failure::from_document(event)),
        _ => {}
    }
    Ok(())
}

pub(super) fn handle_document(document: &Value, answer: &mut AnswerBuilder) -> Result<(), ServiceError> {
    if document["type"] == "error" || document.get("error").is_some() {
        return Err(failure::from_document(document));
    }
    answer.name_model(&document["model"]);
    use_tokens(&document["usage"], answer);
    answer.stop = stop(document);
    match &document["content"] {
        Value::String(text) => answer.start_block(None, &text_block(text)),
        Value::Array(blocks) => blocks.iter().try_for_each(|block| answer.start_block(None, block)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Ok(()),
    }
}

/// Later figures replace earlier ones; figures that an event leaves out stay.
fn use_tokens(usage: &Value, answer: &mut AnswerBuilder) {
    let mut tokens = answer.tokens();
    let mut is_reported = false;
    let mut take = |key: &str, field: &mut u64| {
        if let Some(number) = usage[key].as_u64() {
            *field = number;
            is_reported = true;
        }
    };
    take("input_tokens", &mut tokens.fresh);
    take("cache_read_input_tokens", &mut tokens.cache_read);
    take("cache_creation_input_tokens", &mut tokens.cache_written);
    take("output_tokens", &mut tokens.output);
    if is_reported {
        answer.set_tokens(tokens);
    }
}

/// Reads why the model stopped from a message, or from what changed in it.
fn stop(message: &Value) -> Option<StopReason> {
    Some(match message["stop_reason"].as_str()? {
        "end_turn" | "stop_sequence" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" => StopReason::MaxTokens,
        "model_context_window_exceeded" => StopReason::ContextWindow,
        "refusal" => {
            let explanation = message["stop_details"]["explanation"].as_str();
            let words = explanation.unwrap_or("the model declines to answer");
            StopReason::Refusal(domain::size::head(words, 2_000).to_owned())
        }
        other => StopReason::Other(domain::size::head(other, 200).to_owned()),
    })
}
