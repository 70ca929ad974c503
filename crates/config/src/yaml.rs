//! Converts a YAML text of another program to a JSON value.

use serde_json::{Map, Value};

use crate::text::{Node, NodeValue, strict_yaml_or_error};

/// Why a text has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct YamlError {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

/// Returns the value of a text: an object, or null for a text without a value. A duplicate key is an error, as in
/// most YAML readers.
pub fn to_json(text: &str) -> Result<Value, YamlError> {
    // The reader stops at the end of the first document, so more of them would be lost in silence.
    if let Some(line) = text.lines().skip_while(|line| is_preamble(line)).position(is_marker) {
        let before = text.lines().take_while(|line| is_preamble(line)).count();
        let message = "more than one document".to_owned();
        return Err(YamlError { line: before + line + 1, column: 1, message });
    }
    to_value(&strict_yaml_or_error(text)?)
}

fn is_preamble(line: &str) -> bool {
    let line = line.trim_end();
    line.is_empty() || line.starts_with('#') || line.starts_with('%') || line.starts_with("---")
}

fn is_marker(line: &str) -> bool {
    let line = line.trim_end();
    ["---", "..."].iter().any(|marker| line == *marker || line.starts_with(&format!("{marker} ")))
}

fn to_value(node: &Node) -> Result<Value, YamlError> {
    Ok(match &node.value {
        NodeValue::List(items) => Value::Array(items.iter().map(to_value).collect::<Result<_, _>>()?),
        NodeValue::Map(entries) => {
            let mut map = Map::new();
            for entry in entries {
                if map.insert(entry.key.clone(), to_value(&entry.node)?).is_some() {
                    return Err(YamlError {
                        line: entry.location.line as usize,
                        column: entry.location.column as usize,
                        message: format!("the key {} occurs twice", entry.key),
                    });
                }
            }
            Value::Object(map)
        }
        NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::String(_)
        | NodeValue::DateTime => node.to_json().ok_or_else(|| YamlError {
            line: node.location.line as usize,
            column: node.location.column as usize,
            message: "a number that is too large".to_owned(),
        })?,
    })
}
