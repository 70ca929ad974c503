//! A request that cannot be met is refused before anything starts, with what happened, to what, why, and what to do.

use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use crate::test_env::{CommandOutput, TestEnv, command_output};

fn vendor_env() -> TestEnv {
    let env = TestEnv::new();
    env.rehearsal("reviewer", "- say: fine", "");
    env.rehearsal("tester", "- say: fine", "");
    env
}

/// Asks the shell for something that it refuses with this code, and returns what it says; nothing may have been started.
#[track_caller]
fn check(env: &TestEnv, arguments: &[&str], code: i32) -> String {
    let refused = env.volery(arguments).exits(code);
    assert_eq!(refused.stdout, "");
    assert_eq!(env.runs(), Vec::<String>::new());
    env.masked(&refused.stderr)
}

fn piped(env: &TestEnv, arguments: &[&str], input: &[u8]) -> CommandOutput {
    let mut command = env.command(arguments);
    let mut shell =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that refuses early does not read to the end.
    let _ = shell.stdin.take().unwrap().write_all(input);
    command_output(shell.wait_with_output().unwrap())
}

#[test]
fn an_agent_that_does_not_exist() {
    let env = vendor_env();
    let errors = [
        check(&env, &["run", "reviewr", "go"], 5),
        check(&env, &["run", "cook", "go"], 5),
        check(&env, &["run", "../reviewer", "go"], 2),
    ];
    insta::assert_snapshot!(errors.concat(), @"
    error: there is no agent reviewr in [stage]/project
    hint: did you mean reviewer? Available: reviewer, tester
    error: there is no agent cook in [stage]/project
    hint: available: reviewer, tester
    error: ../reviewer is a path; use the agent's name
    hint: did you mean reviewer?
    ");
}

#[test]
fn a_prompt_that_says_nothing_or_too_much() {
    let env = vendor_env();
    let empty = check(&env, &["run", "reviewer", ""], 2);
    assert_eq!(check(&env, &["run", "reviewer", " \n\t "], 2), empty);
    insta::assert_snapshot!(empty, @"
    error: the prompt is empty
    hint: say what the agent shall do
    ");
    let long = piped(&env, &["run", "reviewer", "-"], &vec![b'a'; (1 << 20) + 1]).exits(4);
    insta::assert_snapshot!(env.masked(&long.stderr), @"
    error: the prompt on standard input is longer than 1.0 MiB
    hint: put the text into a file and name the file in the prompt
    ");
    let nul = piped(&env, &["run", "reviewer", "-"], b"a\0b").exits(2);
    insta::assert_snapshot!(env.masked(&nul.stderr), @"
    error: the prompt contains a NUL byte, which no agent can be given
    hint: remove it, or put binary material into a file
    ");
    let binary = piped(&env, &["run", "reviewer", "-"], b"ab\xff").exits(2);
    insta::assert_snapshot!(env.masked(&binary.stderr), @"error: the prompt on standard input is not valid UTF-8 at byte 2");
    assert_eq!(env.runs(), Vec::<String>::new());
}

#[test]
fn a_directory_that_is_none() {
    let env = vendor_env();
    let directories = ["/nonexistent", "/etc/passwd", "missing"];
    let errors = directories.map(|directory| check(&env, &["run", "reviewer", "go", "--dir", directory], 2));
    insta::assert_snapshot!(errors.concat(), @r#"
    error: the directory "/nonexistent" does not exist
    hint: give the absolute path of an existing directory
    error: "/etc/passwd" is a file, not a directory
    hint: give the absolute path of an existing directory
    error: the directory "[stage]/project/missing" does not exist
    hint: give the absolute path of an existing directory
    "#);
}

#[test]
fn paths_instead_of_ids() {
    let env = vendor_env();
    let mut errors = String::new();
    for id in ["../../etc", "/etc/passwd", "..", ".", "", "a/../b", "01a1e180-b3ba-775a-9f62-023b9e4dfabf/.."]
    {
        let refused = check(&env, &["answer", id, "yes"], 2);
        for command in ["show", "logs", "wait", "cancel", "approve", "deny"] {
            assert_eq!(check(&env, &[command, id], 2), refused);
        }
        errors += &refused;
    }
    errors += &check(&env, &["run", "reviewer", "go", "--session", "../../etc"], 2);
    errors += &check(&env, &["run", "reviewer", "go", "--idempotency-key", "two words"], 2);
    errors += &check(&env, &["show", "01a1e180b3ba775a9f62023b9e4dfabf"], 5);
    insta::assert_snapshot!(errors, @r#"
    error: run id "../../etc" is not valid: give the whole id, or at least 4 hexadecimal digits from its end
    hint: `volery ps --all` (over MCP: list_runs) lists the runs there are
    error: run id "/etc/passwd" is not valid: give the whole id, or at least 4 hexadecimal digits from its end
    hint: `volery ps --all` (over MCP: list_runs) lists the runs there are
    error: run id ".." is not valid: give the whole id, or at least 4 hexadecimal digits from its end
    hint: `volery ps --all` (over MCP: list_runs) lists the runs there are
    error: run id "." is not valid: give the whole id, or at least 4 hexadecimal digits from its end
    hint: `volery ps --all` (over MCP: list_runs) lists the runs there are
    error: run id "" is not valid: give the whole id, or at least 4 hexadecimal digits from its end
    hint: `volery ps --all` (over MCP: list_runs) lists the runs there are
    error: run id "a/../b" is not valid: give the whole id, or at least 4 hexadecimal digits from its end
    hint: `volery ps --all` (over MCP: list_runs) lists the runs there are
    error: run id "[run id]/.." is not valid: give the whole id, or at least 4 hexadecimal digits from its end
    hint: `volery ps --all` (over MCP: list_runs) lists the runs there are
    error: session id "../../etc" is not valid: 1 to 100 letters, digits, '_' or '-'
    error: idempotency key "two words" is not valid: 1 to 200 printable ASCII characters, none of them a space
    error: there is no run 01a1e180b3ba775a9f62023b9e4dfabf
    hint: `volery ps --all` (over MCP: list_runs) lists the runs of the last 7 days; a short id is the end of an id, at least its last four digits
    "#);
}

#[test]
fn the_same_through_a_server() {
    let env = vendor_env();
    let mut client = env.serve().initialize("it");
    let directory = env.project();
    let ask = |agent: &str, prompt: &str| json!({"agent": agent, "prompt": prompt, "directory": directory});
    let with = |key: &str, value: &str| {
        let mut arguments = ask("reviewer", "go");
        arguments[key] = json!(value);
        arguments
    };
    let too_long = "a".repeat((1 << 20) + 1);
    let cases = [
        ("run_agent", ask("reviewr", "go")),
        ("run_agent", ask("re\0viewer", "go")),
        ("run_agent", ask("reviewer", "  ")),
        ("run_agent", ask("reviewer", "a\0b")),
        ("run_agent", ask("reviewer", &too_long)),
        ("run_agent", with("directory", "relative")),
        ("run_agent", with("directory", "/nonexistent")),
        ("run_agent", with("directory", "/etc/passwd")),
        ("run_agent", with("directory", "/tmp\0")),
        ("run_agent", with("session_id", "../../etc")),
        ("run_agent", with("idempotency_key", "\0")),
        ("get_run", json!({"run_id": "../../etc"})),
        ("get_run", json!({"run_id": "/etc/passwd"})),
        ("get_run", json!({"run_id": "abcdef12"})),
        ("cancel_run", json!({"run_id": "../../etc"})),
        ("wait_runs", json!({"run_ids": ["../../etc"]})),
        ("answer_run", json!({"run_id": "../../etc", "text": "x"})),
    ];
    let errors = cases.map(|(tool, arguments)| format!("{tool}: {}\n", client.refused(tool, arguments)));
    insta::assert_snapshot!("tools", env.masked(&errors.concat()));
    assert_eq!(env.runs(), Vec::<String>::new());
    let fine = client.call("run_agent", ask("reviewer", "go"));
    assert_eq!(fine["result"], json!("fine\n"), "the server is as well as before");
}

#[test]
fn errors_are_one_json_document_with_the_json_flag() {
    let env = vendor_env();
    let refused = env.volery(["run", "reviewr", "go", "--json"]).exits(5);
    let error = &refused.json()["error"];
    assert_eq!(error["kind"], json!("not_found"), "{error}");
    insta::assert_snapshot!(env.masked_texts(&error["hint"]), @"did you mean reviewer? Available: reviewer, tester");
}

#[test]
fn a_run_without_any_time() {
    let env = TestEnv::new();
    env.rehearsal("greeter", "- say: hello", "");
    let stderr = env.volery(["run", "greeter", "x", "--timeout", "0s"]).exits(2).stderr;
    insta::assert_snapshot!(env.masked(&stderr), @"error: --timeout must be more than 0");
    assert_eq!(env.runs(), Vec::<String>::new());
}

#[test]
fn a_rule_about_an_unknown_tool_is_warned_about() {
    let env = TestEnv::new();
    env.rehearsal("quick", "- say: done", "");
    let words = ["run", "quick", "go", "--allow", "Bsh(ls:*)", "--deny", "mcp__x__y", "--ask", "zoological"];
    let stderr = env.volery(words).stderr;
    insta::assert_snapshot!(env.masked(&stderr), @"
    warning: --allow Bsh(ls:*): Bsh is not a known tool; did you mean Bash?
    warning: --ask zoological: zoological is not a known tool; it counts only for an agent that has a tool of this name
    [run-id] succeeded in [span]
    ");
    assert!(!stderr.contains("mcp__x__y is"), "{stderr}");
}

#[test]
fn a_state_directory_that_does_not_exist_is_named_and_not_made() {
    let env = TestEnv::new();
    let missing = env.path("nowhere/state");
    let run = |words: &[&str]| {
        let mut command = env.command(words);
        let output = command_output(command.env("VOLERY_HOME", &missing).output().unwrap());
        env.masked(&format!("{} {}{}", output.code, output.stdout, output.stderr))
    };
    insta::assert_snapshot!([&["ps"][..], &["ps", "--json"], &["show"], &["wait", "3f9a"]].map(run).concat(), @r#"
    0 [stage]/nowhere/state does not exist, so there are no runs
    hint: VOLERY_HOME is set to this directory; correct it if the path is wrong
    0 {
      "runs": []
    }
    5 error: [stage]/nowhere/state does not exist
    hint: VOLERY_HOME is set to this directory; check the path
    5 error: [stage]/nowhere/state does not exist
    hint: VOLERY_HOME is set to this directory; check the path
    "#);
    assert!(!missing.exists());
}
