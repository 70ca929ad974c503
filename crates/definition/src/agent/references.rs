//! The vendors' ways to name a variable within a text, in the one that is ours.

use std::borrow::Cow;

/// The longest text between the signs of a reference.
const REFERENCE_BYTES_MAX: usize = 200;

/// Turns `{env:NAME}`, `${env:NAME}`, `${{ secrets.NAME }}` and Copilot's `$COPILOT_MCP_NAME` into `${NAME}`, wherever they
/// stand. Another `$NAME` is one as a whole text only: within a longer one it may be anything.
pub(super) fn with_references(value: &str) -> String {
    if let Some(name) = value.strip_prefix('$').filter(|name| is_variable(name)) {
        return format!("${{{name}}}");
    }
    let mut text = String::new();
    let mut rest = value;
    while let Some(at) = rest.find(['$', '{']) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let (piece, length) = reference(rest);
        text.push_str(&piece);
        rest = &rest[length..];
    }
    text.push_str(rest);
    text
}

/// Reads what may be a reference at the beginning of a text; returns it in our words, with its length.
fn reference(text: &str) -> (Cow<'_, str>, usize) {
    // Not farther than a name can reach, however often one begins and does not end.
    let within = text.strip_prefix("${{").map(|rest| domain::size::head(rest, REFERENCE_BYTES_MAX));
    if let Some((inside, _)) = within.and_then(|rest| rest.split_once("}}")) {
        let name = inside.trim();
        let name = name.rsplit_once('.').map_or(name, |(_, last)| last);
        if is_variable(name) {
            return (format!("${{{name}}}").into(), inside.len() + 5);
        }
    }
    for start in ["${env:", "{env:"] {
        if text.starts_with(start) {
            return ("${".into(), start.len());
        }
    }
    if text.starts_with("$COPILOT_MCP_") {
        let end = text[1..].find(|letter: char| !is_of_variable(letter)).map_or(text.len(), |end| end + 1);
        return (format!("${{{}}}", &text[1..end]).into(), end);
    }
    (text[..1].into(), 1)
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.as_bytes()[0].is_ascii_digit() && name.chars().all(is_of_variable)
}

fn is_of_variable(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}
