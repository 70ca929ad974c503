//! Anthropic Messages.

use serde_json::{Value, json};

use super::{Heard, Posted, text_of};
use crate::api::failure::{self, Trouble};
use crate::api::job::Question;
use crate::api::word::{Stop, Tokens};

/// The service wants a limit with every question; every model that it offers takes this one.
const MAX_TOKENS: u32 = 16_384;
const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

pub(super) fn post(question: &Question) -> Posted {
    let mut body = json!({
        "model": question.model,
        "max_tokens": question.max_tokens.unwrap_or(MAX_TOKENS),
        "stream": true,
        "messages": [{ "role": "user", "content": question.prompt }],
    });
    if !question.system.is_empty() {
        body["system"] = question.system.as_str().into();
    }
    if let Some(temperature) = question.temperature {
        body["temperature"] = temperature.into();
    }
    Posted { path: "/v1/messages".to_owned(), headers: vec![VERSION], body }
}

pub(super) fn hear(event: &Value, heard: &mut Heard) -> Result<String, Trouble> {
    match event["type"].as_str() {
        Some("message_start") => {
            heard.name_model(&event["message"]["model"]);
            use_tokens(&event["message"]["usage"], &mut heard.tokens);
        }
        Some("content_block_start") => return Ok(text_of_block(&event["content_block"])),
        Some("content_block_delta") if event["delta"]["type"] == "text_delta" => {
            return Ok(event["delta"]["text"].as_str().unwrap_or_default().to_owned());
        }
        Some("message_delta") => {
            use_tokens(&event["usage"], &mut heard.tokens);
            heard.stop = stop(&event["delta"]["stop_reason"]).or(heard.stop.take());
        }
        Some("message_stop") => heard.over = true,
        Some("error") => return Err(failure::told(event)),
        _ => {}
    }
    Ok(String::new())
}

pub(super) fn hear_whole(document: &Value, heard: &mut Heard) -> Result<String, Trouble> {
    if document["type"] == "error" || document.get("error").is_some() {
        return Err(failure::told(document));
    }
    heard.name_model(&document["model"]);
    use_tokens(&document["usage"], &mut heard.tokens);
    heard.stop = stop(&document["stop_reason"]);
    Ok(text_of(&document["content"]))
}

fn text_of_block(block: &Value) -> String {
    block["text"].as_str().filter(|_| block["type"] == "text").unwrap_or_default().to_owned()
}

/// Later figures take the place of earlier ones; what an event leaves out stays.
fn use_tokens(usage: &Value, tokens: &mut Tokens) {
    let mut take = |key: &str, place: fn(&mut Tokens) -> &mut u64| {
        if let Some(number) = usage[key].as_u64() {
            *place(tokens) = number;
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
