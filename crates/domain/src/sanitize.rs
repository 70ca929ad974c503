//! Removes everything that a reader cannot see from texts for a model: escape sequences, control characters,
//! bidirectional overrides and invisible tags. The rest reads the same to a person and to a model.

use std::borrow::Cow;

use serde_json::Value;

const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';
/// The longest escape sequence that is removed as a whole.
const SEQUENCE_CHARS_MAX: usize = 4_096;

/// Returns the text without invisible characters. Line breaks and tabs stay.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|character| character == '\r' || is_invisible(character)) {
        return Cow::Borrowed(text);
    }
    let mut visible = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            ESCAPE => rest = after_sequence(rest),
            // A program that overwrites its line: the later text goes to a line of its own.
            '\r' if rest.as_str().starts_with('\n') => {}
            '\r' => visible.push('\n'),
            character if is_invisible(character) => {}
            character => visible.push(character),
        }
    }
    Cow::Owned(visible)
}

/// Removes invisible characters from a text in place.
pub fn sanitize_in_place(text: &mut String) {
    if let Cow::Owned(visible) = sanitize(text) {
        *text = visible;
    }
}

/// Sanitizes every text of a value, and the names of its members.
pub fn sanitize_value(value: &mut Value) {
    match value {
        Value::String(text) => sanitize_in_place(text),
        Value::Array(items) => items.iter_mut().for_each(sanitize_value),
        Value::Object(object) => {
            if object.keys().any(|name| matches!(sanitize(name), Cow::Owned(_))) {
                let entries = std::mem::take(object).into_iter();
                object.extend(entries.map(|(name, value)| (sanitize(&name).into_owned(), value)));
            }
            object.values_mut().for_each(sanitize_value);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns whether a character is invisible.
pub fn is_invisible(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        // Overrides, embeddings and isolates of the direction.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        // Annotations, and tags and variants that spell a second text.
        '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e01ef}' => true,
        // Spaces and joiners without width; those that scripts and emoji are written with stay.
        '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{180e}' => true,
        character => character.is_control(),
    }
}

/// Returns the characters after an escape sequence; all of them if the sequence has no end.
fn after_sequence(rest: std::str::Chars<'_>) -> std::str::Chars<'_> {
    let start = rest.clone();
    let mut rest = rest;
    match rest.next() {
        // Parameters, and then a letter or the like.
        Some('[') => match rest.by_ref().take(SEQUENCE_CHARS_MAX).find(|end| !matches!(end, ' '..='?')) {
            Some('@'..='~') => rest,
            Some(_) | None => start,
        },
        // A text for the terminal, up to a bell or another escape.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            match rest.by_ref().take(SEQUENCE_CHARS_MAX).find(|end| matches!(*end, BELL | ESCAPE)) {
                Some(BELL) => rest,
                Some(_) => {
                    if rest.as_str().starts_with('\\') {
                        rest.next();
                    }
                    rest
                }
                None => start,
            }
        }
        Some('(' | ')' | '#' | ' ') => {
            rest.next();
            rest
        }
        Some('0'..='~') => rest,
        Some(_) | None => start,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn visible_characters_stay_and_invisible_ones_are_removed() {
        for (text, visible) in [
            ("plain\ttext\nände 👩‍👧", "plain\ttext\nände 👩‍👧"),
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{1b}\\ end", "link end"),
            ("\u{1b}(Bok\u{1b}7\u{1b}=", "ok"),
            ("50%\r100%\r\n", "50%\n100%\n"),
            ("a\u{202e}b\u{2066}c\u{2069}", "abc"),
            ("hi\u{e0069}\u{e0067}\u{e006e}", "hi"),
            ("a\u{e0101}\u{e0148}b\u{200b}c\u{feff}", "abc"),
            ("❤\u{fe0f} می\u{200c}خواهم", "❤\u{fe0f} می\u{200c}خواهم"),
            ("nul\0 del\u{7f} c1\u{9b}31m", "nul del c131m"),
            ("never ends \u{1b}[1;1;1", "never ends [1;1;1"),
            ("never ends \u{1b}]0;title", "never ends ]0;title"),
        ] {
            assert_eq!(sanitize(text), visible, "{text:?}");
        }
    }

    #[test]
    fn every_text_of_a_value_is_cleaned_and_so_are_names() {
        let mut value = serde_json::json!({"a\u{1b}[1m": ["\u{202e}x", {"b": "\u{7}"}], "c": 1});
        sanitize_value(&mut value);
        assert_eq!(value, serde_json::json!({"a": ["x", {"b": ""}], "c": 1}));
    }

    proptest! {
        #[test]
        fn nothing_invisible_is_left_and_a_second_pass_changes_nothing(text in "[\\x00-\\x7f\u{202e}\u{e0041}é]{0,60}") {
            let once = sanitize(&text).into_owned();
            prop_assert!(!once.chars().any(is_invisible), "{once:?}");
            prop_assert_eq!(sanitize(&once), once.as_str());
        }

        #[test]
        fn visible_text_is_unchanged(text in "[ -~\\n\\té]{0,60}") {
            prop_assert_eq!(sanitize(&text), text.as_str());
        }
    }
}
