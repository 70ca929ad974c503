//! Edits YAML text: inserts, replaces or cuts out whole entries of block mappings, and keeps every other line.
//!
//! This is not a parser. It finds keys by their indentation and gives up on everything else (flow mappings over several
//! lines, anchors, complex keys). `edit` parses the text before and after with a real parser, so a wrong guess is an error
//! and never a damaged file.

use std::ops::Range;

use serde_json::{Map, Value};

use super::edit::EditError;

const INDENT: usize = 2;

pub(super) fn value(text: &str) -> Result<Value, EditError> {
    match config::yaml::to_json(text) {
        Ok(Value::Null) => Ok(Value::Object(Map::new())),
        Ok(value) => Ok(value),
        Err(error) => {
            Err(EditError::Unreadable { line: error.line, column: error.column, message: error.message })
        }
    }
}

pub(super) fn put(text: &str, path: &[String], value: &Value) -> Result<String, EditError> {
    edit_put(text, path, value).ok_or_else(|| not_edited(path))
}

pub(super) fn remove(text: &str, path: &[String], made: usize) -> Result<String, EditError> {
    edit_remove(text, path, made).ok_or_else(|| not_edited(path))
}

fn edit_put(text: &str, path: &[String], value: &Value) -> Option<String> {
    let lines = YamlLines::parse(text);
    let mut mapping = lines.root();
    for (depth, name) in path.iter().enumerate() {
        let last = depth + 1 == path.len();
        match (lines.find(&mapping, name)?, last) {
            (Some(key), true) => return lines.replace(&key, value),
            (Some(key), false) => match lines.below(&key)? {
                ValueBelow::Mapping(below) => mapping = below,
                ValueBelow::Empty => return lines.replace(&key, &nested(&path[depth + 1..], value)),
            },
            (None, _) => {
                let rest = nested(&path[depth + 1..], value);
                return Some(lines.append(&mapping, name, &rest));
            }
        }
    }
    None
}

fn edit_remove(text: &str, path: &[String], made: usize) -> Option<String> {
    let lines = YamlLines::parse(text);
    let (name, above) = path.split_last()?;
    let mut mapping = lines.root();
    let mut parent = None;
    for key in above {
        let key = lines.find(&mapping, key)??;
        let ValueBelow::Mapping(below) = lines.below(&key)? else { return None };
        mapping = below;
        parent = Some(key);
    }
    let key = lines.find(&mapping, name)??;
    let only = lines.keys(&mapping)?.len() == 1;
    let cut = lines.cut(key.line..key.end);
    match parent {
        Some(_) if only && made > 0 => edit_remove(&cut, above, made - 1),
        // A mapping that existed before the edit stays one, even if it is empty.
        Some(parent) if only => {
            let mut emptied = cut;
            emptied.insert_str(parent.after_colon, " {}");
            Some(emptied)
        }
        Some(_) | None => Some(cut),
    }
}

/// Wraps a value into the objects of a path.
fn nested(path: &[String], value: &Value) -> Value {
    path.iter().rev().fold(value.clone(), |value, key| serde_json::json!({ key: value }))
}

/// A text and the positions of its lines.
struct YamlLines<'a> {
    text: &'a str,
    lines: Vec<YamlLine>,
}

/// One line, without its line ending.
struct YamlLine {
    span: Range<usize>,
    indent: usize,
    kind: LineKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineKind {
    /// Blank, a comment, or a marker before the document.
    Other,
    Item,
    Content,
}

/// A block mapping: its keys are the lines with its indentation.
struct Mapping {
    lines: Range<usize>,
    indent: usize,
}

/// A key of a mapping and the lines of its value.
#[derive(Clone)]
struct Key {
    name: String,
    line: usize,
    /// The line after its last one.
    end: usize,
    indent: usize,
    after_colon: usize,
}

/// The value below a key.
enum ValueBelow {
    Mapping(Mapping),
    /// `{}`
    Empty,
}

impl<'a> YamlLines<'a> {
    fn parse(text: &'a str) -> Self {
        let mut lines = Vec::new();
        let mut start = 0;
        let mut begun = false;
        for whole in text.split_inclusive('\n') {
            let bare = whole.trim_end_matches(['\n', '\r']);
            let indent = bare.len() - bare.trim_start_matches(' ').len();
            let content = &bare[indent..];
            let marker = !begun && (content.starts_with("---") || content.starts_with('%'));
            let kind = if content.trim().is_empty() || content.starts_with('#') || marker {
                LineKind::Other
            } else if content == "-" || content.starts_with("- ") {
                LineKind::Item
            } else {
                LineKind::Content
            };
            begun |= kind != LineKind::Other;
            lines.push(YamlLine { span: start..start + bare.len(), indent, kind });
            start += whole.len();
        }
        Self { text, lines }
    }

