//! Text that others wrote, for a person who decides by it: with everything in it to be seen.

use domain::harmless::is_unseen;

/// Returns the text in one line, in which every line break, control character and invisible character is written as an
/// escape.
pub(super) fn visible(text: &str) -> String {
    let mut seen = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => seen.push_str("\\n"),
            '\t' => seen.push_str("\\t"),
            '\r' => seen.push_str("\\r"),
            '\u{2028}' | '\u{2029}' | '\u{ad}' => seen.push_str(&format!("\\u{:04x}", u32::from(character))),
            character if is_unseen(character) => {
                seen.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            character => seen.push(character),
        }
    }
    seen
}

/// Returns a text of at most so many bytes, and a mark in the place of those that do not fit in the middle.
pub(super) fn cut(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let (head, tail) = (domain::size::head(text, max / 2), domain::size::tail(text, max / 2));
    format!("{head} [{} bytes left out] {tail}", text.len() - head.len() - tail.len())
}
