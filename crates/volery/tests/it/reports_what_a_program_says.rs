//! What a vendor's program writes reaches people as a sentence: what was denied and by whom, why the model is late, and
//! nothing of the protocol itself. A script plays Claude Code and writes lines that the real program wrote.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::test_env::{CommandOutput, TestEnv, command_output};

const INIT: &str =
    r#"{"type":"system","subtype":"init","session_id":"0198c1de-0000-4000-8000-000000000001","model":"m"}"#;

/// A test environment whose `claude` writes these lines and then executes a command of the shell.
pub(crate) fn env(lines: &[Value], then: &str) -> TestEnv {
    let env = TestEnv::new();
    let program = env.path("bin/claude");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    let text = [&[INIT.to_owned()], lines.as_slice()].concat().join("\n");
    let script = format!("#!/bin/sh\n[ \"$1\" = --version ] && exit 0\ncat <<'END'\n{text}\nEND\n{then}\n");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    env
}

pub(crate) fn command(env: &TestEnv, words: &[&str]) -> Command {
    let mut command = env.command(words);
    command.env("PATH", format!("{}:/usr/bin:/bin", env.path("bin").display())).stdin(Stdio::null());
    command
}

pub(crate) fn volery(env: &TestEnv, words: &[&str]) -> CommandOutput {
    command_output(command(env, words).output().unwrap())
}

fn use_of_bash(id: &str, command: &str) -> [Value; 2] {
    let call = json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}});
    let back = json!({"type": "tool_result", "tool_use_id": id, "is_error": true, "content": "denied"});
    [
        json!({"type": "assistant", "message": {"content": [call]}, "parent_tool_use_id": null}),
        json!({"type": "user", "message": {"content": [back]}}),
    ]
}

/// The agent uses Bash for each command, is denied that by the program, and answers.
fn denied(commands: &[&str]) -> TestEnv {
    let ids: Vec<String> = (0..commands.len()).map(|number| format!("t{number}")).collect();
    let mut lines: Vec<Value> =
        ids.iter().zip(commands).flat_map(|(id, command)| use_of_bash(id, command)).collect();
    let denials: Vec<Value> = ids.iter().map(|id| json!({"tool_name": "Bash", "tool_use_id": id})).collect();
    lines.push(json!({"type": "result", "subtype": "success", "is_error": false, "result": "done",
        "permission_denials": denials}));
    env(&lines, "")
}

