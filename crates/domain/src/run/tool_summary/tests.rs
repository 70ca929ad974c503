//! Summaries of the calls that each vendor's reader reports, and of arbitrary calls.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::invisible_text::sanitize_for_terminal;

fn summary(name: &str, input: &Value) -> String {
    summarize_tool_call(name, input, "/work/app")
}

#[test]
fn each_vendors_call_becomes_one_line() {
    let calls = [
        // Claude Code.
        ("Read", json!({"file_path": "/work/app/src/main.rs", "limit": 20}), "Read src/main.rs"),
        ("Edit", json!({"file_path": "/work/app/src/main.rs", "old_string": "a"}), "Edit src/main.rs"),
        (
            "Write",
            json!({"content": "x", "file_path": "/work/application/a.txt"}),
            "Write /work/application/a.txt",
        ),
        ("Bash", json!({"command": "cargo test\n", "description": "test"}), "$ cargo test"),
        ("Grep", json!({"pattern": "TODO", "path": "/work/app/src"}), "Search TODO in src"),
        ("Glob", json!({"pattern": "**/*.rs"}), "Search **/*.rs"),
        ("WebFetch", json!({"url": "https://example.org/a", "prompt": "x"}), "Fetch https://example.org/a"),
        ("WebSearch", json!({"query": "rust 2027"}), "Web search: rust 2027"),
        (
            "Task",
            json!({"description": "find it", "subagent_type": "Explore"}),
            "Delegate to Explore: find it",
        ),
        ("mcp__aviary__count", json!({"species": "heron"}), "aviary/count heron"),
        ("TodoWrite", json!({"todos": [{"content": "a"}]}), "TodoWrite"),
        // Codex.
        (
            "shell",
            json!({"command": "/bin/bash -lc 'cargo test -p a'", "directory": "/work/app"}),
            "$ cargo test -p a",
        ),
        ("shell", json!({"command": ["bash", "-lc", "ls | wc"]}), "$ ls | wc"),
        (
            "apply_patch",
            json!({"changes": [{"path": "/work/app/a.rs", "kind": {"type": "add"}, "diff": "x"}]}),
            "Write a.rs",
        ),
        (
            "apply_patch",
            json!({"changes": {"/work/app/a.rs": {"type": "update"}, "/work/app/b.rs": {"type": "add"}}}),
            "Edit a.rs, b.rs",
        ),
        ("web_search", json!({"query": "herons"}), "Web search: herons"),
        ("view_image", json!({"path": "/tmp/a.png"}), "Read /tmp/a.png"),
        // Gemini and Qwen.
        ("run_shell_command", json!({"command": "echo hi", "is_background": false}), "$ echo hi"),
        ("read_many_files", json!({"paths": ["a", "b", "c", "d"]}), "Read a, b, c and 1 more"),
        ("list_directory", json!({"dir_path": "/work/app"}), "List ."),
        ("write_file", json!({"file_path": "/work/app/a.txt", "content": "x"}), "Write a.txt"),
        ("google_web_search", json!({"query": "herons"}), "Web search: herons"),
        // Copilot.
        ("create", json!({"path": "/work/app/a.txt", "file_text": "x"}), "Write a.txt"),
        ("view", json!({"path": "/work/app/a.txt"}), "Read a.txt"),
        ("report_intent", json!({"intent": "Looking around"}), "report_intent Looking around"),
        // Opencode, Kimi, Goose, Cursor, Grok, Kiro.
        ("bash", json!({"command": "touch made", "cwd": "/work/app"}), "$ touch made"),
        ("Shell", json!({"command": "ls"}), "$ ls"),
        ("run_terminal_cmd", json!({"command": "echo hi"}), "$ echo hi"),
        ("developer__tool", json!({"cmd": "echo hi"}), "$ echo hi"),
        ("fs_write", json!({"command": "create", "path": "/work/app/a.txt"}), "Write a.txt"),
        ("@aviary/count", json!({}), "aviary/count"),
        ("editor", json!({"command": "view", "path": "a"}), "editor view"),
        // Agents that speak ACP and report titles only.
        ("execute", json!({"title": "touch made"}), "$ touch made"),
        ("edit", json!({"filePath": "/work/app/a.txt", "content": "x"}), "Write a.txt"),
        ("edit", json!({"title": "Writing to made.txt"}), "Writing to made.txt"),
        ("read", json!({"title": "src/main.rs"}), "Read src/main.rs"),
        ("unknown", json!({"title": ""}), "unknown"),
        // Rehearsals.
        ("write", json!({"write": {"path": "a.txt", "text": "x"}}), "Write a.txt"),
        ("ask", json!({"ask": "may I?"}), "ask may I?"),
        ("", json!(null), "a tool without a name"),
    ];
    for (name, input, expected) in calls {
        assert_eq!(summary(name, &input), expected, "{name} {input}");
    }
}

