//! Sanitizes untrusted text for a terminal and for files that people open in one.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Removes everything from a text that could control a terminal or reorder the text on screen.
///
/// Keeps line breaks and tabs, drops colour sequences, and replaces other control characters by visible symbols.
pub fn sanitize_for_terminal(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let after = &rest[character.len_utf8()..];
        rest = match character {
            '\x1b' => match after_colour(after) {
                Some(after_sequence) => after_sequence,
                None => {
                    safe.push('␛');
                    after
                }
            },
            '\r' if after.starts_with('\n') => after,
            '\x00'..='\x1f' if is_unsafe(character) => {
                // Unicode lists the control pictures in the order of the characters that they show.
                safe.push(char::from_u32(0x2400 + u32::from(character)).unwrap_or('\u{fffd}'));
                after
            }
            '\x7f' => {
                safe.push('␡');
                after
            }
            other if is_unsafe(other) => {
                let _written = write!(safe, "\\u{{{:x}}}", u32::from(other));
                after
            }
            other => {
                safe.push(other);
                after
            }
        };
    }
    Cow::Owned(safe)
}

/// Returns the sanitized text on one line, with every run of white space collapsed to one space.
pub fn one_line(text: &str) -> String {
    sanitize_for_terminal(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the text after a colour sequence whose escape character was just read.
fn after_colour(after_escape: &str) -> Option<&str> {
    let parameters = after_escape.strip_prefix('[')?;
    let end = parameters.find(|c: char| !(c.is_ascii_digit() || c == ';' || c == ':'))?;
    parameters[end..].strip_prefix('m')
}

fn is_unsafe(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\x00'..='\x1f' | '\x7f'..='\u{9f}' => true,
        // Marks, embeddings, overrides and isolates that change the order in which text is read.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        // Line and paragraph separators, and the invisible tag characters.
        '\u{2028}' | '\u{2029}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => false,
    }
}
