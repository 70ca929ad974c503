//! Edits JSON text: inserts or cuts out a piece, and keeps every other byte.

use config::jsonc::{self, JsonNode, JsonShape, JsonSyntax};
use serde_json::Value;

use super::edit::EditError;

const INDENT: &str = "  ";

fn parse(text: &str) -> Result<JsonNode, EditError> {
    jsonc::parse(text, JsonSyntax::Commented).map_err(|error| {
        let (line, column) = error.location(text);
        EditError::Unreadable { line, column, message: error.message }
    })
}

pub(super) fn value(text: &str) -> Result<Value, EditError> {
    Ok(parse(text)?.value(text))
}

pub(super) fn put(text: &str, path: &[String], value: &Value) -> Result<String, EditError> {
    let tree = parse(text)?;
    if tree.is_nothing() {
        return put(&format!("{text}{{}}{}", line_end(text)), path, value);
    }
    let (inside, missing) = descend(&tree, path);
    if missing.is_empty() {
        let mut edited = text.to_owned();
        let style = Style::around(text, &tree, inside);
        edited.replace_range(inside.start..inside.end, &style.write(value, &style.outer));
        return Ok(edited);
    }
    let [first, rest @ ..] = missing else { return Err(ambiguous(path)) };
    let nested = rest.iter().rev().fold(value.clone(), |value, key| serde_json::json!({ key: value }));
    let style = Style::around(text, &tree, inside);
    let member = format!("{}: {}", Value::String(first.clone()), style.write(&nested, &style.inner));
    insert(text, inside, &member, &style).ok_or_else(|| ambiguous(path))
}

pub(super) fn include(text: &str, path: &[String], item: &str) -> Result<String, EditError> {
    let tree = parse(text)?;
    let (inside, missing) = descend(&tree, path);
    if !missing.is_empty() || tree.is_nothing() {
        return put(text, path, &serde_json::json!([item]));
    }
    let style = Style::around(text, &tree, inside);
    insert(text, inside, &Value::from(item).to_string(), &style).ok_or_else(|| ambiguous(path))
}

pub(super) fn remove(text: &str, path: &[String], made: usize) -> Result<String, EditError> {
    let tree = parse(text)?;
    let (key, above) = path.split_last().ok_or_else(|| ambiguous(path))?;
    let (inside, missing) = descend(&tree, above);
    let position = inside.find_key(key).filter(|_| missing.is_empty());
    let edited = cut(text, inside, position.ok_or_else(|| ambiguous(path))?);
    if made > 0 && !above.is_empty() && inside.parts.len() == 1 {
        return remove(&edited, above, made - 1);
    }
    Ok(edited)
}

pub(super) fn exclude(
    text: &str,
    path: &[String],
    position: usize,
    made: usize,
) -> Result<String, EditError> {
    let tree = parse(text)?;
    let (inside, missing) = descend(&tree, path);
    if !missing.is_empty() || position >= inside.parts.len() {
        return Err(ambiguous(path));
    }
    let edited = cut(text, inside, position);
    if made > 0 && inside.parts.len() == 1 { remove(&edited, path, made - 1) } else { Ok(edited) }
}

/// Follows a path as far as it exists. Returns the last node, and the rest of the path.
fn descend<'a, 'p>(tree: &'a JsonNode, path: &'p [String]) -> (&'a JsonNode, &'p [String]) {
    let mut node = tree;
    for (index, key) in path.iter().enumerate() {
        let Some(position) = node.find_key(key) else { return (node, &path[index..]) };
        node = &node.parts[position].node;
    }
    (node, &[])
}

/// The formatting around a node.
struct Style {
    /// The indentation within the object or list, and of the line on which it begins.
    inner: String,
    outer: String,
    unit: String,
    line_end: &'static str,
    /// The node is on one line and not empty; it stays on one line.
    one_line: bool,
}

impl Style {
    fn around(text: &str, tree: &JsonNode, node: &JsonNode) -> Self {
        let first_start = |node: &JsonNode| node.parts.first().map(|part| part.start);
        let unit = first_start(tree).and_then(|start| line_indent(text, start));
        let unit = unit.filter(|unit| !unit.is_empty()).unwrap_or(INDENT).to_owned();
        let line = text[..node.start].rfind('\n').map_or(0, |at| at + 1);
        let outer: String = text[line..].chars().take_while(|char| matches!(char, ' ' | '\t')).collect();
        let inner = first_start(node).and_then(|start| line_indent(text, start)).map(str::to_owned);
        Self {
            inner: inner.unwrap_or_else(|| format!("{outer}{unit}")),
            outer,
            unit,
            line_end: line_end(text),
            one_line: !node.parts.is_empty() && !text[node.start..node.end].contains('\n'),
        }
    }

