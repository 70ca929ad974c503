//! Parameters that a tool does not have: what a caller asks for with them is not done, and that is said.

use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, JsonObject};

/// How many are named.
const NAMED_MAX: usize = 10;
const NAME_BYTES_MAX: usize = 100;

/// Returns a sentence for each argument that is none of these.
pub(super) fn ignored(tool: &str, arguments: &JsonObject, known: &[&str]) -> Vec<String> {
    let unknown = arguments.keys().filter(|key| !known.contains(&key.as_str()));
    unknown
        .take(NAMED_MAX)
        .map(|key| {
            let key = domain::size::head(key, NAME_BYTES_MAX);
            format!("{key} is not a parameter of {tool} and was ignored")
        })
        .collect()
}

/// Adds a sentence for the caller beside an answer whose form is fixed.
pub(super) fn with_note(mut result: CallToolResult, note: &str) -> CallToolResult {
    result.content.push(ContentBlock::text(note));
    result
}

/// The same for several, if there is an answer already.
pub(super) fn with_notes(response: CallToolResponse, notes: &[String]) -> CallToolResponse {
    match response {
        CallToolResponse::Complete(result) => {
            notes.iter().fold(result, |result, note| with_note(result, note)).into()
        }
        other => other,
    }
}
