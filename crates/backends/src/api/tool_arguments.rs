//! Reads the arguments of a tool call, and says what is wrong with them in words for the model.

use serde_json::Value;

use super::answer::is_shallow;

/// The longest arguments of one call.
pub(super) const BYTES_MAX: usize = 1 << 20;
/// How deep arguments may be nested.
const NESTING_MAX: usize = 60;

/// Parses arguments; the error is for the model.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    if text.len() > BYTES_MAX {
        return Err(too_long());
    }
    match serde_json::from_str::<Value>(text) {
        Ok(value @ Value::Object(_)) if is_shallow(&value, NESTING_MAX) => Ok(value),
        Ok(Value::Object(_)) => Err("the arguments are nested too deeply".to_owned()),
        Ok(_) => Err(no_object()),
        Err(error) if error.is_eof() => Err(cut_off()),
        Err(error) => Err(format!("the arguments are not valid JSON: {error}")),
    }
}

pub(super) fn too_long() -> String {
    format!("the arguments are longer than {} KiB", BYTES_MAX >> 10)
}

pub(super) fn cut_off() -> String {
    "the arguments are incomplete: the answer ended before they did".to_owned()
}

pub(super) fn no_object() -> String {
    "the arguments are not a JSON object".to_owned()
}
