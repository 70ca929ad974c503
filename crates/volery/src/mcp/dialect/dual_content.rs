//! Renders an answer as JSON text and as structured content, because older clients show their model only the text.

use domain::invisible_text::strip_invisible_in_value;
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::Value;

/// Renders a value as text and as structured content.
///
/// Sanitized here, because JSON escapes would hide invisible characters in the text.
pub(super) fn dual_content(value: &impl Serialize, text: fn(&Value) -> String) -> CallToolResult {
    let mut value = serde_json::to_value(value).unwrap_or_default();
    strip_invisible_in_value(&mut value);
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
