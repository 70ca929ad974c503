//! What agents and files say is data: before it reaches a model, what the model's user could not see is taken out.

use domain::harmless::{clean, clean_value};
use rmcp::model::{CallToolResult, ContentBlock};

/// Cleans an answer as a whole.
pub(super) fn result(result: &mut CallToolResult) {
    for block in &mut result.content {
        if let ContentBlock::Text(content) = block {
            clean(&mut content.text);
        }
    }
    result.structured_content.iter_mut().for_each(clean_value);
}
