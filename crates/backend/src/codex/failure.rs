//! What a failed turn of Codex means.

use domain::run::{Failure, ModelError};
use serde_json::Value;

/// The most of a message about a failure.
const MESSAGE_BYTES_MAX: usize = 2_000;

/// Returns a message that is short enough to be kept.
pub(super) fn message(text: &str) -> String {
    domain::size::head(text.trim(), MESSAGE_BYTES_MAX).to_owned()
}

/// Returns what went wrong, by the error of a turn.
pub(super) fn of_turn(error: &Value) -> Failure {
    let text = error["message"].as_str().unwrap_or("the turn failed");
    let message = message(text);
    let known = match &error["codexErrorInfo"] {
        Value::String(word) => of_word(word),
        Value::Object(kinds) => kinds.values().next().map(of_connection),
        _ => None,
    };
    match known.or_else(|| of_text(text)) {
        Some(error) => Failure::Model { error, message },
        None => Failure::Agent { message },
    }
}

fn of_word(word: &str) -> Option<ModelError> {
    Some(match word {
        "contextWindowExceeded" => ModelError::TooLong,
        "usageLimitExceeded" | "rateLimitExceeded" | "sessionBudgetExceeded" => ModelError::RateLimit,
        "serverOverloaded" | "internalServerError" | "flexUnavailable" | "policyCapacityUnavailable" => {
            ModelError::Overloaded
        }
        "modelNotFound" => ModelError::Unknown,
        "cyberPolicy" | "misalignmentPolicyViolation" => ModelError::Refusal,
        "unauthorized" => ModelError::Denied,
        "badRequest" => ModelError::BadRequest,
        _ => return None,
    })
}

/// A connection that failed, with a status if anybody answered.
fn of_connection(details: &Value) -> ModelError {
    details["httpStatusCode"].as_u64().map_or(ModelError::Unreachable, ModelError::of_status)
}

/// What Codex calls `other` is told in words: of its own, or as the service's answer.
fn of_text(text: &str) -> Option<ModelError> {
    if let Ok(answer) = serde_json::from_str::<Value>(text) {
        let kind = answer["error"]["type"].as_str()?;
        return Some(if kind == "invalid_request_error" {
            ModelError::BadRequest
        } else {
            ModelError::Other
        });
    }
    let spoken = [
        ("stream disconnected", ModelError::Unreachable),
        ("Incomplete response", ModelError::Other),
        ("Missing environment variable", ModelError::Denied),
        ("Quota exceeded", ModelError::RateLimit),
    ];
    spoken.into_iter().find(|(words, _)| text.contains(words)).map(|(_, error)| error)
}
