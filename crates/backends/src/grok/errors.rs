//! What the error messages of Grok mean.

use domain::run::Failure;

use crate::model_error;
use crate::stream_buffer;

/// Returns the failure for an error message.
pub(super) fn failure_from_text(message: &str) -> Failure {
    let text = message.to_lowercase();
    let short_message = stream_buffer::bounded_message(message);
    match model_error::classify(message) {
        _ if text.contains("session") && text.contains("not found") => {
            Failure::Session { reason: short_message }
        }
        Some(error) => Failure::Model { error, message: short_message },
        None => Failure::Agent { message: short_message },
    }
}
