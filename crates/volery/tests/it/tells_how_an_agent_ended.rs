//! Agents that end, write or listen in awkward ways get the outcome that fits, and lose no output.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::test_env::{TestEnv, command_output};

fn run(steps: &[&str]) -> (i32, Value) {
    let env = TestEnv::new();
    env.fake("awkward", steps, "");
    let run = env.volery(["run", "awkward", "go", "--json"]);
    (run.code, run.json())
}

#[test]
fn an_exit_code_is_named_with_the_end_of_the_error_stream() {
    let (code, run) = run(&["say:half an answer", "err:no such model", "exit:7"]);
    assert_eq!((code, &run["status"], &run["exit_code"]), (1, &json!("failed"), &json!(7)));
    insta::assert_snapshot!(run["explanation"], @r#""failed: the agent exited with code 7: no such model""#);
    assert_eq!(run["result"], json!("half an answer\n"));
    assert_eq!(run["stderr_tail"], json!("no such model\n"));
}

#[test]
fn a_signal_that_was_not_ours_is_named() {
    for signal in [9, 15] {
        let (code, run) = run(&["say:half", &format!("signal:{signal}")]);
        assert_eq!((code, &run["result"]), (1, &json!("half\n")));
        assert_eq!(run["explanation"], json!(format!("failed: the agent was ended by signal {signal}")));
    }
}

#[test]
fn a_line_that_stops_in_the_middle_is_preserved() {
    let (code, run) = run(&["say:one", "part:and a ha"]);
    assert_eq!((code, &run["result"]), (0, &json!("one\nand a ha")));
}

#[test]
fn an_agent_may_close_its_output_and_go_on() {
    let (code, run) = run(&["say:early", "close-stdout", "close-stderr", "sleep:300", "exit:3"]);
    assert_eq!((code, &run["result"], &run["exit_code"]), (1, &json!("early\n"), &json!(3)));
    assert!(run["duration_ms"].as_u64().unwrap() >= 290, "{run}");
}

#[test]
fn an_agent_that_never_reads_a_large_prompt_still_answers() {
    let env = TestEnv::new();
    env.fake("deaf", &["sleep:100", "say:heard nothing"], "");
    env.fake("echo", &["read-stdin"], "");
    let prompt = "y".repeat(1 << 20);
    for (agent, answer) in [("deaf", "heard nothing\n"), ("echo", &prompt)] {
        let mut command = env.command(["run", agent, "-"]);
        let mut shell =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        shell.stdin.take().unwrap().write_all(prompt.as_bytes()).unwrap();
        let run = command_output(shell.wait_with_output().unwrap()).ok();
        assert!(run.stdout == answer, "{agent}: {} bytes, {}", run.stdout.len(), run.stderr);
    }
}

#[test]
fn bytes_that_are_not_text_are_shown_replaced_and_stored_unchanged() {
    let env = TestEnv::new();
    env.fake("binary", &["bytes:61ff620a", "bytes:e282"], "");
    let run = env.volery(["run", "binary", "go", "--json"]).ok().json();
    assert_eq!(run["result"], json!("a\u{fffd}b\n\u{fffd}"));
    let stored = std::fs::read(env.run_dir(&env.only_run()).join("stdout")).unwrap();
    assert_eq!(stored, b"a\xffb\n\xe2\x82");
    let id = env.only_run();
    let mut client = env.serve().initialize("it");
    let got = client.call("get_run", json!({"run_id": id, "output": "stdout"}));
    assert_eq!(got["result"], json!("a\u{fffd}b\n\u{fffd}"));
    assert_eq!(got["output"]["text"], json!("a\u{fffd}b\n\u{fffd}"));
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let env = TestEnv::new();
    env.backend("gone", &["/nonexistent/program"]).agent("gone", "backend: gone");
    let run = env.volery(["run", "gone", "go", "--json"]).exits(1).json();
    assert_eq!(run["outcome"]["kind"], json!("spawn"), "{run}");
    insta::assert_snapshot!(env.masked_texts(&run["explanation"]), @"failed: the agent could not be started: program /nonexistent/program does not exist");
}
