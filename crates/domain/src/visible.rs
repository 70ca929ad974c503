//! Text that others wrote, for a person who judges it: every character that could not be seen is written as an escape.
//! Nothing is taken out, unlike in `harmless`: a person who gives trust must see that something was hidden.

use std::borrow::Cow;

/// Returns the text on one line, with an escape such as `\n` or `\u{202e}` in place of each character that moves, hides or
/// reorders what is read.
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_visible) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            character if is_visible(character) => shown.push(character),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            character => shown.extend(character.escape_unicode()),
        }
    }
    Cow::Owned(shown)
}

fn is_visible(character: char) -> bool {
    match character {
        ' '..='~' => true,
        // Letters and signs that have no shape of their own: fillers, joiners, an empty Braille cell, variation selectors.
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' => false,
        '\u{2800}' | '\u{3164}' | '\u{ffa0}' | '\u{1d159}' => false,
        '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}' => false,
        // The standard library knows which of the others are controls, formats, blanks or not assigned. A letter stands
        // before them because a mark at the beginning of a text is escaped too.
        character => String::from_iter(['a', character]).escape_debug().count() == 2,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn characters_that_nobody_sees_become_escapes_and_all_others_stay() {
        let plain = "\"naïve\" 'quote' \\d {a: 1} `x` für 日本語 🎉 e\u{301}";
        assert_eq!(visible(plain), plain);
        let hidden =
            "a\nb\tc\u{1b}[31m\u{202e}d\u{200b}\u{feff}\u{ad}\u{fe0f}\u{e0041}\u{3164}\u{a0}\u{2028}\u{85}";
        let expected = "a\\nb\\tc\\u{1b}[31m\\u{202e}d\\u{200b}\\u{feff}\\u{ad}\\u{fe0f}\\u{e0041}\\u{3164}\\u{a0}\
            \\u{2028}\\u{85}";
        assert_eq!(visible(hidden), expected);
    }

    proptest! {
        #[test]
        fn nothing_invisible_is_left(text in any::<String>()) {
            let shown = visible(&text).into_owned();
            prop_assert!(shown.chars().all(is_visible));
            prop_assert!(!shown.chars().any(char::is_control));
            prop_assert_eq!(visible(&shown).into_owned(), shown);
        }
    }
}
