//! From a text to a value of the shape that was asked for, or to what is wrong with it.

use serde_json::Value;

use super::Schema;
use super::extract::{pieces, without_thoughts};

/// The longest text that is looked into.
const TEXT_BYTES_MAX: usize = 4 << 20;
/// The longest value, and how deep it may be: the record of a run holds it in one line.
const VALUE_BYTES_MAX: usize = 512 << 10;
const VALUE_DEPTH_MAX: usize = 48;
/// The longest piece of text whose spelling is mended, and how many are.
const REPAIR_BYTES_MAX: usize = 256 << 10;
const REPAIRS_MAX: usize = 4;

/// What is asked of an answer.
#[derive(Debug)]
pub enum Shape {
    /// One object or list, whatever is in it.
    Json,
    Schema(Schema),
}

/// A value of the right shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub value: Value,
    /// It was not quite JSON, and its spelling was mended.
    pub repaired: bool,
}

/// Why there is no such value, in lines for whoever answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    pub errors: Vec<String>,
}

/// Finds the value of the right shape in a text.
pub fn read(text: &str, shape: &Shape) -> Result<Found, Unfit> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("the answer has {} bytes, and {TEXT_BYTES_MAX} are looked into", text.len());
        return Err(Unfit::one(message));
    }
    let (mut first, mut broken) = (None, Vec::new());
    // All of the text first, in case that what looks like the end of thoughts is part of the value.
    let whole = std::iter::once(text.trim());
    for piece in whole.chain(pieces(without_thoughts(text))) {
        match serde_json::from_str(piece) {
            Ok(value) => match check(value, shape) {
                Ok(value) => return Ok(Found { value, repaired: false }),
                Err(unfit) => first = first.or(Some(unfit)),
            },
            Err(error) => broken.push((piece, error)),
        }
    }
    for (piece, _) in broken.iter().filter(|(piece, _)| is_repairable(piece)).take(REPAIRS_MAX) {
        let Some(value) = repair(piece) else { continue };
        match check(value, shape) {
            Ok(value) => return Ok(Found { value, repaired: true }),
            Err(unfit) => first = first.or(Some(unfit)),
        }
    }
    Err(first.unwrap_or_else(|| no_value(text, &broken)))
}

/// Checks a value that somebody else made, and perhaps calls checked already.
pub fn check(value: Value, shape: &Shape) -> Result<Value, Unfit> {
    if nesting(&value, VALUE_DEPTH_MAX + 1) > VALUE_DEPTH_MAX {
        let message = format!("the value is nested deeper than {VALUE_DEPTH_MAX} levels");
        return Err(Unfit::one(message));
    }
    let bytes = value.to_string().len();
    if bytes > VALUE_BYTES_MAX {
        let message = format!("the value has {bytes} bytes as JSON, and {VALUE_BYTES_MAX} are taken");
        return Err(Unfit::one(message));
    }
    let errors = match shape {
        Shape::Json if value.is_object() || value.is_array() => Vec::new(),
        Shape::Json => vec!["the value: it is neither an object nor a list".to_owned()],
        Shape::Schema(schema) => schema.errors(&value),
    };
    if errors.is_empty() { Ok(value) } else { Err(Unfit { errors }) }
}

impl Unfit {
    fn one(error: String) -> Self {
        Self { errors: vec![error] }
    }
}

/// Prose would be mended into a text, so what is no object and no list is left alone.
fn is_repairable(piece: &str) -> bool {
    piece.len() <= REPAIR_BYTES_MAX && piece.starts_with(['{', '['])
}

fn repair(piece: &str) -> Option<Value> {
    let mended = jsonrepair_rs::jsonrepair(piece).ok()?;
    let value: Value = serde_json::from_str(&mended).ok()?;
    (value.is_object() || value.is_array()).then_some(value)
}

fn no_value(text: &str, broken: &[(&str, serde_json::Error)]) -> Unfit {
    if text.trim().is_empty() {
        return Unfit::one("the answer is empty".to_owned());
    }
    let likely = broken.iter().find(|(piece, _)| piece.starts_with(['{', '[']));
    Unfit::one(match likely {
        Some((_, error)) => format!("the answer holds no JSON value that can be read: {error}"),
        None => "the answer is in words and holds no JSON value".to_owned(),
    })
}

/// Returns how deep a value is nested, 0 for a plain one; counts no further than `most`.
pub(super) fn nesting(value: &Value, most: usize) -> usize {
    let deepest = |below: Option<usize>| 1 + below.unwrap_or(0);
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        Value::Array(_) | Value::Object(_) if most <= 1 => 1,
        Value::Array(items) => deepest(items.iter().map(|item| nesting(item, most - 1)).max()),
        Value::Object(members) => deepest(members.values().map(|item| nesting(item, most - 1)).max()),
    }
}
