//! The words in braces that are replaced in a command.

use domain::nearest::nearest;

use crate::text::{Findings, Place};

/// What is replaced in an element of a command. Other text in braces is passed on as it is.
pub const PLACEHOLDERS: [&str; 6] =
    ["prompt", "prompt_file", "system_file", "directory", "model", "session_id"];

/// Returns the words in braces of a text: lower-case letters and `_` only, so that JSON and most scripts pass.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('{').filter_map(|(at, _)| {
        let rest = &text[at + 1..];
        let word = &rest[..rest.find('}')?];
        let plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        plain.then_some(word)
    })
}

/// Reports words in braces that look like a slip.
pub(super) fn check(element: &str, place: Place, name: &str, findings: &mut Findings<'_>) {
    for word in words(element).filter(|word| !PLACEHOLDERS.contains(word)) {
        let shown = domain::size::head(word, 40);
        match nearest(word, PLACEHOLDERS) {
            Some(known) => {
                let message = format!("{name}: unknown placeholder {{{shown}}}");
                findings.error_with_hint(place, message, format!("did you mean {{{known}}}?"));
            }
            None => {
                let known = PLACEHOLDERS.map(|known| format!("{{{known}}}")).join(" ");
                let message = format!("{name}: {{{shown}}} is no placeholder and is passed on as it is");
                findings.warning_with_hint(place, message, format!("placeholders: {known}"));
            }
        }
    }
}
