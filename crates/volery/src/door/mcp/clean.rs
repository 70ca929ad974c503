//! What agents and files say is data: before it reaches a model, what the model's user could not see is taken out.

use std::borrow::Cow;

use domain::harmless::harmless;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::Value;

use crate::app::RunView;

/// Cleans every text of a value, and the names in it.
pub(super) fn value(value: &mut Value) {
    match value {
        Value::String(string) => text(string),
        Value::Array(items) => items.iter_mut().for_each(self::value),
        Value::Object(object) => {
            if object.keys().any(|key| matches!(harmless(key), Cow::Owned(_))) {
                let entries = std::mem::take(object).into_iter();
                object.extend(entries.map(|(key, value)| (harmless(&key).into_owned(), value)));
            }
            object.values_mut().for_each(self::value);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Cleans one text.
pub(super) fn text(string: &mut String) {
    if let Cow::Owned(clean) = harmless(string) {
        *string = clean;
    }
}

/// Cleans what a run says, before a dialect puts it into words.
pub(super) fn run(run: &mut RunView) {
    let texts = [&mut run.explanation, &mut run.stderr_tail];
    let optional = [&mut run.result, &mut run.partial].into_iter().flatten();
    texts.into_iter().chain(optional).chain(&mut run.warnings).for_each(text);
    run.structured.iter_mut().for_each(value);
}

/// Cleans an answer as a whole.
pub(super) fn result(result: &mut CallToolResult) {
    for block in &mut result.content {
        if let ContentBlock::Text(content) = block {
            text(&mut content.text);
        }
    }
    result.structured_content.iter_mut().for_each(value);
}
