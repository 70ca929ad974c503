//! Splits a markdown file into its YAML frontmatter and its body, and preserves line numbers.

use std::borrow::Cow;

use crate::text::{MapEntry, NodeValue, quote_lines, strict_yaml};

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
    let mut lines = LineOffsets { rest: text, at: 0 };
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

/// A key of the frontmatter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontmatterKey {
    pub name: String,
    /// Its value, if that is a text.
    pub value: Option<String>,
    /// Its whole value for display. A text is unchanged, the rest is like JSON.
    pub shown: String,
    /// Every key below it, at any depth.
    pub inner_names: Vec<String>,
    /// The line of the YAML that it begins in, from 1.
    pub line: u32,
}

/// Returns the top-level keys of the frontmatter, duplicates included; `None` if the YAML is not valid or not a map.
/// Repairs nothing: callers need to know what other readers find.
pub fn frontmatter_keys(yaml: &str) -> Option<Vec<FrontmatterKey>> {
    let entries = match strict_yaml(yaml)?.value {
        NodeValue::Map(entries) => entries,
        NodeValue::Null => Vec::new(),
        NodeValue::Bool(_)
        | NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::String(_)
        | NodeValue::DateTime
        | NodeValue::List(_) => return None,
    };
    let key = |entry: MapEntry| {
        let mut inner_names = Vec::new();
        entry.node.collect_names(&mut inner_names);
        let shown = entry.node.display();
        let value = match entry.node.value {
            NodeValue::String(text) => Some(text),
            _ => None,
        };
        FrontmatterKey { name: entry.key, value, shown, inner_names, line: entry.location.line }
    };
    Some(entries.into_iter().map(key).collect())
}

/// Returns the keys that Claude Code finds in frontmatter that is not valid YAML: it quotes one-line values that need
/// quotes, and reads again. Line numbers do not change.
pub fn repaired_frontmatter_keys(yaml: &str) -> Option<Vec<FrontmatterKey>> {
    frontmatter_keys(&quote_lines(yaml).0)
}

fn is_marker(line: &str) -> bool {
    line.trim_end() == "---"
}

/// Lines with their byte offsets.
struct LineOffsets<'a> {
    rest: &'a str,
    at: usize,
}

impl<'a> Iterator for LineOffsets<'a> {
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
