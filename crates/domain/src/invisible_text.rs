//! Characters that a reader cannot see, and the three ways to treat them: `strip_invisible` removes them from a text for
//! a model, `sanitize_for_terminal` makes a text of an agent harmless on a terminal, and `escape_invisible` shows all of
//! them to a person who approves or trusts a text. All three use the one table `invisible`.

use std::borrow::Cow;

use serde_json::Value;

const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';
/// The longest escape sequence that is removed as a whole.
const SEQUENCE_CHARS_MAX: usize = 4_096;

/// Why a reader does not see a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Invisible {
    /// It controls the terminal, breaks the line, or changes the order in which text is read.
    Control,
    /// It has no glyph, and texts of today do not need it.
    Hidden,
    /// It has no glyph, but emoji and scripts are written with it.
    Joiner,
    /// It looks like a space.
    Blank,
}

/// Returns why a character is invisible; `None` if it is visible, a line break, a tab or a space.
fn invisible(character: char) -> Option<Invisible> {
    match character {
        '\n' | '\t' | ' '..='~' => None,
        // Line and paragraph separators; marks, embeddings, overrides and isolates of the direction.
        '\u{2028}' | '\u{2029}' => Some(Invisible::Control),
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some(Invisible::Control)
        }
        // Combining and zero-width joiners, variation selectors of Mongolian, of emoji, and of ideographs.
        '\u{34f}' | '\u{180b}'..='\u{180f}' | '\u{200c}' | '\u{200d}' => Some(Invisible::Joiner),
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => Some(Invisible::Joiner),
        // Fillers of Hangul, and vowels of Khmer that are not written.
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{17b4}' | '\u{17b5}' => {
            Some(Invisible::Hidden)
        }
        // Soft hyphen, zero-width spaces, invisible operators, obsolete formats, annotations.
        '\u{ad}' | '\u{200b}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' => {
            Some(Invisible::Hidden)
        }
        // Formats of shorthand and of music; tags, which spell a second text, and the flags of England, Scotland, Wales.
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d159}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => {
            Some(Invisible::Hidden)
        }
        '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => {
            Some(Invisible::Blank)
        }
        // An empty Braille cell.
        '\u{2800}' => Some(Invisible::Blank),
        character => character.is_control().then_some(Invisible::Control),
    }
}

/// Returns the text on one line, with an escape such as `\n` or `\u{202e}` for each character that a reader does not
/// see or could take for another one.
///
/// For a person who approves or trusts the text: nothing is removed, and emoji and scripts get no exception.
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
        character if invisible(character).is_some() => false,
        // The standard library knows which of the others are formats or not assigned. The letter before them is needed
        // because `escape_debug` also escapes a combining mark at the beginning of a text.
        character => String::from_iter(['a', character]).escape_debug().count() == 2,
    }
}

/// Returns the text without escape sequences and invisible characters, so that it reads the same to a person and to a
/// model. Line breaks, tabs and blanks stay, and joiners within emoji and scripts.
pub fn strip_invisible(text: &str) -> Cow<'_, str> {
    if text.chars().all(|character| invisible(character).is_none()) {
        return Cow::Borrowed(text);
    }
    let mut visible = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            ESCAPE => rest = after_sequence(rest),
            // A program that overwrites its line: the later text goes to a line of its own.
            '\r' if rest.as_str().starts_with('\n') => {}
            '\r' | '\u{2028}' | '\u{2029}' => visible.push('\n'),
            character if is_readable_after(&visible, character) => visible.push(character),
            _ => {}
        }
    }
    match visible == text {
        true => Cow::Borrowed(text),
        false => Cow::Owned(visible),
    }
}

/// Removes invisible characters from a text in place.
pub fn strip_invisible_in_place(text: &mut String) {
    if let Cow::Owned(visible) = strip_invisible(text) {
        *text = visible;
    }
}

