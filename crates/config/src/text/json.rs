//! JSON text to the tree, by the reader that keeps positions.

use serde_json::Value;

use super::{Diagnostics, MapEntry, Node, NodeValue};
use crate::jsonc::{self, JsonNode, JsonShape, JsonSyntax};

/// Returns the tree of a JSON text, or `None` after reporting the first syntax error.
pub(crate) fn read_json(text: &str, diagnostics: &mut Diagnostics<'_>) -> Option<Node> {
    read(text, JsonSyntax::Strict, diagnostics)
}

/// Returns the tree of a JSON text that may have comments and a comma after the last item.
pub(crate) fn read_commented_json(text: &str, diagnostics: &mut Diagnostics<'_>) -> Option<Node> {
    read(text, JsonSyntax::Commented, diagnostics)
}

fn read(text: &str, syntax: JsonSyntax, diagnostics: &mut Diagnostics<'_>) -> Option<Node> {
    let (at, message) = match jsonc::parse(text, syntax) {
        Ok(tree) if tree.is_nothing() => (tree.end, "expected a value, found the end of the file".to_owned()),
        Ok(tree) => return Some(convert(&tree, text, diagnostics)),
        Err(error) => (error.at, error.message),
    };
    let location = diagnostics.location_of(at);
    diagnostics.error(location, format!("not valid JSON: {message}"));
    None
}

fn convert(tree: &JsonNode, text: &str, diagnostics: &Diagnostics<'_>) -> Node {
    let value = match tree.value_kind {
        JsonShape::Object => {
            let entries = tree.parts.iter().map(|part| MapEntry {
                key: part.key.clone().unwrap_or_default(),
                location: diagnostics.location_of(part.start),
                node: convert(&part.node, text, diagnostics),
            });
            NodeValue::Map(entries.collect())
        }
        JsonShape::Array => {
            NodeValue::List(tree.parts.iter().map(|part| convert(&part.node, text, diagnostics)).collect())
        }
        JsonShape::Scalar | JsonShape::Nothing => match tree.value(text) {
            Value::Bool(truth) => NodeValue::Bool(truth),
            Value::String(text) => NodeValue::String(text),
            Value::Number(number) => match (number.as_i128(), number.as_f64()) {
                (Some(number), _) => NodeValue::Integer(number),
                (None, number) => NodeValue::Float(number.unwrap_or(f64::NAN)),
            },
            Value::Null | Value::Array(_) | Value::Object(_) => NodeValue::Null,
        },
    };
    Node { location: diagnostics.location_of(tree.start), value }
}
