//! The values that a caller gives beside the prompt, checked against what the agent's file asks for.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::agent::Input;
use crate::nearest::nearest;

/// Values by the name of their input.
pub type Inputs = BTreeMap<String, Value>;

/// The kinds of values that are checked; a value of any other kind is handed on as it is.
pub const KINDS: [&str; 4] = ["string", "integer", "number", "boolean"];

/// Returns the given values with the defaults of those left out, each of the kind that was asked for; else everything
/// that is wrong. What was typed as a text may stand for a number or a truth.
pub fn fill(wanted: &[Input], given: Inputs) -> Result<Inputs, Vec<String>> {
    let mut problems = Vec::new();
    for name in given.keys().filter(|name| !wanted.iter().any(|input| input.name == **name)) {
        problems.push(unknown(wanted, name));
    }
    let mut filled = Inputs::new();
    for input in wanted {
        let default = || input.default.clone().map(Value::String);
        match given.get(&input.name).filter(|value| !value.is_null()).cloned().or_else(default) {
            Some(value) => match of_kind(&input.kind, value) {
                Ok(value) => {
                    filled.insert(input.name.clone(), value);
                }
                Err(value) => {
                    problems.push(format!(
                        "the input {} must be of the type {}, not {value}",
                        input.name, input.kind
                    ));
                }
            },
            None if input.required => {
                problems.push(format!("the input {} is missing{}", input.name, about(input)))
            }
            None => {}
        }
    }
    if problems.is_empty() { Ok(filled) } else { Err(problems) }
}

fn unknown(wanted: &[Input], name: &str) -> String {
    let names: Vec<&str> = wanted.iter().map(|input| input.name.as_str()).collect();
    match (nearest(name, names.iter().copied()), names.is_empty()) {
        (_, true) => format!("there is no input {name}: the agent has none"),
        (Some(near), false) => format!("there is no input {name}; did you mean {near}?"),
        (None, false) => format!("there is no input {name}, only {}", names.join(", ")),
    }
}

fn about(input: &Input) -> String {
    if input.description.is_empty() { String::new() } else { format!(": {}", input.description) }
}

/// Returns the value as one of this kind, or as it was if it is none.
fn of_kind(kind: &str, value: Value) -> Result<Value, Value> {
    let typed = value.as_str().map(str::trim).unwrap_or_default();
    let converted = match kind {
        "string" => value.is_string().then(|| value.clone()),
        "boolean" if value.is_boolean() => Some(value.clone()),
        "boolean" => typed.parse::<bool>().ok().map(Value::Bool),
        "integer" if value.is_i64() || value.is_u64() => Some(value.clone()),
        "integer" => typed.parse::<i64>().ok().map(Value::from),
        "number" if value.is_number() => Some(value.clone()),
        "number" => typed.parse::<f64>().ok().and_then(serde_json::Number::from_f64).map(Value::Number),
        _ => Some(value.clone()),
    };
    converted.ok_or(value)
}

#[cfg(test)]
mod tests;
