//! Removes invisible characters from the text of agents and files before it reaches a model.

use domain::invisible_text::{strip_invisible_in_place, strip_invisible_in_value};
use rmcp::model::{CallToolResult, ContentBlock};

/// Sanitizes all text of an answer.
pub(super) fn result(result: &mut CallToolResult) {
    for block in &mut result.content {
        if let ContentBlock::Text(content) = block {
            strip_invisible_in_place(&mut content.text);
        }
    }
    result.structured_content.iter_mut().for_each(strip_invisible_in_value);
}
