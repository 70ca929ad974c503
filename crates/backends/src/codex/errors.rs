//! What the error of a failed turn means.

use domain::run::{Failure, ModelError};
use serde_json::Value;

/// The longest message of a failure.
const MESSAGE_BYTES_MAX: usize = 2_000;

/// Shortens a message so that it can be stored.
pub(super) fn short_message(text: &str) -> String {
    domain::size::head(text.trim(), MESSAGE_BYTES_MAX).to_owned()
}

pub(super) fn turn_failure(error: &Value) -> Failure {
    let text = error["message"].as_str().unwrap_or("the turn failed");
    let message = short_message(text);
    let model_error = match &error["codexErrorInfo"] {
        Value::String(code) => model_error_from_code(code),
        Value::Object(kinds) => kinds.values().next().map(model_error_from_connection),
        _ => None,
    };
    match model_error.or_else(|| model_error_from_text(text)) {
        Some(error) => Failure::Model { error, message },
        None => Failure::Agent { message },
    }
}

fn model_error_from_code(code: &str) -> Option<ModelError> {
    Some(match code {
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

/// A failed connection has a status if the service answered.
fn model_error_from_connection(details: &Value) -> ModelError {
    details["httpStatusCode"].as_u64().map_or(ModelError::Unreachable, ModelError::from_http_status)
}

/// For the code `other`, only the message tells: it is a text of Codex, or the response of the service.
fn model_error_from_text(text: &str) -> Option<ModelError> {
    if let Ok(answer) = serde_json::from_str::<Value>(text) {
        let kind = answer["error"]["type"].as_str()?;
        return Some(if kind == "invalid_request_error" {
            ModelError::BadRequest
        } else {
            ModelError::Other
        });
    }
    let known_texts = [
        ("stream disconnected", ModelError::Unreachable),
        ("Incomplete response", ModelError::Other),
        ("Missing environment variable", ModelError::Denied),
        ("Quota exceeded", ModelError::RateLimit),
    ];
    known_texts.into_iter().find(|(marker, _)| text.contains(marker)).map(|(_, error)| error)
}
