//! A request that cannot be met is refused before anything starts, with what happened, to what, why, and what to do.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::stage::{Said, Stage, said};

fn place() -> Stage {
    let stage = Stage::new();
    stage.rehearsal("reviewer", "- say: fine", "");
    stage.rehearsal("tester", "- say: fine", "");
    stage
}

/// Asks the shell for something, and checks code and message to the letter; nothing may have been started.
#[track_caller]
fn check(stage: &Stage, arguments: &[&str], code: i32, message: &str) {
    let refused = stage.volery(arguments).exits(code);
    let message = message.replace("PROJECT", stage.project().to_str().unwrap());
    assert_eq!((refused.stdout.as_str(), refused.stderr.trim_end()), ("", message.as_str()));
    assert_eq!(stage.runs(), Vec::<String>::new());
}

fn piped(stage: &Stage, arguments: &[&str], input: &[u8]) -> Said {
    let mut command = stage.command(arguments);
    let mut shell =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that refuses early does not read to the end.
    let _ = shell.stdin.take().unwrap().write_all(input);
    said(shell.wait_with_output().unwrap())
}

#[test]
fn an_agent_that_does_not_exist() {
    let stage = place();
    check(
        &stage,
        &["run", "reviewr", "go"],
        5,
        "error: there is no agent reviewr in PROJECT\nhint: did you mean reviewer? Available: reviewer, tester",
    );
    check(
        &stage,
        &["run", "cook", "go"],
        5,
        "error: there is no agent cook in PROJECT\nhint: available: reviewer, tester",
    );
    check(
        &stage,
        &["run", "../reviewer", "go"],
        2,
        "error: agent name \"../reviewer\" is not valid: 1 to 100 letters, digits, '.', '_' or '-', beginning with a letter, digit or '_'; ':' and '/' join such words\nhint: did you mean reviewer?",
    );
}

#[test]
fn a_prompt_that_says_nothing_or_too_much() {
    let stage = place();
    let empty = "error: the prompt is empty\nhint: say what the agent shall do";
    check(&stage, &["run", "reviewer", ""], 2, empty);
    check(&stage, &["run", "reviewer", " \n\t "], 2, empty);
    let long = piped(&stage, &["run", "reviewer", "-"], &vec![b'a'; (1 << 20) + 1]).exits(4);
    assert_eq!(
        long.stderr,
        "error: the prompt on standard input is longer than 1.0 MiB\nhint: put the text into a file and name the file in the prompt\n"
    );
    let nul = piped(&stage, &["run", "reviewer", "-"], b"a\0b").exits(2);
    assert_eq!(
        nul.stderr,
        "error: the prompt contains a NUL byte, which no agent can be given\nhint: remove it, or put binary material into a file\n"
    );
    let binary = piped(&stage, &["run", "reviewer", "-"], b"ab\xff").exits(2);
    assert_eq!(binary.stderr, "error: the prompt on standard input is not valid UTF-8 at byte 2\n");
    assert_eq!(stage.runs(), Vec::<String>::new());
}

#[test]
fn a_directory_that_is_none() {
    let stage = place();
    let hint = "hint: give the absolute path of an existing directory";
    check(
        &stage,
        &["run", "reviewer", "go", "--dir", "/nonexistent"],
        2,
        &format!("error: the directory \"/nonexistent\" does not exist\n{hint}"),
    );
    check(
        &stage,
        &["run", "reviewer", "go", "--dir", "/etc/passwd"],
        2,
        &format!("error: \"/etc/passwd\" is a file, not a directory\n{hint}"),
    );
    check(
        &stage,
        &["run", "reviewer", "go", "--dir", "missing"],
        2,
        &format!("error: the directory \"PROJECT/missing\" does not exist\n{hint}"),
    );
}

#[test]
fn paths_in_the_place_of_ids() {
    let stage = place();
    for id in ["../../etc", "/etc/passwd", "..", ".", "", "a/../b", "01a1e180-b3ba-775a-9f62-023b9e4dfabf/.."]
    {
        let expected = format!(
            "error: run id {id:?} is not valid: give the whole id, or at least 4 hexadecimal digits from its end\nhint: `volery ps --all` (over MCP: list_runs) lists the runs there are"
        );
        for command in ["show", "logs", "wait", "cancel", "approve", "deny"] {
            check(&stage, &[command, id], 2, &expected);
        }
        check(&stage, &["answer", id, "yes"], 2, &expected);
    }
    check(
        &stage,
        &["run", "reviewer", "go", "--session", "../../etc"],
        2,
        "error: session id \"../../etc\" is not valid: 1 to 100 letters, digits, '_' or '-'",
    );
    check(
        &stage,
        &["run", "reviewer", "go", "--idempotency-key", "two words"],
        2,
        "error: idempotency key \"two words\" is not valid: 1 to 200 printable ASCII characters, none of them a space",
    );
    check(
        &stage,
        &["show", "01a1e180b3ba775a9f62023b9e4dfabf"],
        5,
        "error: there is no run 01a1e180b3ba775a9f62023b9e4dfabf\nhint: `volery ps --all` (over MCP: list_runs) lists the runs there are; ended ones are kept for 7 days by default",
    );
}

