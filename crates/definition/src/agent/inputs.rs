//! What a caller gives beside the prompt: a map from name to type, need, default and description.

use std::collections::BTreeSet;

use domain::agent::Input;
use domain::inputs::{Inputs, KINDS, fill};

use super::setup::take_flag;
use crate::text::{Entry, Fields, Findings, Node, Shape, choice, quoted, text};

/// Takes the inputs of an agent in the order of the file.
pub(super) fn take_inputs(fields: &mut Fields<'_>, findings: &mut Findings<'_>) -> Vec<Input> {
    let Some(node) = fields.take("inputs") else { return Vec::new() };
    let Shape::Map(entries) = &node.shape else {
        let message = format!("inputs: expected names with what each takes, found {}", node.describe());
        findings.error_with_hint(
            node.place,
            message,
            "write a map such as inputs: {branch: {required: true}}",
        );
        return Vec::new();
    };
    let mut inputs: Vec<Input> = Vec::new();
    let mut known = BTreeSet::new();
    for entry in entries {
        if !known.insert(entry.key.as_str()) {
            findings.error(entry.place, format!("the input {} stands twice", quoted(&entry.key)));
        } else if !is_name(&entry.key) {
            let message = format!("inputs: {} is no name", quoted(&entry.key));
            findings.error_with_hint(entry.place, message, "use letters, digits and _, a letter first");
        } else {
            inputs.extend(read_input(entry, findings));
        }
    }
    inputs
}

fn is_name(key: &str) -> bool {
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    key.len() <= 64 && key.starts_with(|first: char| first.is_ascii_alphabetic()) && key.bytes().all(letters)
}

fn read_input(entry: &Entry, findings: &mut Findings<'_>) -> Option<Input> {
    let name = entry.key.clone();
    let mut input =
        Input { name, kind: KINDS[0].to_owned(), required: false, default: None, description: String::new() };
    if entry.node.shape == Shape::Nothing {
        return Some(input);
    }
    let within = format!("inputs.{}", entry.key);
    let mut fields = Fields::open(&entry.node, &within, findings)?;
    let kinds = KINDS.map(|kind| (kind, kind));
    if let Some(node) = fields.take("type") {
        input.kind = choice(node, &fields.name("type"), &kinds, findings)?.to_owned();
    }
    input.required = take_flag(&mut fields, "required", findings);
    if let Some(node) = fields.take("description") {
        input.description = text(node, &fields.name("description"), findings)?;
    }
    if let Some(node) = fields.take("default") {
        input.default = read_default(node, &input, findings);
    }
    fields.close(findings);
    Some(input)
}

/// A default is written as the value that it is, and must be one that a caller could give.
fn read_default(node: &Node, input: &Input, findings: &mut Findings<'_>) -> Option<String> {
    let written = match node.to_json() {
        Some(serde_json::Value::String(text)) => text,
        Some(value) if !value.is_object() && !value.is_array() => value.to_string(),
        Some(_) | None => {
            findings.error(
                node.place,
                format!("inputs.{}.default: expected a value, found {}", input.name, node.describe()),
            );
            return None;
        }
    };
    let with_default = Input { default: Some(written.clone()), ..input.clone() };
    match fill(&[with_default], Inputs::new()) {
        Ok(_) => Some(written),
        Err(problems) => {
            problems.into_iter().for_each(|problem| findings.error(node.place, problem));
            None
        }
    }
}
