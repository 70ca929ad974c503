//! The values that a caller passes in addition to the prompt, checked against the inputs that the agent declares.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::agent::AgentInput;
use crate::nearest::nearest;

/// Values by the name of their input.
pub type Inputs = BTreeMap<String, Value>;

/// The types of values that are checked; a value of any other type is passed on unchanged.
pub const KINDS: [&str; 4] = ["string", "integer", "number", "boolean"];

/// Returns the values converted to their declared types, with the defaults of missing ones; otherwise all problems. A
/// text is accepted for a number or a boolean.
pub fn resolve_inputs(declared: &[AgentInput], values: Inputs) -> Result<Inputs, Vec<String>> {
    let mut problems = Vec::new();
    for name in values.keys().filter(|name| !declared.iter().any(|input| input.name == **name)) {
        problems.push(unknown_input_message(declared, name));
    }
    let mut filled = Inputs::new();
    for input in declared {
        let default = || input.default.clone().map(Value::String);
        match values.get(&input.name).filter(|value| !value.is_null()).cloned().or_else(default) {
            Some(value) => match convert_to_kind(&input.kind, value) {
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
                problems.push(format!("the input {} is missing{}", input.name, description_suffix(input)))
            }
            None => {}
        }
    }
    if problems.is_empty() { Ok(filled) } else { Err(problems) }
}

fn unknown_input_message(declared: &[AgentInput], name: &str) -> String {
    let names: Vec<&str> = declared.iter().map(|input| input.name.as_str()).collect();
    match (nearest(name, names.iter().copied()), names.is_empty()) {
        (_, true) => format!("there is no input {name}: the agent has none"),
        (Some(near), false) => format!("there is no input {name}; did you mean {near}?"),
        (None, false) => format!("there is no input {name}, only {}", names.join(", ")),
    }
}

fn description_suffix(input: &AgentInput) -> String {
    if input.description.is_empty() { String::new() } else { format!(": {}", input.description) }
}

/// Converts the value to this type; returns the value itself if that is not possible.
fn convert_to_kind(kind: &str, value: Value) -> Result<Value, Value> {
    let text = value.as_str().map(str::trim).unwrap_or_default();
    let converted = match kind {
        "string" => value.is_string().then(|| value.clone()),
        "boolean" if value.is_boolean() => Some(value.clone()),
        "boolean" => text.parse::<bool>().ok().map(Value::Bool),
        "integer" if value.is_i64() || value.is_u64() => Some(value.clone()),
        "integer" => text.parse::<i64>().ok().map(Value::from),
        "number" if value.is_number() => Some(value.clone()),
        "number" => text.parse::<f64>().ok().and_then(serde_json::Number::from_f64).map(Value::Number),
        _ => Some(value.clone()),
    };
    converted.ok_or(value)
}

#[cfg(test)]
mod tests;
