//! Text that others wrote, for a model: without what a reader cannot see. Escape sequences, control characters, overrides
//! of the direction of writing and invisible tags are taken out; what is left says the same to a person and to a model.

use std::borrow::Cow;

use serde_json::Value;

const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';
/// The longest escape sequence that is taken out as one.
const SEQUENCE_CHARS_MAX: usize = 4_096;

/// Returns the text without anything that is not seen. Line breaks and tabs stay.
pub fn harmless(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|character| character == '\r' || is_unseen(character)) {
        return Cow::Borrowed(text);
    }
    let mut seen = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            ESCAPE => rest = after_sequence(rest),
            // A program that writes over its line: what it wrote later is on a line of its own.
            '\r' if rest.as_str().starts_with('\n') => {}
            '\r' => seen.push('\n'),
            character if is_unseen(character) => {}
            character => seen.push(character),
        }
    }
    Cow::Owned(seen)
}

/// Takes out of a text what is not seen.
pub fn clean(text: &mut String) {
    if let Cow::Owned(seen) = harmless(text) {
        *text = seen;
    }
}

/// The same for every text of a value, and the names in it.
pub fn clean_value(value: &mut Value) {
    match value {
        Value::String(text) => clean(text),
        Value::Array(items) => items.iter_mut().for_each(clean_value),
        Value::Object(object) => {
            if object.keys().any(|name| matches!(harmless(name), Cow::Owned(_))) {
                let entries = std::mem::take(object).into_iter();
                object.extend(entries.map(|(name, value)| (harmless(&name).into_owned(), value)));
            }
            object.values_mut().for_each(clean_value);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Tells whether a reader does not see a character.
pub fn is_unseen(character: char) -> bool {
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

/// Returns what follows an escape sequence; everything, if it has no end.
fn after_sequence(rest: std::str::Chars<'_>) -> std::str::Chars<'_> {
    let begun = rest.clone();
    let mut rest = rest;
    match rest.next() {
        // Parameters, and then a letter or the like.
        Some('[') => match rest.by_ref().take(SEQUENCE_CHARS_MAX).find(|end| !matches!(end, ' '..='?')) {
            Some('@'..='~') => rest,
            Some(_) | None => begun,
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
                None => begun,
            }
        }
        Some('(' | ')' | '#' | ' ') => {
            rest.next();
            rest
        }
        Some('0'..='~') => rest,
        Some(_) | None => begun,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_seen_stays_and_what_is_not_goes() {
        for (text, seen) in [
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
            assert_eq!(harmless(text), seen, "{text:?}");
        }
    }

    #[test]
    fn every_text_of_a_value_is_cleaned_and_so_are_names() {
        let mut value = serde_json::json!({"a\u{1b}[1m": ["\u{202e}x", {"b": "\u{7}"}], "c": 1});
        clean_value(&mut value);
        assert_eq!(value, serde_json::json!({"a": ["x", {"b": ""}], "c": 1}));
    }

    proptest! {
        #[test]
        fn nothing_unseen_is_left_and_a_second_time_changes_nothing(text in "[\\x00-\\x7f\u{202e}\u{e0041}é]{0,60}") {
            let once = harmless(&text).into_owned();
            prop_assert!(!once.chars().any(is_unseen), "{once:?}");
            prop_assert_eq!(harmless(&once), once.as_str());
        }

        #[test]
        fn what_has_nothing_unseen_is_not_touched(text in "[ -~\\n\\té]{0,60}") {
            prop_assert_eq!(harmless(&text), text.as_str());
        }
    }
}
