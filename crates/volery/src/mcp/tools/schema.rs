//! Converts a Rust type to a JSON Schema that every client accepts: an object at the root, everything inline, no nulls, no
//! formats. With the schemas of schemars, some clients drop a tool, and others the whole list.

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// Returns the description of an input, which is its doc comment, and its schema.
pub(super) fn input_schema<T: JsonSchema>() -> (String, JsonObject) {
    let mut schema = portable::<T>(SchemaSettings::draft2020_12());
    close(&mut schema);
    let description = schema.remove("description");
    (description.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned(), schema)
}

pub(super) fn output_schema<T: JsonSchema>() -> JsonObject {
    let mut schema = portable::<T>(SchemaSettings::draft2020_12().for_serialize());
    schema.remove("description");
    schema
}

fn portable<T: JsonSchema>(settings: SchemaSettings) -> JsonObject {
    let settings = settings.with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    match schema {
        Value::Object(mut object) => {
            object.entry("properties").or_insert_with(|| Value::Object(JsonObject::new()));
            object
        }
        _ => JsonObject::new(),
    }
}

/// Recursively removes everything that not all clients understand.
fn simplify(value: &mut Value) {
    match value {
        Value::Object(object) => {
            merge_nullable(object);
            object.remove("title");
            object.remove("format");
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            if let Some(Value::Array(choices)) = object.get_mut("enum") {
                choices.retain(|choice| !choice.is_null());
            }
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".into(), only);
                }
            }
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = unwrap_lines(text);
            }
            for (key, inner) in object.iter_mut() {
                // The keys of `properties` are names, not keywords.
                match inner {
                    Value::Object(properties) if key == "properties" => {
                        properties.values_mut().for_each(simplify);
                    }
                    Value::Object(_) | Value::Array(_) => simplify(inner),
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Replaces "type or null" by the type; `required` already says that it is optional.
fn merge_nullable(object: &mut JsonObject) {
    let Some(Value::Array(choices)) = object.get("anyOf") else { return };
    let mut real = choices.iter().filter(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
    let (Some(Value::Object(only)), None) = (real.next().cloned(), real.next()) else { return };
    object.remove("anyOf");
    for (key, value) in only {
        object.entry(key).or_insert(value);
    }
}

/// Forbids additional properties of every object with named ones.
fn close(object: &mut JsonObject) {
    if object.contains_key("properties") {
        object.insert("additionalProperties".into(), Value::Bool(false));
    }
    let properties = object.get_mut("properties").and_then(Value::as_object_mut);
    for inner in properties.into_iter().flat_map(|properties| properties.values_mut()) {
        inner.as_object_mut().into_iter().for_each(close);
    }
    object.get_mut("items").and_then(Value::as_object_mut).into_iter().for_each(close);
}

/// Joins the lines of a paragraph; the line breaks of a doc comment are meaningless for a model.
fn unwrap_lines(text: &str) -> String {
    let paragraphs =
        text.split("\n\n").map(|paragraph| paragraph.split('\n').map(str::trim).collect::<Vec<_>>());
    paragraphs.map(|lines| lines.join(" ")).collect::<Vec<_>>().join("\n\n")
}
