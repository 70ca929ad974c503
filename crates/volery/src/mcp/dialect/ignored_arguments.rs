//! Notes about arguments that a tool does not have and ignores.

use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, JsonObject};

/// The most arguments that are named.
const NAMES_MAX: usize = 10;
const NAME_BYTES_MAX: usize = 100;

/// Returns a sentence for each unknown argument.
pub(super) fn ignored_arguments(tool: &str, arguments: &JsonObject, known: &[&str]) -> Vec<String> {
    let unknown = arguments.keys().filter(|key| !known.contains(&key.as_str()));
    unknown
        .take(NAMES_MAX)
        .map(|key| {
            let key = domain::size::head(key, NAME_BYTES_MAX);
            format!("{key} is not a parameter of {tool} and was ignored")
        })
        .collect()
}

/// Appends a note to an answer whose structured content is fixed.
pub(super) fn with_note(mut result: CallToolResult, note: &str) -> CallToolResult {
    result.content.push(ContentBlock::text(note));
    result
}

/// Appends several notes, if the call is complete.
pub(super) fn with_notes(response: CallToolResponse, notes: &[String]) -> CallToolResponse {
    match response {
        CallToolResponse::Complete(result) => {
            notes.iter().fold(result, |result, note| with_note(result, note)).into()
        }
        other => other,
    }
}
