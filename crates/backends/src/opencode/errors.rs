//! What the errors of opencode mean.

use domain::run::{Failure, ModelError};
use serde_json::Value;

use super::reader::str_or_empty;
use crate::stream_buffer;

pub(super) fn failure(error: &Value) -> Failure {
    let data = &error["data"];
    let name = str_or_empty(&error["name"]);
    let messages = [str_or_empty(&data["message"]), str_or_empty(&error["message"]), name];
    let message = stream_buffer::bounded_message(
        messages.into_iter().find(|text| !text.is_empty()).unwrap_or_default(),
    );
    let status = data["statusCode"].as_u64().map(ModelError::from_http_status);
    let error = match (name, status) {
        ("ProviderAuthError", _) => ModelError::Denied,
        ("ContextOverflowError", _) => ModelError::TooLong,
        (_, Some(error)) => error,
        ("APIError" | "MessageOutputLengthError", None) => ModelError::Other,
        ("ProviderModelNotFoundError", None) => ModelError::Unknown,
        _ => return Failure::Agent { message },
    };
    Failure::Model { error, message }
}
