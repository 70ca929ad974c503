//! Validates the arguments of a call, and explains all problems at once so that a model can fix them. Pure.
//!
//! Checks against the schema that the model sees, with the keywords that Volery's schemas use: types, required and unknown
//! names, choices and bounds.

use domain::nearest::nearest;
use rmcp::model::JsonObject;
use serde_json::Value;

/// The most problems that are reported.
const PROBLEMS_MAX: usize = 10;
const VALUE_CHARS_MAX: usize = 60;

/// Removes null members of objects: many models send null for arguments that they leave out.
pub(super) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let present = object.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(present.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => other,
    }
}

/// Returns the problems of a value; none if it matches the schema.
pub(super) fn check(schema: &JsonObject, value: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    check_at("", schema, value, &mut problems);
    problems.truncate(PROBLEMS_MAX);
    problems
}

pub(super) fn explain(tool: &str, problems: &[String]) -> String {
    format!(
        "the arguments of {tool} cannot be used:\n- {}\nCorrect them and call {tool} again",
        problems.join("\n- ")
    )
}

fn check_at(path: &str, schema: &JsonObject, value: &Value, problems: &mut Vec<String>) {
    let expected_type = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    let name = if path.is_empty() { "the arguments" } else { path };
    let fits = match expected_type {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        _ => true,
    };
    if !fits {
        problems.push(format!(
            "{name} must be {}, not {}",
            with_article(expected_type),
            describe_value(value)
        ));
        return;
    }
    match value {
        Value::Object(object) => check_members(path, schema, object, problems),
        Value::Array(items) => {
            if let Some(Value::Object(inner)) = schema.get("items") {
                for (index, item) in items.iter().enumerate() {
                    check_at(&format!("{name}[{index}]"), inner, item, problems);
                }
            }
            check_bound(name, "items", schema, ("minItems", "maxItems"), items.len() as f64, problems);
        }
        Value::String(text) => {
            check_choice(name, schema, value, problems);
            let length = text.chars().count() as f64;
            check_bound(name, "characters", schema, ("minLength", "maxLength"), length, problems);
        }
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::MAX);
            check_bound(name, "", schema, ("minimum", "maximum"), number, problems);
        }
        Value::Null | Value::Bool(_) => {}
    }
}

fn check_members(path: &str, schema: &JsonObject, object: &JsonObject, problems: &mut Vec<String>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    let prefixed = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let required = schema.get("required").and_then(Value::as_array);
    for key in required.into_iter().flatten().filter_map(Value::as_str) {
        if !object.contains_key(key) {
            problems.push(format!("{} is missing", prefixed(key)));
        }
    }
    for (key, value) in object {
        match properties.get(key) {
            Some(Value::Object(inner)) => check_at(&prefixed(key), inner, value, problems),
            Some(_) => {}
            None => problems.push(unknown(&prefixed(&shorten(key)), key, properties)),
        }
    }
}

fn unknown(path: &str, key: &str, properties: &JsonObject) -> String {
    let names = || properties.keys().map(String::as_str);
    match nearest(key, names()) {
        Some(nearest) => format!("{path} is not known; did you mean {nearest}?"),
        None if properties.is_empty() => format!("{path} is not known; there are no arguments"),
        None => format!("{path} is not known; the names are {}", names().collect::<Vec<_>>().join(", ")),
    }
}

fn check_choice(name: &str, schema: &JsonObject, value: &Value, problems: &mut Vec<String>) {
    let Some(choices) = schema.get("enum").and_then(Value::as_array) else { return };
    if !choices.contains(value) {
        let choices = choices.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
        problems.push(format!("{name} must be one of {choices}, not {}", describe_value(value)));
    }
}

fn check_bound(
    name: &str,
    unit: &str,
    schema: &JsonObject,
    (least, most): (&str, &str),
    value: f64,
    problems: &mut Vec<String>,
) {
    let bound = |key| schema.get(key).and_then(Value::as_f64);
    let space = if unit.is_empty() { "" } else { " " };
    if let Some(least) = bound(least).filter(|least| value < *least) {
        problems.push(format!("{name} must be at least {least}{space}{unit}, not {value}"));
    }
    if let Some(most) = bound(most).filter(|most| value > *most) {
        problems.push(format!("{name} must be at most {most}{space}{unit}, not {value}"));
    }
}

fn with_article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {kind}")
}

fn describe_value(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".into(),
        Value::Array(_) => "an array".into(),
        Value::Null => "null".into(),
        Value::String(text) => format!("{:?}", shorten(text)),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(VALUE_CHARS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
