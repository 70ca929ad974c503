//! Text that others wrote, made safe and short enough to be shown.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns the text with everything taken out that could command a terminal or reorder what is read.
///
/// Line breaks and tabs stay. Colour sequences vanish; other control characters become visible signs.
pub(crate) fn neutralise(text: &str) -> Cow<'_, str> {
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
                // The control pictures stand in the order of the characters they picture.
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

/// Returns the text on one line: neutralised, with every run of white space as one space.
pub(crate) fn one_line(text: &str) -> String {
    neutralise(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns how many columns a text takes on a terminal, near enough for tables.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Returns the text in at most `max` columns, the cut marked with `…`.
pub(crate) fn fit(text: &str, max: usize) -> String {
    if width(text) <= max {
        return text.to_owned();
    }
    let room = max.saturating_sub(1);
    let mut used = 0;
    let mut kept = String::new();
    for character in text.chars() {
        used += char_width(character);
        if used > room {
            break;
        }
        kept.push(character);
    }
    if max > 0 {
        kept.push('…');
    }
    kept
}

/// Returns the end of a text in at most `max` columns, the cut marked with `…`.
pub(crate) fn fit_end(text: &str, max: usize) -> String {
    if width(text) <= max {
        return text.to_owned();
    }
    let mut used = usize::from(max > 0);
    let mut kept: Vec<char> = Vec::new();
    for character in text.chars().rev() {
        used += char_width(character);
        if used > max {
            break;
        }
        kept.push(character);
    }
    let mark = if max > 0 { "…" } else { "" };
    format!("{mark}{}", kept.into_iter().rev().collect::<String>())
}

/// Returns the text broken between words into lines of at most `max` columns; a longer word stands alone. A command or a
/// setting that fits on a line is not broken, so that it can be copied.
pub(crate) fn wrap(text: &str, max: usize) -> Vec<String> {
    wrap_after(0, text, max)
}

/// Does the same for a text whose first line begins after so many columns.
pub(crate) fn wrap_after(columns: usize, text: &str, max: usize) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut lines = vec![String::new()];
    let mut rest = &words[..];
    while !rest.is_empty() {
        let (phrase, after) = rest.split_at(phrase_length(rest, max));
        let phrase = phrase.join(" ");
        rest = after;
        let before = if lines.len() == 1 { columns } else { 0 };
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() && (before == 0 || before + width(&phrase) <= max) {
            line.push_str(&phrase);
        } else if !line.is_empty() && before + width(line) + 1 + width(&phrase) <= max {
            line.push(' ');
            line.push_str(&phrase);
        } else {
            lines.push(phrase);
        }
    }
    lines
}

/// Returns how many of the first words belong together: what stands in backticks, quotes, braces or brackets, both sides of
/// an equals sign with the section before them, and `volery` with two words. A phrase that is longer than a line does
/// not count.
fn phrase_length(words: &[&str], max: usize) -> usize {
    let fits = |length: usize| words.len() >= length && width(&words[..length].join(" ")) <= max;
    let is_open = |phrase: &[&str]| {
        let count = |sign: char| phrase.iter().map(|word| word.matches(sign).count()).sum::<usize>();
        count('`') % 2 == 1 || count('"') % 2 == 1 || count('{') > count('}') || count('[') > count(']')
    };
    let starts_setting = words[0].starts_with('[') && words.get(2).is_some_and(|word| *word == "=");
    let mut length = match words[0] {
        "volery" => 3.min(words.len()),
        _ if starts_setting => 4.min(words.len()),
        _ => 1,
    };
    while length < words.len()
        && (words[length] == "=" || words[length - 1] == "=" || is_open(&words[..length]))
    {
        length += 1;
    }
    if fits(length) && !is_open(&words[..length]) { length } else { 1 }
}

/// Returns a sentence with `~` for the user's home in the paths that it names.
pub(crate) fn with_tilde(text: &str, home: Option<&str>) -> String {
    let Some(home) = home.filter(|home| home.len() > 1) else { return text.to_owned() };
    let mut short = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(home) {
        let (before, after) = (&rest[..at], &rest[at + home.len()..]);
        // Within a longer path or name it is something else. Within quotes a shell would not read it.
        let begins =
            before.chars().next_back().is_none_or(|last| last.is_whitespace() || "(`=".contains(last));
        let ends = after.chars().next().is_none_or(|next| !(next.is_alphanumeric() || "-_.".contains(next)));
        short.push_str(before);
        short.push_str(if begins && ends { "~" } else { home });
        rest = after;
    }
    short.push_str(rest);
    short
}

/// Returns what follows a colour sequence whose escape character was just read.
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

fn char_width(character: char) -> usize {
    match u32::from(character) {
        0x0300..=0x036f | 0x1ab0..=0x1aff | 0x200b..=0x200f | 0x20d0..=0x20ff | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0x4dbf
        | 0x4e00..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f6ff
        | 0x1f900..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}
