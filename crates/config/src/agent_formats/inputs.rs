//! The declared inputs of an agent: a map from name to type, default and description.

use std::collections::BTreeSet;

use domain::agent::AgentInput;
use domain::inputs::{Inputs, KINDS, resolve_inputs};

use super::setup::take_flag;
use crate::text::{Diagnostics, Fields, MapEntry, Node, NodeValue, quote, read_choice, read_text};

/// Takes the inputs of an agent in the order of the file.
pub(super) fn take_inputs(fields: &mut Fields<'_>, diagnostics: &mut Diagnostics<'_>) -> Vec<AgentInput> {
    let Some(node) = fields.take("inputs") else { return Vec::new() };
    let NodeValue::Map(entries) = &node.value else {
        let message = format!("inputs: expected names with what each takes, found {}", node.describe());
        diagnostics.error_with_hint(
            node.location,
            message,
            "write a map such as inputs: {branch: {required: true}}",
        );
        return Vec::new();
    };
    let mut inputs: Vec<AgentInput> = Vec::new();
    let mut known = BTreeSet::new();
    for entry in entries {
        if !known.insert(entry.key.as_str()) {
            diagnostics.error(entry.location, format!("the input {} stands twice", quote(&entry.key)));
        } else if !is_name(&entry.key) {
            let message = format!("inputs: {} is no name", quote(&entry.key));
            diagnostics.error_with_hint(entry.location, message, "use letters, digits and _, a letter first");
        } else {
            inputs.extend(read_input(entry, diagnostics));
        }
    }
    inputs
}

fn is_name(key: &str) -> bool {
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    key.len() <= 64 && key.starts_with(|first: char| first.is_ascii_alphabetic()) && key.bytes().all(letters)
}

fn read_input(entry: &MapEntry, diagnostics: &mut Diagnostics<'_>) -> Option<AgentInput> {
    let name = entry.key.clone();
    let mut input = AgentInput {
        name,
        kind: KINDS[0].to_owned(),
        required: false,
        default: None,
        description: String::new(),
    };
    if entry.node.value == NodeValue::Null {
        return Some(input);
    }
    let within = format!("inputs.{}", entry.key);
    let mut fields = Fields::open(&entry.node, &within, diagnostics)?;
    let kinds = KINDS.map(|kind| (kind, kind));
    if let Some(node) = fields.take("type") {
        input.kind = read_choice(node, &fields.name("type"), &kinds, diagnostics)?.to_owned();
    }
    input.required = take_flag(&mut fields, "required", diagnostics);
    if let Some(node) = fields.take("description") {
        input.description = read_text(node, &fields.name("description"), diagnostics)?;
    }
    if let Some(node) = fields.take("default") {
        input.default = read_default(node, &input, diagnostics);
    }
    fields.close(diagnostics);
    Some(input)
}

/// Reads a default, which must be a valid value of the input.
fn read_default(node: &Node, input: &AgentInput, diagnostics: &mut Diagnostics<'_>) -> Option<String> {
    let default = match node.to_json() {
        Some(serde_json::Value::String(text)) => text,
        Some(value) if !value.is_object() && !value.is_array() => value.to_string(),
        Some(_) | None => {
            diagnostics.error(
                node.location,
                format!("inputs.{}.default: expected a value, found {}", input.name, node.describe()),
            );
            return None;
        }
    };
    let with_default = AgentInput { default: Some(default.clone()), ..input.clone() };
    match resolve_inputs(&[with_default], Inputs::new()) {
        Ok(_) => Some(default),
        Err(problems) => {
            problems.into_iter().for_each(|problem| diagnostics.error(node.location, problem));
            None
        }
    }
}