    fn root(&self) -> Mapping {
        self.mapping(0..self.lines.len())
    }

    fn mapping(&self, lines: Range<usize>) -> Mapping {
        let first = self.lines[lines.clone()].iter().find(|line| line.kind != LineKind::Other);
        Mapping { indent: first.map_or(0, |line| line.indent), lines }
    }

    /// Returns the keys of a mapping; `None` if it has a line that is not understood.
    fn keys(&self, mapping: &Mapping) -> Option<Vec<Key>> {
        let mut keys: Vec<Key> = Vec::new();
        for index in mapping.lines.clone() {
            let line = &self.lines[index];
            if line.kind == LineKind::Other {
                continue;
            }
            let is_key = line.indent == mapping.indent && line.kind == LineKind::Content;
            // The items of a list may have the same indentation as its key.
            let continues = line.indent > mapping.indent || line.kind == LineKind::Item;
            match keys.last_mut() {
                _ if is_key => keys.push(self.key(index)?),
                Some(key) if continues && line.indent >= mapping.indent => key.end = index + 1,
                Some(_) | None => return None,
            }
        }
        Some(keys)
    }

    fn find(&self, mapping: &Mapping, name: &str) -> Option<Option<Key>> {
        Some(self.keys(mapping)?.into_iter().find(|key| key.name == name))
    }

    fn key(&self, index: usize) -> Option<Key> {
        let line = &self.lines[index];
        let start = line.span.start + line.indent;
        let content = &self.text[start..line.span.end];
        let (name, colon) = match content.chars().next()? {
            '"' => {
                let end = closing_quote(content, '"')?;
                (serde_json::from_str(&content[..end]).ok()?, end)
            }
            '\'' => {
                let end = closing_quote(content, '\'')?;
                (content[1..end - 1].replace("''", "'"), end)
            }
            '[' | '{' | '&' | '*' | '!' | '|' | '>' | '%' | '@' | '`' | '?' | ',' | ']' | '}' => return None,
            _ => {
                let ends = |(at, _): &(usize, &str)| {
                    let behind = content[at + 1..].chars().next();
                    behind.is_none_or(|char| matches!(char, ' ' | '\t'))
                };
                let (at, _) = content.match_indices(':').find(ends)?;
                (content[..at].trim_end().to_owned(), at)
            }
        };
        let spaces = content[colon..].len() - content[colon..].trim_start_matches(' ').len();
        let after_colon = start + colon + spaces + 1;
        let is_colon = content[colon + spaces..].starts_with(':');
        is_colon.then_some(Key { name, line: index, end: index + 1, indent: line.indent, after_colon })
    }

    /// Returns the position of a value on the line of its key, without a trailing comment.
    fn inline(&self, key: &Key) -> Option<Range<usize>> {
        let behind = &self.text[key.after_colon..self.lines[key.line].span.end];
        let start = behind.len() - behind.trim_start().len();
        let length = value_length(&behind[start..])?;
        let start = if length == 0 { 0 } else { start };
        Some(key.after_colon + start..key.after_colon + start + length)
    }

    fn below(&self, key: &Key) -> Option<ValueBelow> {
        match &self.text[self.inline(key)?] {
            "" => {
                let mapping = self.mapping(key.line + 1..key.end);
                let deeper = mapping.indent > key.indent && !mapping.lines.is_empty();
                deeper.then_some(ValueBelow::Mapping(mapping))
            }
            "{}" if key.end == key.line + 1 => Some(ValueBelow::Empty),
            _ => None,
        }
    }

    /// Replaces the value of an existing key. The comment after the key stays.
    fn replace(&self, key: &Key, value: &Value) -> Option<String> {
        let inline = self.inline(key)?;
        // Only the beginning of a multi-line text is on the line of the key.
        if !self.text[inline.clone()].is_empty() && key.end > key.line + 1 {
            return None;
        }
        let (first, more) = self.render(value, key.indent);
        let space = if first.is_empty() { "" } else { " " };
        let head = &self.text[..key.after_colon];
        let comment = &self.text[inline.end..self.lines[key.line].span.end];
        let tail = &self.text[self.line_start(key.end)..];
        let end = self.line_end();
        let mut edited = format!("{head}{space}{first}{comment}{end}{more}{tail}");
        if tail.is_empty() && !self.text.ends_with('\n') {
            edited.truncate(edited.len() - end.len());
        }
        Some(edited)
    }

