//! OpenAI Chat Completions, as OpenAI, xAI, Mistral and many servers of one's own speak it.

use serde_json::{Value, json};

use super::{Heard, Posted, text_of};
use crate::api::failure::{self, Trouble};
use crate::api::job::Question;
use crate::api::providers::{Habits, TokensBy};
use crate::api::word::{Stop, Tokens};

pub(super) fn post(question: &Question, habits: Habits) -> Posted {
    let mut messages = Vec::new();
    if !question.system.is_empty() {
        messages.push(json!({ "role": "system", "content": question.system }));
    }
    messages.push(json!({ "role": "user", "content": question.prompt }));
    let mut body = json!({ "model": question.model, "stream": true, "messages": messages });
    if habits.asks_usage {
        body["stream_options"] = json!({ "include_usage": true });
    }
    if let Some(temperature) = question.temperature {
        body["temperature"] = temperature.into();
    }
    if let Some(tokens) = question.max_tokens {
        let key = match habits.tokens_by {
            TokensBy::MaxTokens => "max_tokens",
            TokensBy::MaxCompletionTokens => "max_completion_tokens",
        };
        body[key] = tokens.into();
    }
    Posted { path: "/chat/completions".to_owned(), headers: Vec::new(), body }
}

pub(super) fn hear(event: &Value, heard: &mut Heard) -> Result<String, Trouble> {
    hear_choice(event, "delta", heard)
}

pub(super) fn hear_whole(document: &Value, heard: &mut Heard) -> Result<String, Trouble> {
    hear_choice(document, "message", heard)
}

/// Takes in a chunk or a whole completion: they differ in what holds the text.
fn hear_choice(event: &Value, part: &str, heard: &mut Heard) -> Result<String, Trouble> {
    let choice = &event["choices"][0];
    if choice.is_null() && failure::is_told(event) {
        return Err(failure::told(event));
    }
    heard.name_model(&event["model"]);
    if let Some(usage) = event.get("usage").filter(|usage| usage.is_object()) {
        heard.tokens = tokens(usage);
    }
    let said = &choice[part];
    let refused = said["refusal"].as_str().unwrap_or_default();
    if !refused.is_empty() {
        match &mut heard.stop {
            Some(Stop::Refusal(words)) => words.push_str(refused),
            _ => heard.stop = Some(Stop::Refusal(refused.to_owned())),
        }
    }
    let refusing = matches!(heard.stop, Some(Stop::Refusal(_)));
    if let Some(reason) = choice["finish_reason"].as_str().filter(|_| !refusing) {
        heard.stop = Some(stop(reason));
    }
    Ok(text_of(&said["content"]))
}

fn tokens(usage: &Value) -> Tokens {
    let number = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let (prompt, total) = (number("/prompt_tokens"), number("/total_tokens"));
    let cache_read = number("/prompt_tokens_details/cached_tokens").min(prompt);
    // Some count what was thought only in the total.
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