#[test]
fn a_long_path_shows_its_end_and_a_long_command_its_beginning() {
    let path = format!("/work/app/{}/main.rs", "deep/".repeat(60));
    let read = summary("Read", &json!({ "file_path": path }));
    assert!(read.starts_with("Read …") && read.ends_with("deep//main.rs"), "{read}");
    let shell = summary("Bash", &json!({"command": format!("echo {}", "x".repeat(5_000))}));
    assert!(shell.starts_with("$ echo xxx") && shell.ends_with('…'), "{shell}");
    assert_eq!(shell.chars().count(), SUMMARY_CHARS_MAX);
}

#[test]
fn nothing_in_a_call_can_control_the_terminal() {
    let call = summary("Bash", &json!({"command": "echo \u{1b}[31m\u{202e}evil\r\nrm -rf x"}));
    assert_eq!(call, "$ echo \\u{202e}evil rm -rf x");
}

#[test]
fn the_subject_of_a_call_is_its_command_path_or_address() {
    assert_eq!(tool_subject(&json!({"command": "touch  a.txt\n"})).as_deref(), Some("touch a.txt"));
    assert_eq!(tool_subject(&json!({"cmd": ["echo", "a"]})).as_deref(), Some("echo a"));
    assert_eq!(tool_subject(&json!({"other": 1})), None);
    let long = tool_subject(&json!({"cmd": ["echo", "x".repeat(500)]})).unwrap();
    assert_eq!(long.chars().count(), SUMMARY_CHARS_MAX);
}

#[test]
fn the_last_sentence_of_a_text_is_found() {
    for (text, expected) in [
        ("I look. Now I test it.", "Now I test it."),
        ("First.\n\nI read `a.rs` now", "I read `a.rs` now"),
        ("One. Two is not yet", "Two is not yet"),
        ("version 1.2 is out", "version 1.2 is out"),
        (" \n", ""),
    ] {
        assert_eq!(last_sentence(text), expected);
    }
}

/// Generates calls with names, keys and values that readers report, and with arbitrary ones.
fn any_call() -> impl Strategy<Value = (String, Value)> {
    let known =
        ["Read", "shell", "Grep", "fetch", "web_search", "Task", "mcp__a__b", "apply_patch", "edit", "x"];
    let name = prop_oneof![proptest::sample::select(known.to_vec()).prop_map(str::to_owned), any::<String>()];
    let keys =
        [PATH_KEYS.as_slice(), &COMMAND_KEYS, &PATTERN_KEYS, &TASK_KEYS, &["changes", "paths", "title"]];
    let key = prop_oneof![proptest::sample::select(keys.concat()).prop_map(str::to_owned), any::<String>()];
    let leaf = prop_oneof![
        any::<String>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(Value::Null)
    ];
    let value = leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((any::<String>(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    });
    let input = proptest::collection::vec((key, value), 0..5)
        .prop_map(|fields| Value::Object(fields.into_iter().collect()));
    (name, input)
}

proptest! {
    #[test]
    fn a_summary_is_one_bounded_visible_line((name, input) in any_call(), directory in "(/[a-z]{0,3}){0,3}") {
        let line = summarize_tool_call(&name, &input, &directory);
        prop_assert!(!line.is_empty() && !line.contains('\n'));
        prop_assert!(line.chars().count() <= SUMMARY_CHARS_MAX, "{}", line);
        prop_assert_eq!(sanitize_for_terminal(&line), line.as_str());
    }

    #[test]
    fn a_last_sentence_is_one_bounded_visible_line(text in any::<String>()) {
        let line = last_sentence(&text);
        prop_assert!(!line.contains('\n') && line.chars().count() <= SUMMARY_CHARS_MAX);
        prop_assert_eq!(sanitize_for_terminal(&line), line.as_str());
    }
}
