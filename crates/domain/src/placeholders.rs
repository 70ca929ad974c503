//! Fills the placeholders of a directive's text with the values of its inputs. Everything else in braces is left alone:
//! texts contain JSON, code and templates for files.

use std::collections::BTreeMap;

use serde_json::Value;

/// Values by the name of their input.
type Inputs = BTreeMap<String, Value>;

/// The longest text between braces that can be a placeholder.
const PLACEHOLDER_BYTES_MAX: usize = 1_024;

/// Returns the text with its placeholders filled, and the names of inputs without a value, in the order of the text.
///
/// | placeholder | without a value |
/// |---|---|
/// | `{input:x}`, `${inputs.x}`, `${json(inputs.x)}` | stays, and is reported |
/// | `{input:x?}` | empty |
/// | `{input:x:d}`, `{input:x\|d}`, `${inputs.x ?? 'd'}` | `d` |
/// | `${exists(inputs.x)}` | `false` |
/// | `{x}` | stays: it may be part of a template |
///
/// Braces in a value are not filled again.
pub fn fill_placeholders(text: &str, inputs: &BTreeMap<String, Value>) -> (String, Vec<String>) {
    let mut filled = String::with_capacity(text.len());
    let mut unfilled: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let is_expression = rest[..at].ends_with('$');
        let start = if is_expression { at - 1 } else { at };
        let inside = content(&rest[at + 1..]);
        let outcome = inside.map_or(Filling::Other, |inside| match is_expression {
            true => fill_expression(inside, inputs),
            false => fill_input(inside, inputs),
        });
        let length = inside.map_or(0, |inside| inside.len() + 1);
        match outcome {
            Filling::Value(value) => {
                filled.push_str(&rest[..start]);
                filled.push_str(&value);
                rest = &rest[at + 1 + length..];
            }
            Filling::Missing(name) => {
                if !unfilled.contains(&name) {
                    unfilled.push(name);
                }
                filled.push_str(&rest[..at + 1 + length]);
                rest = &rest[at + 1 + length..];
            }
            Filling::Other => {
                filled.push_str(&rest[..at + 1]);
                rest = &rest[at + 1..];
            }
        }
    }
    filled.push_str(rest);
    (filled, unfilled)
}

/// What becomes of one pair of braces.
enum Filling {
    Value(String),
    /// The placeholder of an input without a value.
    Missing(String),
    /// It is not a placeholder.
    Other,
}

/// Returns the text up to the closing brace, if it can be a placeholder.
fn content(text: &str) -> Option<&str> {
    let window = crate::size::head(text, PLACEHOLDER_BYTES_MAX);
    let end = window.find(['{', '}', '\n'])?;
    window[end..].starts_with('}').then(|| &window[..end])
}

/// Fills `{input:x}`, `{input:x?}`, `{input:x:default}`, `{input:x|default}` and `{x}`.
fn fill_input(inside: &str, inputs: &Inputs) -> Filling {
    let Some(reference) = inside.strip_prefix("input:") else {
        return inputs.get(inside).filter(|value| !value.is_null()).map_or(Filling::Other, shown_value);
    };
    let name_end = reference.find(|letter: char| !is_name_character(letter)).unwrap_or(reference.len());
    let (name, suffix) = reference.split_at(name_end);
    if name.is_empty() {
        return Filling::Other;
    }
    if let Some(value) = inputs.get(name).filter(|value| !value.is_null()) {
        return if suffix.is_empty() || suffix.starts_with(['?', ':', '|']) {
            shown_value(value)
        } else {
            Filling::Other
        };
    }
    match suffix.chars().next() {
        None => Filling::Missing(name.to_owned()),
        Some('?') if suffix.len() == 1 => Filling::Value(String::new()),
        Some(':' | '|') => Filling::Value(suffix[1..].to_owned()),
        Some(_) => Filling::Other,
    }
}

/// Fills the expressions of RyeOS that only use inputs.
fn fill_expression(inside: &str, inputs: &Inputs) -> Filling {
    let inside = inside.trim();
    let call = |function: &str| inside.strip_prefix(function)?.strip_prefix('(')?.strip_suffix(')');
    if let Some(name) = call("exists").and_then(input_name) {
        let exists = inputs.get(name).is_some_and(|value| !value.is_null());
        return Filling::Value(exists.to_string());
    }
    let expression = call("json");
    let show: fn(&Value) -> Filling = if expression.is_some() { json_value } else { shown_value };
    let mut missing = None;
    for alternative in split_alternatives(expression.unwrap_or(inside)) {
        let alternative = alternative.trim();
        match input_name(alternative) {
            Some(name) => match inputs.get(name).filter(|value| !value.is_null()) {
                Some(value) => return show(value),
                None => missing = missing.or(Some(name)),
            },
            None if missing.is_some() => match literal(alternative) {
                Some(value) => return show(&value),
                None => return Filling::Other,
            },
            None => return Filling::Other,
        }
    }
    missing.map_or(Filling::Other, |name| Filling::Missing(name.to_owned()))
}

/// Splits `a ?? b || c` outside of quotation marks.
fn split_alternatives(expression: &str) -> Vec<&str> {
    let bytes = expression.as_bytes();
    let mut parts = Vec::new();
    let (mut start, mut at, mut quote) = (0, 0, None);
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (None, mark @ (b'\'' | b'"')) => quote = Some(mark),
            (Some(open), mark) if open == mark => quote = None,
            (None, b'?' | b'|') if bytes.get(at + 1) == Some(&bytes[at]) => {
                parts.push(&expression[start..at]);
                at += 1;
                start = at + 1;
            }
            (None | Some(_), _) => {}
        }
        at += 1;
    }
    parts.push(&expression[start..]);
    parts
}

/// Returns the name in `inputs.x`.
fn input_name(expression: &str) -> Option<&str> {
    let name = expression.trim().strip_prefix("inputs.")?;
    (!name.is_empty() && name.chars().all(is_name_character)).then_some(name)
}

/// Returns the value of a literal: a text in single quotes, or JSON.
fn literal(text: &str) -> Option<Value> {
    match text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        Some(text) => Some(Value::from(text)),
        None => serde_json::from_str(text).ok(),
    }
}

fn is_name_character(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '-')
}

/// Returns a text unchanged, nothing for null, and other values as JSON.
fn shown_value(value: &Value) -> Filling {
    Filling::Value(match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    })
}

fn json_value(value: &Value) -> Filling {
    Filling::Value(value.to_string())
}

#[cfg(test)]
mod tests;
