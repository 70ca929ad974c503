//! Repairs the one mistake that is frequent in real files: a top-level value that needs quotes and has none.

use super::{Node, NodeValue, strict_yaml};

/// A text with one more value in quotes.
pub(super) struct QuotedScalar {
    pub(super) text: String,
    pub(super) key: String,
    /// The line of the key, from 1.
    pub(super) line: u32,
}

/// Puts the top-level value at or above `error_line` in quotes; `None` if no value there could be a plain text. Line
/// numbers do not change.
pub(super) fn quote_scalar(text: &str, error_line: u32) -> Option<QuotedScalar> {
    let lines: Vec<&str> = text.lines().collect();
    let from = usize::try_from(error_line).ok()?.min(lines.len());
    let row = (0..from).rev().find(|row| top_level_value(lines[*row]).is_some())?;
    let (key, value) = top_level_value(lines[row])?;
    let mut last = row;
    while lines.get(last + 1).is_some_and(|line| line.starts_with([' ', '\t'])) {
        last += 1;
    }
    let single = last == row;
    // In a plain text, a number sign after a space begins a comment.
    let end = if single { value.find(" #").unwrap_or(value.len()) } else { value.len() };
    let (value, comment) = value.split_at(end);
    let mut scalar = value.trim_end().to_owned();
    for line in &lines[row + 1..=last] {
        scalar.push('\n');
        scalar.push_str(line);
    }
    let start = lines[row].len() - value.len() - comment.len();
    let mut mended: Vec<String> = lines[..row].iter().map(|line| (*line).to_owned()).collect();
    mended.push(format!("{}'{}'{comment}", &lines[row][..start], scalar.replace('\'', "''")));
    mended.extend(lines[last + 1..].iter().map(|line| (*line).to_owned()));
    let line = u32::try_from(row + 1).ok()?;
    Some(QuotedScalar { text: mended.join("\n"), key: key.to_owned(), line })
}

/// Puts the one-line top-level values in quotes that Claude Code quotes when it cannot read frontmatter, with two
/// blanks for each tab at the beginning of a line. Returns the text and the changed keys with their lines. Unlike
/// Claude Code, this does not change the first line of a text, a list or a map that spans several lines.
pub(crate) fn quote_lines(text: &str) -> (String, Vec<(String, u32)>) {
    let mut changed = Vec::new();
    let mut mended: Vec<String> = Vec::new();
    for (row, line) in text.lines().enumerate() {
        let tabs = line.len() - line.trim_start_matches('\t').len();
        let line = format!("{}{}", "  ".repeat(tabs), &line[tabs..]);
        match value_to_quote(&line) {
            Some((key, value)) => {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"");
                changed.push((key.to_owned(), u32::try_from(row + 1).unwrap_or(u32::MAX)));
                mended.push(format!("{key}: \"{value}\""));
            }
            None => mended.push(line),
        }
    }
    (mended.join("\n"), changed)
}

fn value_to_quote(line: &str) -> Option<(&str, &str)> {
    const SPECIAL: [char; 15] = ['{', '}', '[', ']', '*', '&', '#', '!', '|', '>', '%', '@', '`', '"', '\''];
    let (key, rest) = line.split_once(':')?;
    let is_name = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-');
    let value = rest.trim();
    if key.is_empty() || !key.bytes().all(is_name) || !rest.starts_with([' ', '\t']) || value.is_empty() {
        return None;
    }
    let is_between = |mark: char| value.len() > 1 && value.starts_with(mark) && value.ends_with(mark);
    let is_list = || matches!(strict_yaml(value), Some(Node { value: NodeValue::List(_), .. }));
    let is_block = value.len() <= 3 && value.starts_with(['|', '>']);
    // A list or a map in several lines.
    let continues = value.starts_with(['[', '{']) && (value.len() == 1 || value.ends_with(','));
    if continues || is_between('"') || is_between('\'') || is_block || (value.starts_with('[') && is_list()) {
        return None;
    }
    (value.contains(SPECIAL) || value.contains(": ") || value.ends_with(':')).then_some((key, value))
}

/// Splits `key: value` at the left margin, if the value may be a plain text.
fn top_level_value(line: &str) -> Option<(&str, &str)> {
    let (key, rest) = line.split_once(':')?;
    let named = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if key.is_empty() || key.starts_with('-') || !key.bytes().all(named) || !rest.starts_with(' ') {
        return None;
    }
    let value = rest.trim();
    needs_quotes(value).then_some((key, rest.trim_start()))
}

/// Returns whether a value is a plain text that YAML reads as something else. A broken list, map or block is not
/// changed, because quotes would only turn it into a puzzling text.
fn needs_quotes(value: &str) -> bool {
    match value.as_bytes() {
        [] | [b'[' | b'{' | b'|' | b'>' | b'\'' | b'#', ..] => false,
        [b'*' | b'&' | b'!' | b'%' | b'@' | b'`', ..] => true,
        [b'"', rest @ ..] => rest.iter().position(|byte| *byte == b'"').is_some_and(|at| at + 1 < rest.len()),
        _ => value.contains(": ") || value.ends_with(':'),
    }
}