#[test]
fn a_denial_names_the_command_and_who_denied_it() {
    let env = denied(&["touch a.txt", "touch a.txt"]);
    let words = ["run", "claude", "make it", "--permission", "yolo", "--deny", "Bash(touch:*)"];
    let run = volery(&env, &words).ok();
    assert_eq!(run.stdout, "done");
    insta::assert_snapshot!(env.masked(&run.stderr), @"
    warning: claude does not tell its version (asked with --version, it says something else); [version] to [version] is what volery fits
    [run-id] succeeded, 2 denied in [span]
    warning: denied: Bash(touch a.txt): the rule deny Bash(touch:*), set by the command line
    ");
    let waited = volery(&env, &["wait"]).ok();
    insta::assert_snapshot!(env.masked(&waited.stderr), @"
    the last run: [run-id] claude: make it
    [run-id] succeeded, 2 denied in [span]
    warning: denied: Bash(touch a.txt): the rule deny Bash(touch:*), set by the command line
    ");
    let shown: Value = volery(&env, &["show", "--json"]).ok().json();
    insta::assert_snapshot!(env.masked_texts(&shown["warnings"]), @"claude does not tell its version (asked with --version, it says something else); [version] to [version] is what volery fits");
}

#[test]
fn many_denials_are_counted() {
    let commands: Vec<String> = (0..12).map(|number| format!("touch {number}.txt")).collect();
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let env = denied(&commands);
    let words = ["run", "claude", "make it", "--permission", "yolo", "--deny", "Bash(touch:*)"];
    let run = volery(&env, &words).ok();
    insta::assert_snapshot!(env.masked(&run.stderr), @"
    warning: claude does not tell its version (asked with --version, it says something else); [version] to [version] is what volery fits
    [run-id] succeeded, 12 denied in [span]
    warning: denied: Bash(touch 0.txt): the rule deny Bash(touch:*), set by the command line
    warning: denied: Bash(touch 1.txt): the rule deny Bash(touch:*), set by the command line
    warning: denied: Bash(touch 2.txt): the rule deny Bash(touch:*), set by the command line
    warning: denied: Bash(touch 3.txt): the rule deny Bash(touch:*), set by the command line
    warning: denied: Bash(touch 4.txt): the rule deny Bash(touch:*), set by the command line
    warning: 7 more denials; to list them: volery show [run-id]
    ");
    let mut client = crate::test_env::Client::start(command(&env, &["serve"])).initialize("it");
    let id = env.only_run();
    let report = client.call("get_run", json!({"run_id": id}));
    let denials = report["denials"].as_array().unwrap();
    assert_eq!((denials.len(), &report["denials_count"]), (10, &json!(12)), "{report}");
    let first = json!({"tool": "Bash", "subject": "touch 0.txt", "reason": "the rule deny Bash(touch:*), set by the command line"});
    assert_eq!(denials[0], first);
}

#[test]
fn a_denial_that_nobody_could_lift_is_reported_once_with_the_command() {
    let ask = json!({"type": "control_request", "request_id": "r1", "request":
        {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "make all"}}});
    let result = json!({"type": "result", "subtype": "success", "is_error": false, "result": "done"});
    // The answer must be read before the program ends.
    let env = env(
        &[ask],
        &format!(
            "while read -r line; do case $line in *control_response*) break;; esac; done\necho '{result}'"
        ),
    );
    let run = volery(&env, &["run", "claude", "make it"]).ok();
    insta::assert_snapshot!(env.masked(&run.stderr), @"
    warning: claude does not tell its version (asked with --version, it says something else); [version] to [version] is what volery fits
    [run-id] succeeded, 1 denied in [span]
    warning: denied: Bash(make all): nobody can answer: the command has no terminal; --allow 'Bash(make all)' allows it
    ");
}

#[test]
fn a_time_out_says_that_the_models_service_cannot_be_reached() {
    let again = json!({"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": null,
        "error": "unknown"});
    let env = env(&[again], "exec sleep 60");
    let run = volery(&env, &["run", "claude", "hi", "--timeout", "3s"]).exits(4);
    insta::assert_snapshot!(env.masked(&run.stderr), @"
    warning: claude does not tell its version (asked with --version, it says something else); [version] to [version] is what volery fits
    warning: claude asks its model again: no answer from its service (unknown)
    warning: the total time-out passed
    [run-id] timed out: the total time-out passed: the model's service cannot be reached; claude asks its model again: no answer from its service (unknown), after [span]
    hint: volery show [run-id] tells all that is known about it
    ");
    assert!(!volery(&env, &["show"]).ok().stdout.contains("null"));
}

#[test]
fn the_protocol_of_a_program_is_not_what_its_agent_says() {
    let env = env(&[], "exec sleep 60");
    let id = volery(&env, &["run", "claude", "hi", "--background"]).ok().stdout.trim().to_owned();
    env.wait_for_event(&id, "session_named");
    let shown: Value = volery(&env, &["show", &id, "--json"]).ok().json();
    assert_eq!((&shown["status"], shown.get("partial")), (&json!("running"), None), "{shown}");
    assert!(!volery(&env, &["show", &id]).ok().stdout.contains("so far\n"), "no text, no section");
    let mut client = crate::test_env::Client::start(command(&env, &["serve"])).initialize("it");
    let report = client.call("get_run", json!({"run_id": id}));
    assert_eq!(report.get("partial_text"), None, "{report}");
    volery(&env, &["cancel", &id]).ok();
}
