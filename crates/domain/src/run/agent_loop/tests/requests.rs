//! Calls of tools as models write them.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::conversation::ToolArguments;
use crate::policy::{ExecCommand, Use, UsePath};
use crate::run::agent_loop::{
    CommandLineError, FinishStatus, LoopTool, SearchRequest, ToolRequest, ToolRequestError,
    parse_tool_request,
};

fn parse(name: &str, arguments: Value) -> Result<ToolRequest, ToolRequestError> {
    parse_tool_request(name, &ToolArguments::Parsed(arguments), &LoopTool::ALL)
}

fn refusal(name: &str, arguments: Value) -> String {
    parse(name, arguments).unwrap_err().to_string()
}

#[test]
fn each_tool_is_read() {
    let path = || "a/b".to_owned();
    let cases = [
        (
            "filesystem_read",
            json!({"path": "a/b", "offset": 3, "limit": 10}),
            ToolRequest::ReadFile { path: path(), offset: Some(3), limit: Some(10) },
        ),
        (
            "filesystem.read",
            json!({"path": "a/b", "offset": null}),
            ToolRequest::ReadFile { path: path(), offset: None, limit: None },
        ),
        (
            "filesystem_write",
            json!({"path": "a/b", "content": ""}),
            ToolRequest::WriteFile { path: path(), content: String::new() },
        ),
        (
            "filesystem_edit",
            json!({"path": "a/b", "old_text": "x", "new_text": "", "replace_all": true}),
            ToolRequest::EditFile {
                path: path(),
                old_text: "x".to_owned(),
                new_text: String::new(),
                replace_all: true,
            },
        ),
        ("filesystem_list", Value::Null, ToolRequest::ListDirectory { path: ".".to_owned() }),
        ("filesystem_list", json!({"path": ""}), ToolRequest::ListDirectory { path: ".".to_owned() }),
        (
            "filesystem_search",
            json!({"pattern": "x.*", "glob": "*.rs", "ignore_case": true, "limit": 5}),
            ToolRequest::SearchFiles(SearchRequest {
                pattern: "x.*".to_owned(),
                is_literal: false,
                ignore_case: true,
                path: ".".to_owned(),
                glob: Some("*.rs".to_owned()),
                limit: Some(5),
            }),
        ),
        (
            "shell_run",
            json!({"command": ["git", "log", 1], "timeout_s": 5}),
            ToolRequest::RunCommand {
                words: ["git", "log", "1"].map(ToOwned::to_owned).to_vec(),
                timeout_s: Some(5),
            },
        ),
        ("read_output", json!({"call": 7}), ToolRequest::ReadOutput { call: 7, offset: 0 }),
        ("report_step", json!({"name": "build"}), ToolRequest::ReportStep { name: "build".to_owned() }),
        (
            "finish",
            json!({"status": "success", "result": {"a": 1}}),
            ToolRequest::Finish { status: FinishStatus::Success, result: json!({"a": 1}) },
        ),
        (
            "finish",
            json!({"status": "Failure", "result": "no"}),
            ToolRequest::Finish { status: FinishStatus::Failure, result: json!("no") },
        ),
    ];
    for (name, arguments, expected) in cases {
        let request = parse(name, arguments).unwrap();
        assert_eq!(request, expected);
        assert_eq!(LoopTool::from_name(name), Some(request.tool()));
    }
}

#[test]
fn a_slip_that_has_one_meaning_is_accepted() {
    let expected = parse("filesystem_read", json!({"path": "a", "offset": 2})).unwrap();
    for arguments in [
        json!({"path": "a", "offset": "2"}),
        json!({"path": "a", "offset": 2.0}),
        json!({"path": "a", "offset": " 2 ", "mode": null}),
        json!("{\"path\": \"a\", \"offset\": 2}"),
    ] {
        assert_eq!(parse("filesystem_read", arguments.clone()).unwrap(), expected, "{arguments}");
    }
    let words = parse("shell_run", json!({"command": ["git", "log", "a b"]})).unwrap();
    for command in ["git log 'a b'", "[\"git\", \"log\", \"a b\"]"] {
        assert_eq!(parse("shell_run", json!({"command": command})).unwrap(), words, "{command}");
    }
    let flag = json!({"path": "a", "old_text": "x", "new_text": "y", "replace_all": "True"});
    assert!(matches!(parse("filesystem_edit", flag), Ok(ToolRequest::EditFile { replace_all: true, .. })));
}

