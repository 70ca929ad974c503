//! The placeholders in braces that are replaced in a command.

use domain::nearest::nearest;

use crate::text::{Diagnostics, SourceLocation};

/// The placeholders. Other text in braces is passed on unchanged.
pub const PLACEHOLDERS: [&str; 6] =
    ["prompt", "prompt_file", "system_file", "directory", "model", "session_id"];

/// Returns the words in braces of a text: lower-case letters and `_` only, so that JSON and most scripts do not
/// match.
pub(super) fn braced_words(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('{').filter_map(|(at, _)| {
        let rest = &text[at + 1..];
        let word = &rest[..rest.find('}')?];
        let plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        plain.then_some(word)
    })
}

/// Reports words in braces that look like a misspelled placeholder.
pub(super) fn check(element: &str, location: SourceLocation, name: &str, diagnostics: &mut Diagnostics<'_>) {
    for word in braced_words(element).filter(|word| !PLACEHOLDERS.contains(word)) {
        let shown = domain::size::head(word, 40);
        match nearest(word, PLACEHOLDERS) {
            Some(known) => {
                let message = format!("{name}: unknown placeholder {{{shown}}}");
                diagnostics.error_with_hint(location, message, format!("did you mean {{{known}}}?"));
            }
            None => {
                let known = PLACEHOLDERS.map(|known| format!("{{{known}}}")).join(" ");
                let message = format!("{name}: {{{shown}}} is no placeholder and is passed on as it is");
                diagnostics.warning_with_hint(location, message, format!("placeholders: {known}"));
            }
        }
    }
}