/// Removes invisible characters from every text of a value, and from the names of its members.
pub fn strip_invisible_in_value(value: &mut Value) {
    match value {
        Value::String(text) => strip_invisible_in_place(text),
        Value::Array(items) => items.iter_mut().for_each(strip_invisible_in_value),
        Value::Object(object) => {
            if object.keys().any(|name| matches!(strip_invisible(name), Cow::Owned(_))) {
                let entries = std::mem::take(object).into_iter();
                object.extend(entries.map(|(name, value)| (strip_invisible(&name).into_owned(), value)));
            }
            object.values_mut().for_each(strip_invisible_in_value);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the text without anything that could control a terminal, reorder the text on the screen or hide in it.
///
/// Keeps line breaks, tabs and blanks, and joiners within emoji and scripts. Drops colour sequences. Shows other control
/// characters as symbols and other invisible characters as escapes.
pub fn sanitize_for_terminal(text: &str) -> Cow<'_, str> {
    if text.chars().all(|character| invisible(character).is_none()) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let after = &rest[character.len_utf8()..];
        rest = after;
        match character {
            ESCAPE if let Some(after_sequence) = after_colour(after) => rest = after_sequence,
            '\r' if after.starts_with('\n') => {}
            character if is_readable_after(&safe, character) => safe.push(character),
            // Unicode lists the control pictures in the order of the characters that they show.
            '\0'..='\x1f' => safe.push(char::from_u32(0x2400 + u32::from(character)).unwrap_or('\u{fffd}')),
            '\x7f' => safe.push('␡'),
            character => safe.extend(character.escape_unicode()),
        }
    }
    Cow::Owned(safe)
}

/// Returns the text for a terminal on one line, with every run of white space collapsed to one space.
pub fn one_line(text: &str) -> String {
    sanitize_for_terminal(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns whether a character after this text is visible, a blank, or a part of an emoji or a script.
fn is_readable_after(text: &str, character: char) -> bool {
    match invisible(character) {
        None | Some(Invisible::Blank) => true,
        Some(Invisible::Control | Invisible::Hidden) => false,
        Some(Invisible::Joiner) => text.chars().next_back().is_none_or(|last| joins(last, character)),
    }
}

/// Returns whether a joiner belongs to the character before it. Others could spell a second text, so that at most one
/// variation selector and one joiner stay after a visible character.
fn joins(last: char, joiner: char) -> bool {
    match (joiner, invisible(last)) {
        // As in ❤️‍🔥.
        ('\u{200d}', Some(Invisible::Joiner)) => ('\u{fe00}'..='\u{fe0f}').contains(&last),
        (_, Some(_)) => false,
        // As in 1️⃣.
        ('\u{fe0e}' | '\u{fe0f}', None) if last.is_ascii() => last.is_ascii_digit() || "#*".contains(last),
        ('\u{e0100}'..='\u{e01ef}', None) => is_ideograph(last),
        (_, None) => !last.is_ascii(),
    }
}

fn is_ideograph(character: char) -> bool {
    matches!(character, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Returns the text after a colour sequence whose escape character was just read.
fn after_colour(after_escape: &str) -> Option<&str> {
    let parameters = after_escape.strip_prefix('[')?;
    let end = parameters.find(|c: char| !(c.is_ascii_digit() || c == ';' || c == ':'))?;
    parameters[end..].strip_prefix('m')
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

    /// Emoji and words that consist partly of joiners.
    const JOINED: &str =
        "👩‍👧 ❤\u{fe0f}\u{200d}🔥 1\u{fe0f}\u{20e3} می\u{200c}خواهم क्\u{200d}ष ᠠ\u{180b} 葛\u{e0100}";
    const HIDDEN: &str =
        "\u{3164}\u{115f}\u{1160}\u{ffa0}\u{ad}\u{200b}\u{2060}\u{feff}\u{fff9}\u{e0041}\u{1d173}";
    const DIRECTIONS: &str = "\u{61c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}";
    const BLANKS: &str = "\u{a0}\u{2003}\u{202f}\u{2800}\u{3000}";

    /// Returns an escape of each character, as the standard library writes it.
    fn all_escaped(text: &str) -> String {
        text.escape_unicode().collect()
    }

    #[test]
    fn a_person_who_decides_sees_an_escape_for_each_invisible_character() {
        let plain = "\"naïve\" 'quote' \\d {a: 1} `x` für 日本語 🎉 e\u{301}";
        assert_eq!(escape_invisible(plain), plain);
        let hidden =
            format!("{HIDDEN}{DIRECTIONS}{BLANKS}\u{1b}\u{85}\u{2028}\u{fe0f}\u{200d}\u{e0100}\u{378}");
        assert_eq!(escape_invisible(&hidden), all_escaped(&hidden));
        assert_eq!(escape_invisible("a\nb\tc\r"), "a\\nb\\tc\\r");
        assert_eq!(escape_invisible("👩‍👧 می\u{200c}خ"), "👩\\u{200d}👧 می\\u{200c}خ");
    }

    #[test]
    fn visible_characters_stay_and_invisible_ones_are_removed() {
        for (text, visible) in [
            ("plain\ttext\nände", "plain\ttext\nände"),
            (JOINED, JOINED),
            (BLANKS, BLANKS),
            (HIDDEN, ""),
            (DIRECTIONS, ""),
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{1b}\\ end", "link end"),
            ("\u{1b}(Bok\u{1b}7\u{1b}=", "ok"),
            ("50%\r100%\r\n", "50%\n100%\n"),
            ("one\u{2028}two", "one\ntwo"),
            ("hi\u{e0069}\u{e0067}\u{e006e}", "hi"),
            ("a\u{e0101}\u{e0148}b\u{200d}c\u{fe0f}", "abc"),
            ("nul\0 del\u{7f} c1\u{9b}31m", "nul del c131m"),
            ("never ends \u{1b}[1;1;1", "never ends [1;1;1"),
            ("never ends \u{1b}]0;title", "never ends ]0;title"),
        ] {
            assert_eq!(strip_invisible(text), visible, "{text:?}");
        }
    }

    #[test]
    fn selectors_that_spell_a_second_text_are_removed() {
        let secret: String = (0..16).filter_map(|value| char::from_u32(0xfe00 + value)).collect();
        assert_eq!(strip_invisible(&format!("😀{secret}")), "😀\u{fe00}");
        assert_eq!(strip_invisible("é\u{200d}\u{200c}\u{200d}\u{34f}é"), "é\u{200d}é");
    }

    #[test]
    fn a_terminal_shows_joined_text_and_escapes_the_rest() {
        for text in [JOINED, BLANKS] {
            assert_eq!(sanitize_for_terminal(text), text);
        }
        for text in [HIDDEN, DIRECTIONS] {
            assert_eq!(sanitize_for_terminal(text), all_escaped(text));
        }
        assert_eq!(sanitize_for_terminal("a\u{200d}b\u{2028}c"), "a\\u{200d}b\\u{2028}c");
    }

    #[test]
    fn every_text_of_a_value_is_cleaned_and_so_are_names() {
        let mut value = serde_json::json!({"a\u{1b}[1m": ["\u{202e}x", {"b": "\u{7}"}], "c": 1});
        strip_invisible_in_value(&mut value);
        assert_eq!(value, serde_json::json!({"a": ["x", {"b": ""}], "c": 1}));
    }

    proptest! {
        #[test]
        fn a_person_who_decides_sees_everything(text in any::<String>()) {
            let escaped = escape_invisible(&text).into_owned();
            prop_assert!(escaped.chars().all(is_visible));
            prop_assert!(!escaped.chars().any(char::is_control));
            prop_assert_eq!(escape_invisible(&escaped).into_owned(), escaped);
        }

        #[test]
        fn nothing_hidden_is_left_and_a_second_pass_changes_nothing(
            text in "[\\x00-\\x7f\u{202e}\u{e0041}\u{3164}\u{200d}\u{fe0f}\u{e0100}\u{2800}é葛]{0,60}",
        ) {
            for clean in [strip_invisible, sanitize_for_terminal] {
                let once = clean(&text).into_owned();
                let hidden = |character| matches!(invisible(character), Some(Invisible::Control | Invisible::Hidden));
                prop_assert!(!once.chars().any(hidden), "{:?}", once);
                prop_assert_eq!(clean(&once), once.as_str());
            }
        }

        #[test]
        fn visible_text_is_unchanged(text in "[ -~\\n\\té]{0,60}") {
            prop_assert_eq!(strip_invisible(&text), text.as_str());
            prop_assert_eq!(sanitize_for_terminal(&text), text.as_str());
        }
    }
}
