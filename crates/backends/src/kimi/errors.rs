//! What the errors of Kimi Code mean.

use domain::run::{Failure, ModelError};
use serde_json::Value;

use super::versions::ERRORS;
use crate::stream_buffer;

/// Returns the error of the model, if the message begins with the name of one.
pub(super) fn model_error(message: &str) -> Option<ModelError> {
    let (_, named_error) = ERRORS.iter().find(|(name, _)| message.starts_with(name))?;
    let numbers = message.split(|character: char| !character.is_ascii_digit());
    let status = numbers.filter_map(|number| number.parse().ok()).find(|status| (400..600).contains(status));
    Some(status.map_or(*named_error, ModelError::from_http_status))
}

/// Returns the failure of a turn from its record.
pub(super) fn turn_failure(error: &Value) -> Failure {
    let status = error["details"]["statusCode"].as_u64().map(ModelError::from_http_status);
    let unreachable = || (error["code"] == "provider.connection_error").then_some(ModelError::Unreachable);
    let message = error["message"].as_str().unwrap_or("it does not say why");
    Failure::Model {
        error: status.or_else(unreachable).unwrap_or(ModelError::Other),
        message: stream_buffer::bounded_message(message),
    }
}
