//! What the error messages of goose mean.

use domain::run::{Failure, ModelError};

use super::versions::ERRORS;
use crate::stream_buffer;

/// Returns the failure for an error message.
pub(super) fn failure_from_text(text: &str) -> Failure {
    let error = ERRORS.iter().find(|(marker, _)| text.contains(marker)).map(|(_, error)| *error);
    let error = error.unwrap_or(ModelError::Other);
    Failure::Model { error, message: stream_buffer::bounded_message(text) }
}
