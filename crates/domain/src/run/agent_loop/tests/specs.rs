//! The tools as models see them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::conversation::ToolSpec;
use crate::directive::DirectiveOutput;
use crate::run::CallClass;
use crate::run::agent_loop::{LoopTool, tool_specs};

fn spec(specs: &[ToolSpec], name: &str) -> Value {
    specs.iter().find(|spec| spec.name == name).unwrap().input_schema.clone()
}

#[test]
fn every_tool_has_a_valid_name_and_texts() {
    let mut names = BTreeSet::new();
    for (tool, spec) in LoopTool::ALL.into_iter().zip(tool_specs(&LoopTool::ALL, &[])) {
        assert_eq!(spec.name, tool.model_name());
        assert!((1..=64).contains(&spec.name.len()));
        assert!(spec.name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter)));
        assert_eq!(LoopTool::from_name(&spec.name), Some(tool));
        assert_eq!(LoopTool::from_name(tool.name()), Some(tool));
        assert!(spec.description.len() > 20, "{}", spec.name);
        let properties = spec.input_schema["properties"].as_object().unwrap();
        assert!(properties.values().all(|schema| schema["description"].is_string()), "{}", spec.name);
        for required in spec.input_schema["required"].as_array().into_iter().flatten() {
            assert!(properties.contains_key(required.as_str().unwrap()), "{}", spec.name);
        }
        names.insert(spec.name);
    }
    assert_eq!(names.len(), LoopTool::ALL.len());
    let texts: Value = serde_json::from_str(include_str!("../tools.json")).unwrap();
    assert_eq!(texts.as_object().unwrap().len(), LoopTool::ALL.len());
}

#[test]
fn the_order_of_the_tools_does_not_depend_on_the_directive() {
    let one = tool_specs(&[LoopTool::Finish, LoopTool::ReadFile], &[]);
    let other = tool_specs(&[LoopTool::ReadFile, LoopTool::Finish, LoopTool::Finish], &[]);
    assert_eq!(one, other);
    assert_eq!(one.iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>(), ["filesystem_read", "finish"]);
}

#[test]
fn the_result_has_the_form_of_the_outputs() {
    let output = |name: &str, kind: &str, is_required, schema| DirectiveOutput {
        name: name.to_owned(),
        kind: kind.to_owned(),
        is_required,
        description: format!("the {name}"),
        schema,
    };
    let outputs = [
        output("count", "integer", true, Some(json!({"minimum": 0, "type": "string"}))),
        output("notes", "text", false, None),
    ];
    let schema = spec(&tool_specs(&LoopTool::ALL, &outputs), "finish");
    let expected = json!({
        "type": "object",
        "properties": {
            "count": {"type": "integer", "description": "the count", "minimum": 0},
            "notes": {"description": "the notes"},
        },
        "required": ["count"],
    });
    assert_eq!(schema["properties"]["result"]["anyOf"][0], expected);
    // A failure has no outputs, but a reason.
    assert_eq!(schema["properties"]["result"]["anyOf"][1]["type"], "string");
    let plain = spec(&tool_specs(&LoopTool::ALL, &[]), "finish");
    assert_eq!(plain["properties"]["result"]["type"], "string");
}

#[test]
fn only_a_command_is_not_repeated() {
    for tool in LoopTool::ALL {
        let expected = match tool.name() {
            "shell.run" => CallClass::Effect,
            "filesystem.write" | "filesystem.edit" => CallClass::Idempotent,
            _ => CallClass::Pure,
        };
        assert_eq!(tool.class(), expected, "{}", tool.name());
    }
}
