//! What the errors in the stream of Claude Code mean.

use domain::run::ModelError;
use serde_json::Value;

use crate::contract::AgentReport;
use crate::stream_buffer;
use crate::stream_json::string_or_empty;

/// Returns the error of the model, if the terminal event reports one.
pub(super) fn model_error(event: &Value) -> Option<ModelError> {
    if event["terminal_reason"] == "prompt_too_long" {
        return Some(ModelError::TooLong);
    }
    if event["stop_reason"] == "refusal" {
        return Some(ModelError::Refusal);
    }
    if let Some(status) = event["api_error_status"].as_u64() {
        return Some(ModelError::from_http_status(status));
    }
    match event["api_error"].as_str() {
        Some("connection_failed") => Some(ModelError::Unreachable),
        Some(_) => Some(ModelError::Other),
        None if event["terminal_reason"] == "api_error" => Some(ModelError::Other),
        None => model_error_from_text(event["result"].as_str().unwrap_or_default()),
    }
}

/// Older versions report the status only in the text of the result.
fn model_error_from_text(text: &str) -> Option<ModelError> {
    let status =
        text.split("API Error: ").nth(1)?.split(|character: char| !character.is_ascii_digit()).next()?;
    Some(status.parse().map_or(ModelError::Other, ModelError::from_http_status))
}

/// Reports why Claude Code repeats a request. Without a status, there was no HTTP response at all.
pub(super) fn retry_report(event: &Value) -> AgentReport {
    let error_name = string_or_empty(&event["error"]);
    let (error, reason) = match event["error_status"].as_u64() {
        Some(status) => (ModelError::from_http_status(status), format!("{status} {error_name}")),
        None => (ModelError::Unreachable, format!("no answer from its service ({error_name})")),
    };
    AgentReport::Retrying {
        error,
        message: stream_buffer::bounded_message(&format!("claude asks its model again: {reason}")),
    }
}
