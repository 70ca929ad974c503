//! Removes invisible characters from the text of agents and files before it reaches a model.

use domain::sanitize::{sanitize_in_place, sanitize_value};
use rmcp::model::{CallToolResult, ContentBlock};

/// Sanitizes all text of an answer.
pub(super) fn result(result: &mut CallToolResult) {
    for block in &mut result.content {
        if let ContentBlock::Text(content) = block {
            sanitize_in_place(&mut content.text);
        }
    }
    result.structured_content.iter_mut().for_each(sanitize_value);
}