#[test]
fn the_same_through_a_server() {
    let stage = place();
    let mut client = stage.serve().initialize("it");
    let directory = stage.project();
    let ask = |agent: &str, prompt: &str| json!({"agent": agent, "prompt": prompt, "directory": directory});
    let with = |key: &str, value: &str| {
        let mut arguments = ask("reviewer", "go");
        arguments[key] = json!(value);
        arguments
    };
    let too_long = "a".repeat((1 << 20) + 1);
    let path = "give the absolute path of an existing directory";
    let cases: Vec<(&str, Value, &str)> = vec![
        ("run_agent", ask("reviewr", "go"), "did you mean reviewer? Available: reviewer, tester"),
        ("run_agent", ask("re\0viewer", "go"), "agent name \"re\\0viewer\" is not valid"),
        ("run_agent", ask("reviewer", "  "), "the prompt is empty\nhint: say what the agent shall do"),
        ("run_agent", ask("reviewer", "a\0b"), "the prompt contains a NUL byte"),
        (
            "run_agent",
            ask("reviewer", &too_long),
            "the prompt has 1048577 bytes with its context and inputs, and 1048576 (1.0 MiB) are allowed",
        ),
        ("run_agent", with("directory", "relative"), "the directory \"relative\" is not absolute"),
        ("run_agent", with("directory", "/nonexistent"), path),
        ("run_agent", with("directory", "/etc/passwd"), "is a file, not a directory"),
        ("run_agent", with("directory", "/tmp\0"), "contains a NUL byte"),
        ("run_agent", with("session_id", "../../etc"), "session id \"../../etc\" is not valid"),
        ("run_agent", with("idempotency_key", "\0"), "idempotency key \"\\0\" is not valid"),
        ("get_run", json!({"run_id": "../../etc"}), "run id \"../../etc\" is not valid"),
        ("get_run", json!({"run_id": "/etc/passwd"}), "run id \"/etc/passwd\" is not valid"),
        ("get_run", json!({"run_id": "abcdef12"}), "there is no run abcdef12"),
        ("cancel_run", json!({"run_id": "../../etc"}), "run id \"../../etc\" is not valid"),
        ("wait_runs", json!({"run_ids": ["../../etc"]}), "run id \"../../etc\" is not valid"),
        ("answer_run", json!({"run_id": "../../etc", "text": "x"}), "run id \"../../etc\" is not valid"),
    ];
    for (tool, arguments, expected) in cases {
        let said = client.refused(tool, arguments);
        assert!(said.contains(expected), "{said}");
    }
    assert_eq!(stage.runs(), Vec::<String>::new());
    let fine = client.call("run_agent", ask("reviewer", "go"));
    assert_eq!(fine["result"], json!("fine\n"), "the server is as well as before");
}

#[test]
fn errors_are_one_json_document_where_asked_for() {
    let stage = place();
    let refused = stage.volery(["run", "reviewr", "go", "--json"]).exits(5);
    let error = &refused.json()["error"];
    assert_eq!(error["kind"], json!("not_found"), "{error}");
    assert_eq!(error["hint"], json!("did you mean reviewer? Available: reviewer, tester"));
}

#[test]
fn a_run_without_any_time() {
    let stage = Stage::new();
    stage.rehearsal("greeter", "- say: hello", "");
    let said = stage.volery(["run", "greeter", "x", "--timeout", "0s"]).exits(4).stderr;
    assert_eq!(said, "error: no time is left for it: the time-out is 0\n");
    assert_eq!(stage.runs(), Vec::<String>::new());
}

#[test]
fn a_rule_about_an_unknown_tool_is_warned_about() {
    let stage = Stage::new();
    stage.rehearsal("quick", "- say: done", "");
    let words = ["run", "quick", "go", "--allow", "Bsh(ls:*)", "--deny", "mcp__x__y", "--ask", "zoological"];
    let said = stage.volery(words).stderr;
    assert!(said.contains("--allow Bsh(ls:*): Bsh is not a known tool; did you mean Bash?"), "{said}");
    assert!(said.contains("--ask zoological: zoological is not a known tool"), "{said}");
    assert!(!said.contains("mcp__x__y is"), "{said}");
}