    /// Adds a key at the end of a mapping: at the end of the text, or after the last line of the mapping.
    fn append(&self, mapping: &Mapping, name: &str, value: &Value) -> String {
        let (first, more) = self.render(value, mapping.indent);
        let end = self.line_end();
        let space = if first.is_empty() { "" } else { " " };
        let entry = format!("{}{}:{space}{first}{end}{more}", " ".repeat(mapping.indent), scalar(name));
        let whole = mapping.lines == (0..self.lines.len());
        let last = mapping.lines.clone().rfind(|index| self.lines[*index].kind != LineKind::Other);
        let at = match last {
            Some(last) if !whole => self.line_start(last + 1),
            Some(_) | None => self.text.len(),
        };
        let mut edited = self.text.to_owned();
        if at == self.text.len() && !self.text.is_empty() && !self.text.ends_with('\n') {
            edited.push_str(end);
            edited.push_str(entry.trim_end_matches(['\r', '\n']));
        } else {
            edited.insert_str(at, &entry);
        }
        edited
    }

    /// Returns the text without these lines.
    fn cut(&self, lines: Range<usize>) -> String {
        let mut edited = self.text.to_owned();
        if lines.is_empty() {
            return edited;
        }
        let mut range = self.line_start(lines.start)..self.line_start(lines.end);
        if range.end == self.text.len() && !self.text.ends_with('\n') && lines.start > 0 {
            // The previous line becomes the last one, and the last one had no line ending.
            range.start = self.lines[lines.start - 1].span.end;
        }
        edited.replace_range(range, "");
        edited
    }

    fn line_start(&self, line: usize) -> usize {
        self.lines.get(line).map_or(self.text.len(), |line| line.span.start)
    }

    fn line_end(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    /// Returns the indentation step of the text.
    fn unit(&self) -> usize {
        let indents = self.lines.iter().filter(|line| line.kind == LineKind::Content).map(|line| line.indent);
        indents.filter(|indent| *indent > 0).min().unwrap_or(INDENT)
    }

    /// Formats a value: the text on the line of its key, and the lines below.
    fn render(&self, value: &Value, indent: usize) -> (String, String) {
        let end = self.line_end();
        match value {
            Value::Object(entries) if !entries.is_empty() => {
                let indent = indent + self.unit();
                let entries = entries.iter().map(|(name, value)| {
                    let (first, more) = self.render(value, indent);
                    let space = if first.is_empty() { "" } else { " " };
                    format!("{}{}:{space}{first}{end}{more}", " ".repeat(indent), scalar(name))
                });
                (String::new(), entries.collect())
            }
            Value::Array(items) if !items.is_empty() => {
                let items = items.iter().map(|item| format!("{}- {}{end}", " ".repeat(indent), flow(item)));
                (String::new(), items.collect())
            }
            value => (flow(value), String::new()),
        }
    }
}

/// Formats a value on one line. JSON is valid YAML.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

/// Formats a text: plain if no parser reads it as another type, else in quotes.
fn scalar(text: &str) -> String {
    const NOT_TEXT: [&str; 12] =
        ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity"];
    let begins = text.starts_with(|char: char| char.is_ascii_alphabetic() || matches!(char, '/' | '_'));
    let plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '/' | '_' | '.' | '-');
    let is_plain = begins && text.chars().all(plain) && !NOT_TEXT.contains(&text.to_lowercase().as_str());
    if is_plain { text.to_owned() } else { Value::from(text).to_string() }
}

/// Returns the length of the value at the beginning of a text; `None` if it does not end there.
fn value_length(text: &str) -> Option<usize> {
    if text.starts_with(['|', '>', '&', '*', '!']) {
        return None;
    }
    let is_flow = text.starts_with(['[', '{']);
    let mut depth = 0_usize;
    let mut before = ' ';
    let mut at = 0;
    while let Some(char) = text[at..].chars().next() {
        let opens = before == ' ' && at == 0 || is_flow && matches!(before, '[' | '{' | ',' | ':');
        match char {
            '#' if text[..at].ends_with([' ', '\t']) || at == 0 => break,
            '"' | '\'' if opens => {
                at += closing_quote(&text[at..], char)?;
                before = char;
                continue;
            }
            '[' | '{' if is_flow => depth += 1,
            ']' | '}' if is_flow => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if !char.is_whitespace() {
            before = char;
        }
        at += char.len_utf8();
    }
    (depth == 0).then(|| text[..at].trim_end().len())
}

/// Returns the length of a quoted text, including its quotes.
fn closing_quote(text: &str, quote: char) -> Option<usize> {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' if quote == '"' => {
                chars.next();
            }
            char if char == quote => match chars.peek() {
                Some((_, next)) if quote == '\'' && *next == '\'' => {
                    chars.next();
                }
                Some(_) | None => return Some(at + 1),
            },
            _ => {}
        }
    }
    None
}

fn not_edited(path: &[String]) -> EditError {
    EditError::OnlyBlocks { key: path.join(".") }
}
