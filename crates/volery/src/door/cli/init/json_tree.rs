//! JSON with comments as a tree of places in its text.

use serde_json::{Map, Value};

use super::edit::EditError;

/// Deeper texts are no configuration.
const DEPTH_MAX: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Object,
    Array,
    Scalar,
    /// There is no value in the text.
    Nothing,
}

/// A value and where it stands.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) shape: Shape,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) parts: Vec<Part>,
    /// Where comments that go to the end of their line end, directly within this value.
    pub(super) line_comment_ends: Vec<usize>,
}

/// A member of an object, or an item of a list.
#[derive(Debug)]
pub(super) struct Part {
    /// Where it begins: with its key, if it has one.
    pub(super) start: usize,
    pub(super) key: Option<String>,
    pub(super) node: Node,
    /// Where the comma behind it stands.
    pub(super) comma: Option<usize>,
}

impl Node {
    pub(super) fn is_nothing(&self) -> bool {
        self.shape == Shape::Nothing
    }

    /// Returns which part has this key: the last, as readers take it.
    pub(super) fn position_of(&self, key: &str) -> Option<usize> {
        self.parts.iter().rposition(|part| part.key.as_deref() == Some(key))
    }

    /// Returns what it says.
    pub(super) fn value(&self, text: &str) -> Value {
        match self.shape {
            Shape::Nothing => Value::Object(Map::new()),
            Shape::Array => self.parts.iter().map(|part| part.node.value(text)).collect(),
            Shape::Object => {
                let members = self.parts.iter();
                let members =
                    members.map(|part| (part.key.clone().unwrap_or_default(), part.node.value(text)));
                Value::Object(members.collect())
            }
            Shape::Scalar => serde_json::from_str(&text[self.start..self.end]).unwrap_or(Value::Null),
        }
    }
}

/// Reads a text as the clients do: JSON, with comments and trailing commas.
pub(super) fn parse(text: &str) -> Result<Node, EditError> {
    let mut reader = Reader { text, at: 0 };
    let mut ends = Vec::new();
    reader.skip(&mut ends)?;
    if reader.peek().is_none() {
        let end = text.len();
        return Ok(Node {
            shape: Shape::Nothing,
            start: end,
            end,
            parts: Vec::new(),
            line_comment_ends: ends,
        });
    }
    let node = reader.value(0)?;
    reader.skip(&mut ends)?;
    match reader.peek() {
        None => Ok(node),
        Some(_) => Err(reader.wrong("the end of the text was expected")),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn wrong(&self, message: &str) -> EditError {
        let before = &self.text[..self.at];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        EditError::Unreadable { line, column, message: message.to_owned() }
    }

    /// Skips space and comments; notes where those that end with their line do.
    fn skip(&mut self, ends: &mut Vec<usize>) -> Result<(), EditError> {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            if blank > 0 {
                self.at += blank;
            } else if rest.starts_with("//") {
                let line = &rest[..rest.find('\n').unwrap_or(rest.len())];
                ends.push(self.at + line.strip_suffix('\r').unwrap_or(line).len());
                self.at += line.len();
            } else if rest.starts_with("/*") {
                let length = rest.find("*/").ok_or_else(|| self.wrong("this comment does not end"))?;
                self.at += length + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, EditError> {
        if depth > DEPTH_MAX {
            return Err(self.wrong("this is nested too deeply"));
        }
        match self.peek() {
            Some(b'{') => self.container(Shape::Object, b'}', depth),
            Some(b'[') => self.container(Shape::Array, b']', depth),
            Some(_) => self.scalar(),
            None => Err(self.wrong("a value was expected")),
        }
    }

    fn container(&mut self, shape: Shape, close: u8, depth: usize) -> Result<Node, EditError> {
        let start = self.at;
        self.at += 1;
        let mut parts: Vec<Part> = Vec::new();
        let mut ends = Vec::new();
        loop {
            self.skip(&mut ends)?;
            match self.peek() {
                Some(byte) if byte == close => break,
                Some(b',') if parts.last().is_some_and(|last| last.comma.is_none()) => {
                    let comma = self.at;
                    self.at += 1;
                    if let Some(last) = parts.last_mut() {
                        last.comma = Some(comma);
                    }
                }
                Some(_) if parts.last().is_some_and(|last| last.comma.is_none()) => {
                    return Err(self.wrong("a comma or the closing bracket was expected"));
                }
                Some(_) => {
                    let part = self.part(shape, depth, &mut ends)?;
                    parts.push(part);
                }
                None => return Err(self.wrong("the closing bracket was expected")),
            }
        }
        self.at += 1;
        Ok(Node { shape, start, end: self.at, parts, line_comment_ends: ends })
    }

    fn part(&mut self, shape: Shape, depth: usize, ends: &mut Vec<usize>) -> Result<Part, EditError> {
        let start = self.at;
        let mut key = None;
        if shape == Shape::Object {
            if self.peek() != Some(b'"') {
                return Err(self.wrong("a key in double quotes was expected"));
            }
            let node = self.scalar()?;
            key = node.value(self.text).as_str().map(str::to_owned);
            self.skip(ends)?;
            if self.peek() != Some(b':') {
                return Err(self.wrong("a colon was expected"));
            }
            self.at += 1;
            self.skip(ends)?;
        }
        let node = self.value(depth + 1)?;
        Ok(Part { start, key, node, comma: None })
    }

    /// Reads a string, a number or a word; what it may be is for the reader of plain JSON to say.
    fn scalar(&mut self) -> Result<Node, EditError> {
        let rest = self.rest();
        let length = if let Some(string) = rest.strip_prefix('"') {
            let mut escaped = false;
            let end = string.bytes().position(|byte| {
                let ends = byte == b'"' && !escaped;
                escaped = byte == b'\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |end| end + 2)
        } else {
            let word = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '+' | '.');
            rest.len() - rest.trim_start_matches(word).len()
        };
        if serde_json::from_str::<Value>(&rest[..length]).is_err() {
            return Err(self.wrong("a value was expected"));
        }
        let start = self.at;
        self.at += length;
        Ok(Node {
            shape: Shape::Scalar,
            start,
            end: self.at,
            parts: Vec::new(),
            line_comment_ends: Vec::new(),
        })
    }
}
