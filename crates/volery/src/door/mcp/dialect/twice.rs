//! An answer said twice, as JSON in a text and as structured content: older clients show their model only the text.

use domain::harmless::clean_value;
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::Value;

/// Renders a value as text and as structured content.
///
/// It is cleaned here: in the text, what is to be taken out would hide behind JSON's own escapes.
pub(super) fn twice(value: &impl Serialize, text: fn(&Value) -> String) -> CallToolResult {
    let mut value = serde_json::to_value(value).unwrap_or_default();
    clean_value(&mut value);
    let mut result = CallToolResult::success(vec![ContentBlock::text(text(&value))]);
    result.structured_content = Some(value);
    result
}

/// On one line.
pub(super) fn compact(value: &Value) -> String {
    value.to_string()
}

/// With line breaks and indentation.
pub(super) fn pretty(value: &Value) -> String {
    format!("{value:#}")
}
