//! Extracts a value of the requested format from a text, or reports what is wrong.

use serde_json::Value;

use super::Schema;
use super::extract::{pieces, without_thoughts};

/// The longest text that is searched.
const TEXT_BYTES_MAX: usize = 4 << 20;
/// The longest value, and its greatest depth: the record of a run contains it in one line.
const VALUE_BYTES_MAX: usize = 512 << 10;
const VALUE_DEPTH_MAX: usize = 48;
/// The longest text that is repaired, and the most repairs.
const REPAIR_BYTES_MAX: usize = 256 << 10;
const REPAIRS_MAX: usize = 4;

/// The requested format of an answer.
#[derive(Debug)]
pub enum AnswerFormat {
    /// Any object or list.
    Json,
    Schema(Schema),
}

/// A valid value.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtractedValue {
    pub value: Value,
    /// It was not quite valid JSON and was repaired.
    pub repaired: bool,
}

/// The reasons why there is no such value, as lines for the agent that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidAnswer {
    pub errors: Vec<String>,
}

/// Finds the first valid value in a text.
pub fn extract_value(text: &str, format: &AnswerFormat) -> Result<ExtractedValue, InvalidAnswer> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("the answer has {} bytes, and {TEXT_BYTES_MAX} are looked into", text.len());
        return Err(InvalidAnswer::one(message));
    }
    let (mut first, mut broken) = (None, Vec::new());
    // All of the text first, in case the value itself contains the mark for the end of reasoning.
    let whole = std::iter::once(text.trim());
    for piece in whole.chain(pieces(without_thoughts(text))) {
        match serde_json::from_str(piece) {
            Ok(value) => match validate(value, format) {
                Ok(value) => return Ok(ExtractedValue { value, repaired: false }),
                Err(unfit) => first = first.or(Some(unfit)),
            },
            Err(error) => broken.push((piece, error)),
        }
    }
    for (piece, _) in broken.iter().filter(|(piece, _)| is_repairable(piece)).take(REPAIRS_MAX) {
        let Some(value) = repair(piece) else { continue };
        match validate(value, format) {
            Ok(value) => return Ok(ExtractedValue { value, repaired: true }),
            Err(unfit) => first = first.or(Some(unfit)),
        }
    }
    Err(first.unwrap_or_else(|| no_value(text, &broken)))
}

/// Validates a value from elsewhere, even if its source claims to have validated it.
pub fn validate(value: Value, format: &AnswerFormat) -> Result<Value, InvalidAnswer> {
    if nesting(&value, VALUE_DEPTH_MAX + 1) > VALUE_DEPTH_MAX {
        let message = format!("the value is nested deeper than {VALUE_DEPTH_MAX} levels");
        return Err(InvalidAnswer::one(message));
    }
    let bytes = value.to_string().len();
    if bytes > VALUE_BYTES_MAX {
        let message = format!("the value has {bytes} bytes as JSON, and {VALUE_BYTES_MAX} are taken");
        return Err(InvalidAnswer::one(message));
    }
    let errors = match format {
        AnswerFormat::Json if value.is_object() || value.is_array() => Vec::new(),
        AnswerFormat::Json => vec!["the value: it is neither an object nor a list".to_owned()],
        AnswerFormat::Schema(schema) => schema.errors(&value),
    };
    if errors.is_empty() { Ok(value) } else { Err(InvalidAnswer { errors }) }
}

impl InvalidAnswer {
    fn one(error: String) -> Self {
        Self { errors: vec![error] }
    }
}

/// Repair would turn prose into a text, so only objects and lists are repaired.
fn is_repairable(piece: &str) -> bool {
    piece.len() <= REPAIR_BYTES_MAX && piece.starts_with(['{', '['])
}

fn repair(piece: &str) -> Option<Value> {
    let mended = jsonrepair_rs::jsonrepair(piece).ok()?;
    let value: Value = serde_json::from_str(&mended).ok()?;
    (value.is_object() || value.is_array()).then_some(value)
}

fn no_value(text: &str, broken: &[(&str, serde_json::Error)]) -> InvalidAnswer {
    if text.trim().is_empty() {
        return InvalidAnswer::one("the answer is empty".to_owned());
    }
    let likely = broken.iter().find(|(piece, _)| piece.starts_with(['{', '[']));
    InvalidAnswer::one(match likely {
        Some((_, error)) => format!("the answer holds no JSON value that can be read: {error}"),
        None => "the answer is in words and holds no JSON value".to_owned(),
    })
}

/// Returns the nesting depth of a value, 0 for a scalar; counts no further than `most`.
pub(super) fn nesting(value: &Value, most: usize) -> usize {
    let deepest = |below: Option<usize>| 1 + below.unwrap_or(0);
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        Value::Array(_) | Value::Object(_) if most <= 1 => 1,
        Value::Array(items) => deepest(items.iter().map(|item| nesting(item, most - 1)).max()),
        Value::Object(members) => deepest(members.values().map(|item| nesting(item, most - 1)).max()),
    }
}
