//! Converts the vendors' syntaxes for environment variables within a text to Volery's.

use std::borrow::Cow;

/// The longest text inside a reference.
const REFERENCE_BYTES_MAX: usize = 200;

/// Converts `{env:NAME}`, `${env:NAME}`, `${{ secrets.NAME }}` and Copilot's `$COPILOT_MCP_NAME` to `${NAME}`,
/// anywhere in a text. Any other `$NAME` is converted only as a whole text, because within a longer one it may be
/// anything.
pub(super) fn normalize_references(value: &str) -> String {
    if let Some(name) = value.strip_prefix('$').filter(|name| is_variable(name)) {
        return format!("${{{name}}}");
    }
    let mut text = String::new();
    let mut rest = value;
    while let Some(at) = rest.find(['$', '{']) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let (piece, length) = parse_reference(rest);
        text.push_str(&piece);
        rest = &rest[length..];
    }
    text.push_str(rest);
    text
}

/// Parses a possible reference at the beginning of a text; returns it in Volery's syntax, with its length.
fn parse_reference(text: &str) -> (Cow<'_, str>, usize) {
    // Bounded, so that many unclosed references do not take quadratic time.
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
        let end = text[1..].find(|letter: char| !is_variable_char(letter)).map_or(text.len(), |end| end + 1);
        return (format!("${{{}}}", &text[1..end]).into(), end);
    }
    (text[..1].into(), 1)
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.as_bytes()[0].is_ascii_digit() && name.chars().all(is_variable_char)
}

fn is_variable_char(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}
