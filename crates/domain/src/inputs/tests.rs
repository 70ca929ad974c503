//! Input values: present, missing, unknown, of the wrong type.

use serde_json::json;

use super::{Inputs, resolve_inputs};
use crate::agent::AgentInput;

fn input(name: &str, kind: &str, required: bool, default: Option<&str>) -> AgentInput {
    AgentInput {
        name: name.to_owned(),
        kind: kind.to_owned(),
        required,
        default: default.map(ToOwned::to_owned),
        description: String::new(),
    }
}

fn declared() -> Vec<AgentInput> {
    vec![
        AgentInput { description: "which one".to_owned(), ..input("branch", "string", true, None) },
        input("depth", "integer", false, Some("3")),
        input("ratio", "number", false, None),
        input("dry_run", "boolean", false, None),
        input("paths", "array", false, None),
    ]
}

fn inputs_of(values: serde_json::Value) -> Inputs {
    serde_json::from_value(values).unwrap()
}

#[test]
fn a_missing_input_has_its_default_or_is_absent() {
    let filled = resolve_inputs(&declared(), inputs_of(json!({"branch": "main", "ratio": null}))).unwrap();
    assert_eq!(filled, inputs_of(json!({"branch": "main", "depth": 3})));
}

#[test]
fn a_text_is_converted_to_the_declared_type() {
    let texts = json!({"branch": "7", "depth": " 12", "ratio": "0.5", "dry_run": "true", "paths": ["a"]});
    let filled = resolve_inputs(&declared(), inputs_of(texts)).unwrap();
    let expected = json!({"branch": "7", "depth": 12, "ratio": 0.5, "dry_run": true, "paths": ["a"]});
    assert_eq!(filled, inputs_of(expected));
}

#[test]
fn all_problems_are_reported_at_once() {
    let wrong = json!({"brunch": "x", "depth": "deep", "ratio": "NaN", "dry_run": 1, "else": 1});
    let problems = resolve_inputs(&declared(), inputs_of(wrong)).unwrap_err();
    assert_eq!(
        problems,
        [
            "there is no input brunch; did you mean branch?",
            "there is no input else, only branch, depth, ratio, dry_run, paths",
            "the input branch is missing: which one",
            "the input depth must be of the type integer, not \"deep\"",
            "the input ratio must be of the type number, not \"NaN\"",
            "the input dry_run must be of the type boolean, not 1",
        ]
    );
    let none = resolve_inputs(&[], inputs_of(json!({"a": 1}))).unwrap_err();
    assert_eq!(none, ["there is no input a: the agent has none"]);
}
