//! Escapes invisible characters in texts for a person who judges them. Unlike `sanitize` this removes nothing: a
//! person who decides about trust must see that something was hidden.

use std::borrow::Cow;

/// Returns the text on one line, with an escape such as `\n` or `\u{202e}` for each character that moves, hides or
/// reorders text.
pub fn escape_invisible(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_visible) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            character if is_visible(character) => escaped.push(character),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            character => escaped.extend(character.escape_unicode()),
        }
    }
    Cow::Owned(escaped)
}

fn is_visible(character: char) -> bool {
    match character {
        ' '..='~' => true,
        // Characters without a glyph: fillers, joiners, an empty Braille cell, variation selectors.
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' => false,
        '\u{2800}' | '\u{3164}' | '\u{ffa0}' | '\u{1d159}' => false,
        '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}' => false,
        // The standard library knows which of the others are controls, formats, blanks or not assigned. The letter
        // before them is needed because `escape_debug` also escapes a combining mark at the beginning of a text.
        character => String::from_iter(['a', character]).escape_debug().count() == 2,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn invisible_characters_become_escapes_and_all_others_stay() {
        let plain = "\"naïve\" 'quote' \\d {a: 1} `x` für 日本語 🎉 e\u{301}";
        assert_eq!(escape_invisible(plain), plain);
        let hidden =
            "a\nb\tc\u{1b}[31m\u{202e}d\u{200b}\u{feff}\u{ad}\u{fe0f}\u{e0041}\u{3164}\u{a0}\u{2028}\u{85}";
        let expected = "a\\nb\\tc\\u{1b}[31m\\u{202e}d\\u{200b}\\u{feff}\\u{ad}\\u{fe0f}\\u{e0041}\\u{3164}\\u{a0}\
            \\u{2028}\\u{85}";
        assert_eq!(escape_invisible(hidden), expected);
    }

    proptest! {
        #[test]
        fn nothing_invisible_is_left(text in any::<String>()) {
            let escaped = escape_invisible(&text).into_owned();
            prop_assert!(escaped.chars().all(is_visible));
            prop_assert!(!escaped.chars().any(char::is_control));
            prop_assert_eq!(escape_invisible(&escaped).into_owned(), escaped);
        }
    }
}
