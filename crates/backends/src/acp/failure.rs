//! Interprets errors of an agent. Agents pass on the messages of their services, each in its own way.

use domain::run::{Failure, ModelError};
use serde_json::Value;

use super::profile::ERROR_PHRASES;
use crate::stream_buffer::bounded_message;

/// The protocol's error code for a user who has to log in first.
const AUTH_REQUIRED: i64 = -32_000;

/// The endings of words after which the number of a status follows.
const BEFORE_STATUS: [&str; 5] = ["error", "status", "code", "http", "failed"];

/// Interprets an error in response to a request.
pub(super) fn from_error(name: &str, error: &Value, login: &str) -> Failure {
    let text = error_text(error);
    let code = error["code"].as_i64().unwrap_or_default();
    if code == AUTH_REQUIRED {
        let message = bounded_message(&format!("{name} wants its user to log in first{login} ({text})"));
        return Failure::Model { error: ModelError::Denied, message };
    }
    let status = u64::try_from(code).ok().filter(|code| (400..600).contains(code));
    match status.map(ModelError::from_http_status).or_else(|| classify(&text)) {
        Some(error) => Failure::Model { error, message: bounded_message(&text) },
        None => Failure::Agent { message: bounded_message(&text) },
    }
}

/// Interprets a message that represents an error.
pub(super) fn from_message(text: &str) -> Failure {
    Failure::Model { error: classify(text).unwrap_or(ModelError::Other), message: bounded_message(text) }
}

/// Interprets the text of an error: by the status that it names, or by its words.
fn classify(text: &str) -> Option<ModelError> {
    let lower = text.to_lowercase();
    let known = || ERROR_PHRASES.iter().find(|(words, _)| lower.contains(words)).map(|(_, error)| *error);
    find_status(&lower).map(ModelError::from_http_status).or_else(known)
}

/// Returns the status that a text in lower case names. Lines of a program and lengths are numbers too: a status
/// begins the text, or follows a word for it.
fn find_status(text: &str) -> Option<u64> {
    let words =
        text.split(|character: char| !character.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut before = None;
    for word in words {
        let is_status =
            before.is_none_or(|before: &str| BEFORE_STATUS.iter().any(|end| before.ends_with(end)));
        let status = word.parse().ok().filter(|status| is_status && (400..600).contains(status));
        if status.is_some() {
            return status;
        }
        before = Some(word);
    }
    None
}

/// Returns the full text of an error.
pub(super) fn error_text(error: &Value) -> String {
    let mut text = error["message"].as_str().unwrap_or("an error without a message").to_owned();
    let more = match &error["data"] {
        Value::Null => None,
        Value::String(more) => Some(more.clone()),
        data => {
            let details = ["details", "message", "error"].iter().find_map(|key| data[key].as_str());
            Some(details.map_or_else(|| data.to_string(), ToOwned::to_owned))
        }
    };
    if let Some(more) = more.filter(|more| !text.contains(more.as_str())) {
        text.push_str(": ");
        text.push_str(&more);
    }
    text
}
