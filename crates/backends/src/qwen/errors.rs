//! What the errors of Qwen Code mean.

use domain::run::ModelError;

use super::versions::API_ERROR;

/// Returns the error of the model, if the message reports one.
pub(super) fn model_error(message: &str) -> Option<ModelError> {
    let error = message.strip_prefix(API_ERROR)?;
    let lower = error.to_ascii_lowercase();
    if lower.contains("context length") || lower.contains("maximum context") {
        return Some(ModelError::TooLong);
    }
    let status = error.split(|character: char| !character.is_ascii_digit()).next().unwrap_or_default();
    match status.parse() {
        Ok(status) => Some(ModelError::from_http_status(status)),
        Err(_) if lower.starts_with("connection error") || lower.contains("fetch failed") => {
            Some(ModelError::Unreachable)
        }
        Err(_) => Some(ModelError::Other),
    }
}
