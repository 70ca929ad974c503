//! Makes everything visible in a text of somebody else by which a person decides.

use domain::sanitize::is_invisible;

/// Returns the text on one line, with every line break, control character and invisible character escaped.
pub(super) fn escape_invisible(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => escaped.push_str("\\n"),
            '\t' => escaped.push_str("\\t"),
            '\r' => escaped.push_str("\\r"),
            '\u{2028}' | '\u{2029}' | '\u{ad}' => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(character)))
            }
            character if is_invisible(character) => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            character => escaped.push(character),
        }
    }
    escaped
}

/// Returns a text of at most this many bytes, with a mark in place of the middle if it is longer.
pub(super) fn elide_middle(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let (head, tail) = (domain::size::head(text, max / 2), domain::size::tail(text, max / 2));
    format!("{head} [{} bytes left out] {tail}", text.len() - head.len() - tail.len())
}