    /// Formats a value: over several lines, unless the node is on one line.
    fn write(&self, value: &Value, indent: &str) -> String {
        let plain = |items: &Vec<Value>| items.iter().all(|item| !item.is_object() && !item.is_array());
        match value {
            Value::Object(entries) if !entries.is_empty() && !self.one_line => {
                let deeper = format!("{indent}{}", self.unit);
                let entries = entries.iter().map(|(key, value)| {
                    format!("{deeper}{}: {}", Value::from(key.as_str()), self.write(value, &deeper))
                });
                let entries: Vec<String> = entries.collect();
                let end = self.line_end;
                format!("{{{end}{}{end}{indent}}}", entries.join(&format!(",{end}")))
            }
            Value::Object(entries) => {
                let entries = entries.iter().map(|(key, value)| {
                    format!("{}: {}", Value::from(key.as_str()), self.write(value, indent))
                });
                format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
            Value::Array(items) if plain(items) => {
                let items: Vec<String> = items.iter().map(Value::to_string).collect();
                format!("[{}]", items.join(", "))
            }
            Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                value.to_string()
            }
        }
    }
}

/// Returns the text before a position on its line, if it is blank.
fn line_indent(text: &str, at: usize) -> Option<&str> {
    let line = text[..at].rfind('\n')? + 1;
    Some(&text[line..at]).filter(|before| before.chars().all(|char| matches!(char, ' ' | '\t')))
}

fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Inserts a piece at the end of an object or list.
fn insert(text: &str, node: &JsonNode, piece: &str, style: &Style) -> Option<String> {
    if node.value_kind == JsonShape::Scalar {
        return None;
    }
    let close = node.end - 1;
    // After all content, including comments, and before the white space in front of the bracket.
    let at = text[..close].trim_end_matches([' ', '\t', '\r', '\n']).len();
    // A line comment may end with a space.
    let at = node.line_comment_ends.last().copied().unwrap_or(at).max(at);
    let mut edited = text.to_owned();
    let tail = if text[at..close].contains('\n') || style.one_line {
        String::new()
    } else {
        format!("{}{}", style.line_end, style.outer)
    };
    let piece = match style.one_line {
        true => format!(" {piece}"),
        false => format!("{}{}{piece}{tail}", style.line_end, style.inner),
    };
    edited.insert_str(at, &piece);
    if let Some(last) = node.parts.last().filter(|last| last.comma.is_none()) {
        edited.insert(last.node.end, ',');
    }
    Some(edited)
}

/// Cuts a part out of an object or list, with the white space before it and its comma.
fn cut(text: &str, node: &JsonNode, position: usize) -> String {
    let part = &node.parts[position];
    let space = [' ', '\t', '\r', '\n'];
    let mut before = text[..part.start].trim_end_matches(space).len().max(node.start + 1);
    let comment = node.line_comment_ends.iter().copied().filter(|end| *end <= part.start).max();
    if let Some(comment) = comment.filter(|comment| *comment >= before) {
        // The text after the cut must not become part of the comment.
        let behind = &text[part.node.end..];
        let behind = if part.comma == Some(part.node.end) { &behind[1..] } else { behind };
        let ends = behind.trim_start_matches([' ', '\t', '\r']).starts_with('\n');
        before = if ends { comment } else { text[..part.start].trim_end_matches([' ', '\t']).len() };
    }
    let comma =
        part.comma.or_else(|| position.checked_sub(1).and_then(|previous| node.parts[previous].comma));
    let comma = comma.map(|comma| comma..comma + 1);
    let mut cuts: Vec<_> = std::iter::once(before..part.node.end).chain(comma).collect();
    cuts.sort_by_key(|cut| std::cmp::Reverse(cut.start));
    let mut edited = text.to_owned();
    let mut length = node.end - node.start;
    for cut in cuts {
        length -= cut.len();
        edited.replace_range(cut, "");
    }
    let inner = node.start + 1..node.start + length - 1;
    if edited[inner.clone()].trim().is_empty() {
        edited.replace_range(inner, "");
    }
    edited
}

fn ambiguous(path: &[String]) -> EditError {
    EditError::Ambiguous { key: path.join(".") }
}
