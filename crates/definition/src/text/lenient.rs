//! Mends the one mistake that files in the wild are full of: a top-level value that needs quotes and has none.

/// A text in which one more value stands in quotes.
pub(super) struct Quoted {
    pub(super) text: String,
    pub(super) key: String,
    /// The line of the key, from 1.
    pub(super) line: u32,
}

/// Returns the text with the top-level value at or above `error_line` in quotes; `None` if there is no value
/// that could be a plain text. Lines stay where they are.
pub(super) fn quote_scalar(text: &str, error_line: u32) -> Option<Quoted> {
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
    Some(Quoted { text: mended.join("\n"), key: key.to_owned(), line })
}

/// Splits `key: value` at the left margin, if the value can be meant as plain text.
fn top_level_value(line: &str) -> Option<(&str, &str)> {
    let (key, rest) = line.split_once(':')?;
    let named = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if key.is_empty() || key.starts_with('-') || !key.bytes().all(named) || !rest.starts_with(' ') {
        return None;
    }
    let value = rest.trim();
    needs_quotes(value).then_some((key, rest.trim_start()))
}

/// Tells whether a value is plain text that YAML takes for something else. A broken list, map or block of lines
/// is left alone: in quotes it would only become a puzzling text.
fn needs_quotes(value: &str) -> bool {
    match value.as_bytes() {
        [] | [b'[' | b'{' | b'|' | b'>' | b'\'' | b'#', ..] => false,
        [b'*' | b'&' | b'!' | b'%' | b'@' | b'`', ..] => true,
        [b'"', rest @ ..] => rest.iter().position(|byte| *byte == b'"').is_some_and(|at| at + 1 < rest.len()),
        _ => value.contains(": ") || value.ends_with(':'),
    }
}
