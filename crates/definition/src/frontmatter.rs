//! Splits a markdown file into its YAML frontmatter and its body, keeping the lines where they were.

use std::borrow::Cow;

use crate::text::{Entry, Shape, quote_lines, strict_yaml};

/// The two parts of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The lines between the two markers, without them.
    pub yaml: &'a str,
    /// How many lines of the file come before the YAML.
    pub lines_before: u32,
    pub body: &'a str,
}

/// Why a file has no frontmatter that could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The first line is not `---`.
    Begin,
    /// No line after the first is `---`.
    End,
}

/// Returns the text without a byte-order mark and with plain line feeds, so that every parser counts lines alike.
pub fn normalize(text: &str) -> Cow<'_, str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.contains('\r') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Splits a normalized text. Empty lines before the first marker are allowed.
pub fn split(text: &str) -> Result<Parts<'_>, Missing> {
    let mut lines = Lines { rest: text, at: 0 };
    let mut lines_before = 0;
    loop {
        lines_before += 1;
        match lines.next() {
            Some((_, line)) if line.trim().is_empty() => {}
            Some((_, line)) if is_marker(line) => break,
            Some(_) | None => return Err(Missing::Begin),
        }
    }
    let yaml_start = lines.at;
    while let Some((start, line)) = lines.next() {
        if is_marker(line) {
            let parts = Parts { yaml: &text[yaml_start..start], lines_before, body: &text[lines.at..] };
            return Ok(parts);
        }
    }
    Err(Missing::End)
}

/// A key of a head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadKey {
    pub name: String,
    /// Its value, if that is a text.
    pub value: Option<String>,
    /// Its whole value for people to read, in however many lines it is written. A text is as it is, the rest like JSON.
    pub shown: String,
    /// Every name below it, however deep.
    pub inner_names: Vec<String>,
    /// The line of the YAML that it begins in, from 1.
    pub line: u32,
}

/// Returns the outermost keys of a head, each as often as it is written; nothing if the YAML is not valid or is another
/// value than a map. Nothing is mended here: this is for those who must know what other readers find.
pub fn head_keys(yaml: &str) -> Option<Vec<HeadKey>> {
    let entries = match strict_yaml(yaml)?.shape {
        Shape::Map(entries) => entries,
        Shape::Nothing => Vec::new(),
        Shape::Truth(_)
        | Shape::Integer(_)
        | Shape::Number(_)
        | Shape::Text(_)
        | Shape::Moment
        | Shape::List(_) => return None,
    };
    let key = |entry: Entry| {
        let mut inner_names = Vec::new();
        entry.node.collect_names(&mut inner_names);
        let shown = entry.node.shown();
        let value = match entry.node.shape {
            Shape::Text(text) => Some(text),
            _ => None,
        };
        HeadKey { name: entry.key, value, shown, inner_names, line: entry.place.line }
    };
    Some(entries.into_iter().map(key).collect())
}

/// Returns the keys that Claude Code finds in a head that is not valid YAML: it puts values of one line that need quotes
/// into quotes, and reads again. Lines stay where they are.
pub fn mended_head_keys(yaml: &str) -> Option<Vec<HeadKey>> {
    head_keys(&quote_lines(yaml).0)
}

fn is_marker(line: &str) -> bool {
    line.trim_end() == "---"
}

/// Lines with the byte where each begins.
struct Lines<'a> {
    rest: &'a str,
    at: usize,
}

impl<'a> Iterator for Lines<'a> {
    type Item = (usize, &'a str);

    fn next(&mut self) -> Option<(usize, &'a str)> {
        if self.rest.is_empty() {
            return None;
        }
        let start = self.at;
        let length = self.rest.find('\n').map_or(self.rest.len(), |at| at + 1);
        let (line, rest) = self.rest.split_at(length);
        self.rest = rest;
        self.at += length;
        Some((start, line.trim_end_matches('\n')))
    }
}
