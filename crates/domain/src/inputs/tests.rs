//! Values beside the prompt: given, left out, unknown, of the wrong kind.

use serde_json::json;

use super::{Inputs, fill};
use crate::agent::Input;

fn input(name: &str, kind: &str, required: bool, default: Option<&str>) -> Input {
    Input {
        name: name.to_owned(),
        kind: kind.to_owned(),
        required,
        default: default.map(ToOwned::to_owned),
        description: String::new(),
    }
}

fn wanted() -> Vec<Input> {
    vec![
        Input { description: "which one".to_owned(), ..input("branch", "string", true, None) },
        input("depth", "integer", false, Some("3")),
        input("ratio", "number", false, None),
        input("dry_run", "boolean", false, None),
        input("paths", "array", false, None),
    ]
}

fn given(values: serde_json::Value) -> Inputs {
    serde_json::from_value(values).unwrap()
}

#[test]
fn what_is_left_out_has_its_default_or_is_absent() {
    let filled = fill(&wanted(), given(json!({"branch": "main", "ratio": null}))).unwrap();
    assert_eq!(filled, given(json!({"branch": "main", "depth": 3})));
}

#[test]
fn a_typed_text_stands_for_the_value_that_is_wanted() {
    let typed = json!({"branch": "7", "depth": " 12", "ratio": "0.5", "dry_run": "true", "paths": ["a"]});
    let filled = fill(&wanted(), given(typed)).unwrap();
    let meant = json!({"branch": "7", "depth": 12, "ratio": 0.5, "dry_run": true, "paths": ["a"]});
    assert_eq!(filled, given(meant));
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let wrong = json!({"brunch": "x", "depth": "deep", "ratio": "NaN", "dry_run": 1, "else": 1});
    let problems = fill(&wanted(), given(wrong)).unwrap_err();
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
    let none = fill(&[], given(json!({"a": 1}))).unwrap_err();
    assert_eq!(none, ["there is no input a: the agent has none"]);
}
