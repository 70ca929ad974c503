//! Volery shows an agent's steps while the agent works, and afterwards in the transcript. A script imitates Claude Code.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::reports_what_a_program_says::{command, env, volery};
use crate::test_env::{PATIENCE, Terminal, TestEnv};

fn text(text: &str) -> Value {
    json!({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}, "parent_tool_use_id": null})
}

fn call(id: &str, name: &str, input: &Value) -> Value {
    let call = json!({"type": "tool_use", "id": id, "name": name, "input": input});
    json!({"type": "assistant", "message": {"content": [call]}, "parent_tool_use_id": null})
}

fn returned(id: &str, is_error: bool, output: &str) -> Value {
    let back = json!({"type": "tool_result", "tool_use_id": id, "is_error": is_error, "content": output});
    json!({"type": "user", "message": {"content": [back]}})
}

fn retry() -> Value {
    json!({"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": 401, "error": "unauthorized"})
}

fn success() -> Value {
    json!({"type": "result", "subtype": "success", "is_error": false, "result": "Two herons."})
}

/// An agent that reads a file and fails to execute a command before it answers.
fn counting_env() -> TestEnv {
    let lines = [
        text("I read the list first."),
        call("1", "Read", &json!({"file_path": "birds/herons.txt"})),
        returned("1", false, "grey heron\npurple heron\n"),
        call("2", "Bash", &json!({"command": "wc -l birds/herons.txt", "description": "count"})),
        returned("2", true, "wc: not \u{1b}[31mallowed"),
        text("Two herons."),
        success(),
    ];
    env(&lines, "")
}