#[test]
fn a_wrong_call_gets_an_error_that_the_model_can_act_on() {
    let refusals = [
        refusal("filesystem_read", json!({})),
        refusal("filesystem_read", json!({"path": 5})),
        refusal("filesystem_read", json!({"path": ""})),
        refusal("filesystem_read", json!({"path": "a\0b"})),
        refusal("filesystem_read", json!({"path": "a", "offset": 0})),
        refusal("filesystem_read", json!({"path": "a", "offset": -1.5})),
        refusal("filesystem_read", json!({"path": "a", "encoding": "x"})),
        refusal("filesystem_write", json!({"path": "a", "content": {"x": 1}})),
        refusal("filesystem_edit", json!({"path": "a", "old_text": "", "new_text": "x"})),
        refusal("filesystem_edit", json!({"path": "a", "old_text": "a", "new_text": "x", "replace_all": 1})),
        refusal("shell_run", json!({"command": true})),
        refusal("shell_run", json!({"command": ["git", ["log"]]})),
        refusal("read_output", json!({"call": "last"})),
        refusal("finish", json!({"status": "done", "result": ""})),
        refusal("finish", json!({"status": "success"})),
        refusal("finish", json!([1])),
    ];
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    filesystem_read needs the argument `path`
    the argument `path` of filesystem_read must be a text, but is the number 5
    the argument `path` of filesystem_read is empty or contains a NUL character
    the argument `path` of filesystem_read is empty or contains a NUL character
    the argument `offset` of filesystem_read must be a whole number, at least 1, but is the number 0
    the argument `offset` of filesystem_read must be a whole number, at least 1, but is the number -1.5
    filesystem_read has no argument "encoding"; its arguments are: path, offset, limit
    the argument `content` of filesystem_write must be a text, but is an object
    the argument `old_text` of filesystem_edit is empty or contains a NUL character
    the argument `replace_all` of filesystem_edit must be true or false, but is the number 1
    the argument `command` of shell_run must be a list of words, but is true
    the argument `command` of shell_run must be a list of texts, but is a list
    the argument `call` of read_output must be a whole number, at least 0, but is the text "last"
    the argument `status` of finish must be `success` or `failure`, but is the text "done"
    finish needs the argument `result`
    the arguments of finish are unreadable: they are a list; write them as one JSON object
    "#);
}

#[test]
fn unreadable_and_too_long_arguments_are_refused() {
    let cut = ToolArguments::Unreadable("the JSON ends in a text".to_owned());
    let error = parse_tool_request("finish", &cut, &LoopTool::ALL).unwrap_err().to_string();
    assert_eq!(
        error,
        "the arguments of finish are unreadable: the JSON ends in a text; write them as one JSON object"
    );
    let long = "x".repeat(5 * 1024 * 1024);
    for (name, arguments) in [
        ("filesystem_read", json!({"path": "x".repeat(5000)})),
        ("filesystem_write", json!({"path": "a", "content": long})),
        ("filesystem_search", json!({"pattern": "x".repeat(5000)})),
        ("finish", json!({"status": "success", "result": {"a": [long]}})),
        ("report_step", json!({"name": "x".repeat(5000)})),
    ] {
        let error = parse(name, arguments).unwrap_err();
        assert!(matches!(error, ToolRequestError::TooLong { .. }), "{name}");
        assert!(error.to_string().len() < 200, "{name}");
    }
    for command in [json!(["x".repeat(200_000)]), json!(vec!["a"; 5000])] {
        let error = parse("shell_run", json!({"command": command})).unwrap_err();
        assert_eq!(error, ToolRequestError::Command(CommandLineError::TooLong));
    }
}

#[test]
fn an_unknown_tool_names_those_that_are_offered() {
    let offered = [LoopTool::ReadFile, LoopTool::Finish];
    let parse = |name: &str| {
        parse_tool_request(name, &ToolArguments::Parsed(json!({})), &offered).unwrap_err().to_string()
    };
    assert_eq!(parse("shell_run"), "there is no tool \"shell_run\"; the tools are: filesystem_read, finish");
    assert_eq!(
        parse("filesystem-read"),
        "there is no tool \"filesystem-read\" (did you mean filesystem_read?); the tools are: filesystem_read, finish"
    );
    assert!(parse(&"x".repeat(10_000)).len() < 200);
}

#[test]
fn a_request_names_all_uses_that_must_be_allowed() {
    let target = Some("/work/a".to_owned());
    let uses = |name: &str, arguments: Value| parse(name, arguments).unwrap().uses(target.clone());
    let path = UsePath { name: Some("a".to_owned()), target: target.clone() };
    let edit = json!({"path": "a", "old_text": "x", "new_text": "y"});
    assert_eq!(uses("filesystem_edit", edit), [Use::Read(path.clone()), Use::Write(path.clone())]);
    assert_eq!(uses("filesystem_read", json!({"path": "a"})), [Use::Read(path.clone())]);
    assert_eq!(uses("filesystem_write", json!({"path": "a", "content": ""})), [Use::Write(path.clone())]);
    assert_eq!(uses("filesystem_list", json!({"path": "a"})), [Use::List(path.clone())]);
    assert_eq!(uses("filesystem_search", json!({"pattern": "x", "path": "a"})), [Use::Search(path)]);
    let words = vec!["git".to_owned(), "log".to_owned()];
    assert_eq!(uses("shell_run", json!({"command": "git log"})), [Use::Exec(ExecCommand::Argv(words))]);
    assert_eq!(uses("read_output", json!({"call": 1})), []);
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 12, 4, |inner| {
        let name = "path|content|command|pattern|call|name|status|result|offset|[a-z]{1,4}";
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(name, inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_arguments_make_reading_fail(tool in prop::sample::select(&LoopTool::ALL[..]), arguments in values()) {
        match parse(tool.name(), arguments) {
            Ok(request) => prop_assert_eq!(request.tool(), tool),
            Err(error) => prop_assert!((1..2000).contains(&error.to_string().len())),
        }
    }
}
