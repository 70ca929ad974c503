//! What the errors of Gemini CLI mean.

use domain::run::ModelError;
use serde_json::Value;

use super::versions::RETRYING;
use crate::contract::{AgentReport, Exit};
use crate::stream_buffer;

/// Reports why Gemini CLI repeated a request when it was ended. The last such line counts: `Attempt 3 failed with status 503.
/// Retrying with backoff... Error: …`.
pub(super) fn retry_report(stderr: &str) -> Option<AgentReport> {
    let line = stderr.lines().rfind(|line| line.starts_with("Attempt ") && line.contains(RETRYING))?;
    let (_, reason) = line.split_once(RETRYING)?;
    let mut numbers = line.split(|character: char| !character.is_ascii_digit());
    let status = numbers.find_map(|number| number.parse().ok().filter(|status| (400..600).contains(status)));
    let error = status.map_or_else(
        || if is_unreachable(reason) { ModelError::Unreachable } else { ModelError::Other },
        ModelError::from_http_status,
    );
    let reason = reason.trim_start_matches(['.', ' ']).trim();
    Some(AgentReport::Retrying {
        error,
        message: stream_buffer::bounded_message(&format!("gemini asks its model again: {reason}")),
    })
}

/// Returns the error of the model, if the model caused the failure.
pub(super) fn model_error(event: &Value, message: &str, exit: Exit) -> Option<ModelError> {
    if message.starts_with("The model response was blocked") {
        return Some(ModelError::Refusal);
    }
    if is_unreachable(message) {
        return Some(ModelError::Unreachable);
    }
    let lower = message.to_ascii_lowercase();
    if lower.contains("token count") && lower.contains("exceeds") {
        return Some(ModelError::TooLong);
    }
    // This is the only status for which Gemini CLI exits with 1.
    if lower.contains("models/") && lower.contains("is not found") {
        return Some(ModelError::Unknown);
    }
    // The exit code contains the lower eight bits of the status.
    let status = match exit {
        Exit::Code(code @ 144..=255) => u64::try_from(code).ok().map(|code| code + 256),
        Exit::Code(17) => Some(529),
        Exit::Code(_) | Exit::Signal(_) => None,
    };
    match status {
        Some(status) => Some(ModelError::from_http_status(status)),
        // An unusable response has no error event, only a message before the result.
        None => (event["error"].is_null() || message.starts_with("[API Error")).then_some(ModelError::Other),
    }
}

fn is_unreachable(message: &str) -> bool {
    let lower = message.to_ascii_lowercase();
    ["fetch failed", "econnrefused", "enotfound", "eai_again", "etimedout"]
        .iter()
        .any(|marker| lower.contains(marker))
}