#[test]
fn a_transcript_has_the_task_the_steps_and_the_answer() {
    let env = counting_env();
    volery(&env, &["run", "claude", "Count the herons.\nOnly the grey ones.", "--permission", "yolo"]).ok();
    let logs = volery(&env, &["logs"]).ok();
    insta::assert_snapshot!(env.masked(&logs.stdout), @"
    [run-id] claude  [time], asked by you
    > Count the herons.
    > Only the grey ones.

    · claude
    · model m

    I read the list first.

    → Read birds/herons.txt
        grey heron
        purple heron
    → $ wc -l birds/herons.txt
        ✗ failed
        wc: not allowed

    Two herons.

    ✓ succeeded in [span]
    ");
    let raw = volery(&env, &["logs", "--raw"]).ok().stdout;
    assert!(raw.starts_with(r#"{"type":"system""#) && raw.trim_end().ends_with('}'), "{raw}");
    let document = volery(&env, &["logs", "--json"]).ok().json();
    let types: Vec<&str> =
        document["events"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!((types.first(), types.last()), (Some(&"claimed"), Some(&"ended")), "{types:?}");
    assert_eq!(
        (&document["complete"], &document["prompt"]),
        (&json!(true), &json!("Count the herons.\nOnly the grey ones."))
    );
}

#[test]
fn each_step_is_a_line_on_standard_error_if_that_is_wanted() {
    let env = counting_env();
    let words = ["run", "claude", "Count the herons.", "--permission", "yolo", "-v"];
    let run = volery(&env, &words).ok();
    assert_eq!(run.stdout, "Two herons.");
    insta::assert_snapshot!(env.masked(&run.stderr), @"
    warning: claude does not tell its version (asked with --version, it says something else); [version] to [version] is what volery fits
    model m
    │ I read the list first.
    Read birds/herons.txt
    $ wc -l birds/herons.txt
    failed: $ wc -l birds/herons.txt: wc: not allowed
    [run-id] succeeded in [span]
    ");
    let waited = volery(&env, &["wait", "--verbose"]).ok();
    insta::assert_snapshot!(env.masked(&waited.stderr), @"
    the last run: [run-id] claude: Count the herons.
    model m
    │ I read the list first.
    Read birds/herons.txt
    $ wc -l birds/herons.txt
    failed: $ wc -l birds/herons.txt: wc: not allowed
    [run-id] succeeded in [span]
    ");
}

#[test]
fn a_run_shows_its_prompt() {
    let env = counting_env();
    let prompt = format!("Count the herons.\nOnly the \u{1b}[31mgrey ones.\n\n{}", "x".repeat(9_000));
    volery(&env, &["run", "claude", &prompt]).ok();
    let page = volery(&env, &["show"]).ok().stdout;
    let from = page.find("prompt").expect("the page has the prompt");
    let to = page.find("questions").expect("the next fact");
    insta::assert_snapshot!(env.masked(&page[from..to]).replace("x".repeat(100).as_str(), "[100 x]"), @"
    prompt      Count the herons.
                Only the grey ones.
                … 8.8 KiB more
    ");
    let shown = volery(&env, &["show", "--json"]).ok().json();
    assert_eq!(
        (shown["prompt"].as_str().unwrap().len(), &shown["prompt_bytes"]),
        (4 << 10, &json!(prompt.len()))
    );
}

#[test]
fn a_warning_is_printed_once_while_the_agent_works() {
    let env = env(&[retry()], "while [ ! -e go ]; do sleep 0.05; done; exit 1");
    let mut run = command(&env, &["run", "claude", "hi", "--permission", "yolo"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(run.stderr.take().unwrap());
    let mut lines = String::new();
    while !lines.contains("asks its model again") {
        assert!(stderr.read_line(&mut lines).unwrap() > 0, "the command ended before: {lines}");
    }
    assert_eq!(run.try_wait().unwrap(), None, "the run has ended before its warning: {lines}");
    std::fs::write(env.project().join("go"), "").unwrap();
    stderr.read_to_string(&mut lines).unwrap();
    run.wait().unwrap();
    insta::assert_snapshot!(env.masked(&lines), @"
    warning: claude does not tell its version (asked with --version, it says something else); [version] to [version] is what volery fits
    warning: claude asks its model again: 401 unauthorized
    [run-id] failed: the agent exited with code 1, after [span]
    hint: volery show [run-id] tells all that is known about it
    ");
}

#[test]
fn a_terminal_shows_the_step_and_a_warning_above_it() {
    let lines = [retry(), call("1", "Read", &json!({"file_path": "birds/herons.txt"}))];
    let env = env(&lines, &format!("while [ ! -e go ]; do sleep 0.05; done; echo '{}'", success()));
    let mut command = command(&env, &["run", "claude", "hi", "--permission", "yolo"]);
    command.env("TERM", "xterm").env("NO_COLOR", "1");
    let terminal = Terminal::start(command);
    terminal.shows("Read birds/herons.txt");
    terminal.shows("warning: claude asks its model again");
    assert!(!terminal.screen().contains("wrote "), "{}", terminal.screen());
    std::fs::write(env.project().join("go"), "").unwrap();
    let (code, screen) = terminal.exits();
    assert_eq!((code, screen.matches("asks its model again").count()), (Some(0), 1), "{screen}");
}

#[test]
fn a_followed_transcript_grows_until_the_end() {
    let lines = [text("First, a look."), call("1", "Read", &json!({"file_path": "birds/herons.txt"}))];
    let env = env(&lines, &format!("while [ ! -e go ]; do sleep 0.05; done; echo '{}'", success()));
    let id = volery(&env, &["run", "claude", "hi", "--background"]).ok().stdout.trim().to_owned();
    let mut logs = command(&env, &["logs", "-f", &id]).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(logs.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains("Read birds/herons.txt") {
        assert!(stdout.read_line(&mut text).unwrap() > 0, "the transcript ended before: {text}");
    }
    assert!(!text.contains("succeeded"), "{text}");
    std::fs::write(env.project().join("go"), "").unwrap();
    stdout.read_to_string(&mut text).unwrap();
    assert!(logs.wait().unwrap().success());
    assert!(text.contains("\nFirst, a look.\n") && text.contains("✓ succeeded"), "{text}");
}

#[test]
fn a_program_that_writes_for_people_has_its_output_in_the_transcript() {
    let env = TestEnv::new();
    env.fake("plain", &["say:one", "err:not this", "say:two"], "");
    env.volery(["run", "plain", "go"]).ok();
    insta::assert_snapshot!(env.masked(&env.volery(["logs"]).ok().stdout), @"
    [run-id] plain  [time], asked by you
    > go

    · plain

    one
    two

    ✓ succeeded in [span]
    ");
    env.fake("nothing", &["exit:3", "err:x"], "");
    env.volery(["run", "nothing", "go"]).exits(1);
    insta::assert_snapshot!(env.masked(&env.volery(["logs"]).ok().stdout), @"
    [run-id] nothing  [time], asked by you
    > go

    · nothing
    ✗ failed: the agent exited with code 3, after [span]
    ");
}

#[test]
fn a_damaged_log_is_shown_as_far_as_it_can_be_read() {
    let env = counting_env();
    volery(&env, &["run", "claude", "Count.", "--permission", "yolo"]).ok();
    let log = env.run_dir(&env.only_run()).join("events.jsonl");
    let damaged = std::fs::read_to_string(&log).unwrap().replacen("wc -l", "rm -r", 1);
    std::fs::write(&log, damaged).unwrap();
    let logs = volery(&env, &["logs"]).ok();
    assert!(
        logs.stdout.contains("→ Read birds/herons.txt") && logs.stdout.contains("✓ succeeded"),
        "{logs:?}"
    );
    assert!(!logs.stdout.contains("rm -r"), "{logs:?}");
    insta::assert_snapshot!(env.masked(&logs.stderr), @"
    the last run: [run-id] claude: Count.
    warning: 1 damaged line of its journal could not be read
    ");
}

#[test]
fn a_long_transcript_is_read_in_pages() {
    let lines: Vec<Value> = (0..3_000)
        .map(|number| call(&number.to_string(), "Read", &json!({ "file_path": format!("{number}.txt") })))
        .chain([success()])
        .collect();
    let env = env(&lines, "");
    volery(&env, &["run", "claude", "go", "--permission", "yolo"]).ok();
    let logs = volery(&env, &["logs"]).ok().stdout;
    let steps: Vec<&str> = logs.lines().filter(|line| line.starts_with("→ Read ")).collect();
    let expected: Vec<String> = (0..3_000).map(|number| format!("→ Read {number}.txt")).collect();
    assert_eq!(steps, expected);
    let run = volery(&env, &["logs", "--json"]).ok().json();
    assert!(run["events"].as_array().unwrap().len() > 3_000);
}

#[test]
fn a_client_gets_the_step_as_progress() {
    let lines = [call("1", "Bash", &json!({"command": "cargo test"}))];
    let env = env(&lines, &format!("while [ ! -e go ]; do sleep 0.05; done; echo '{}'", success()));
    let mut client = crate::test_env::Client::start(command(&env, &["serve"])).initialize("it");
    let id = client.send(
        "tools/call",
        json!({
            "name": "run_agent",
            "arguments": {"agent": "claude", "prompt": "hi", "directory": env.project()},
            "_meta": {"progressToken": "t"},
        }),
    );
    let progress = client
        .next_where(PATIENCE, |message| message["params"]["message"].to_string().contains("cargo test"));
    let message = progress["params"]["message"].as_str().unwrap();
    assert!(message.starts_with("claude: $ cargo test ("), "{message}");
    std::fs::write(env.project().join("go"), "").unwrap();
    assert_eq!(client.answer(id, PATIENCE)["result"]["isError"], json!(false));
}
