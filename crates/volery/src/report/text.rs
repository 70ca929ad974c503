//! Shortens and wraps text for display.

use unicode_width::UnicodeWidthChar as _;

pub(crate) use domain::invisible_text::{one_line, sanitize_for_terminal};

/// Precedes every further line of a wrapped text.
pub(crate) const INDENT: &str = "  ";
/// On a very narrow terminal a line still has this many columns.
const COLUMNS_MIN: usize = 30;

/// Returns about how many columns a text takes on a terminal; exact enough for tables.
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
    let mut fitted = String::new();
    for character in text.chars() {
        used += char_width(character);
        if used > room {
            break;
        }
        fitted.push(character);
    }
    if max > 0 {
        fitted.push('…');
    }
    fitted
}

/// Returns the end of a text in at most `max` columns, the cut marked with `…`.
pub(crate) fn fit_end(text: &str, max: usize) -> String {
    if width(text) <= max {
        return text.to_owned();
    }
    let mut used = usize::from(max > 0);
    let mut tail: Vec<char> = Vec::new();
    for character in text.chars().rev() {
        used += char_width(character);
        if used > max {
            break;
        }
        tail.push(character);
    }
    let mark = if max > 0 { "…" } else { "" };
    format!("{mark}{}", tail.into_iter().rev().collect::<String>())
}

/// Wraps a text between words into lines of at most `max` columns; a longer word gets a line of its own. A command or a
/// setting that fits on a line is not broken, so that users can copy it.
pub(crate) fn wrap(text: &str, max: usize) -> Vec<String> {
    wrap_after(0, text, max)
}

/// Wraps a text whose first line starts at column `columns`.
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

/// Wraps a text whose first line starts at column `columns`; further lines are indented by [`INDENT`].
pub(crate) fn wrap_hanging(columns: usize, text: &str, max: Option<usize>) -> String {
    match max {
        Some(max) if columns + width(text) > max => {
            let max = max.saturating_sub(INDENT.len()).max(COLUMNS_MIN);
            wrap_after(columns.saturating_sub(INDENT.len()), text, max).join(&format!("\n{INDENT}"))
        }
        Some(_) | None => text.to_owned(),
    }
}

/// Returns how many of the first words must stay on one line: text in backticks, quotes, braces or brackets, both sides of
/// an equals sign with the section before them, and `volery` with two words. A phrase that is longer than a line counts
/// as single words.
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

/// Replaces the user's home by `~` in the paths of a sentence.
pub(crate) fn with_tilde(text: &str, home: Option<&str>) -> String {
    let Some(home) = home.filter(|home| home.len() > 1) else { return text.to_owned() };
    replace_folder(text, home, "~", |after| {
        after.chars().next().is_none_or(|next| !(next.is_alphanumeric() || "-_.".contains(next)))
    })
}

/// Makes the paths of a sentence that are inside a project relative to it. The project's own path stays, because it is
/// often part of a command.
pub(crate) fn relative_to(text: &str, project: &str) -> String {
    let project = project.trim_end_matches('/');
    if project.is_empty() {
        return text.to_owned();
    }
    let inside =
        |after: &str| !after.chars().next().is_none_or(|next| next.is_whitespace() || "),;".contains(next));
    replace_folder(text, &format!("{project}/"), "", inside)
}

/// Replaces a folder at the beginning of paths, where `ends` accepts the text after it.
fn replace_folder(text: &str, folder: &str, replacement: &str, ends: impl Fn(&str) -> bool) -> String {
    let mut short = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(folder) {
        let (before, after) = (&rest[..at], &rest[at + folder.len()..]);
        // Part of a longer path or name is not the folder. Shells do not expand `~` within quotes.
        let begins =
            before.chars().next_back().is_none_or(|last| last.is_whitespace() || "(`=".contains(last));
        short.push_str(before);
        short.push_str(if begins && ends(after) { replacement } else { folder });
        rest = after;
    }
    short.push_str(rest);
    short
}

/// Counts each character of an emoji by itself: terminals do not agree on how they draw joined ones.
fn char_width(character: char) -> usize {
    character.width().unwrap_or(0)
}
