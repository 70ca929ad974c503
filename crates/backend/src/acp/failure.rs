//! What an error of an agent means. Agents pass on what their services say, each in its own way.

use domain::run::{Failure, ModelError};
use serde_json::Value;

use super::agents::ERRORS;
use crate::kept::message;

/// The protocol's number for a user who has to log in first.
const AUTH_REQUIRED: i64 = -32_000;

/// How words end behind which the number of a status stands.
const BEFORE_STATUS: [&str; 5] = ["error", "status", "code", "http", "failed"];

/// Returns what an error in answer to a request means.
pub(super) fn of_error(name: &str, error: &Value, login: &str) -> Failure {
    let text = words(error);
    let code = error["code"].as_i64().unwrap_or_default();
    if code == AUTH_REQUIRED {
        let message = message(&format!("{name} wants its user to log in first{login} ({text})"));
        return Failure::Model { error: ModelError::Denied, message };
    }
    let status = u64::try_from(code).ok().filter(|code| (400..600).contains(code));
    match status.map(ModelError::of_status).or_else(|| of_text(&text)) {
        Some(error) => Failure::Model { error, message: message(&text) },
        None => Failure::Agent { message: message(&text) },
    }
}

/// Returns what a message means that stands for an error.
pub(super) fn of_message(text: &str) -> Failure {
    Failure::Model { error: of_text(text).unwrap_or(ModelError::Other), message: message(text) }
}

/// Returns what the words of an error mean: by the status that they name, or as they are.
fn of_text(text: &str) -> Option<ModelError> {
    let lower = text.to_lowercase();
    let known = || ERRORS.iter().find(|(words, _)| lower.contains(words)).map(|(_, error)| *error);
    status_in(&lower).map(ModelError::of_status).or_else(known)
}

/// Returns the status that a text in lower case names. Lines of a program and lengths have numbers too: a status begins
/// the text, or stands behind a word for it.
fn status_in(text: &str) -> Option<u64> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
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

/// Returns all that an error says.
pub(super) fn words(error: &Value) -> String {
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
