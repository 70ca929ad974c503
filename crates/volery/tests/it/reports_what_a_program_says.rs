//! What a vendor's program writes reaches people as a sentence: what was denied and by whom, why the model is late, and
//! nothing of the protocol itself. A script plays Claude Code and writes lines that the real program wrote.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::stage::{Said, Stage, said};

const INIT: &str =
    r#"{"type":"system","subtype":"init","session_id":"0198c1de-0000-4000-8000-000000000001","model":"m"}"#;

/// A stage whose `claude` writes these lines and then executes a command of the shell.
fn stage(lines: &[Value], then: &str) -> Stage {
    let stage = Stage::new();
    let program = stage.path("bin/claude");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    let text = [&[INIT.to_owned()], lines.as_slice()].concat().join("\n");
    let script = format!("#!/bin/sh\n[ \"$1\" = --version ] && exit 0\ncat <<'END'\n{text}\nEND\n{then}\n");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    stage
}

fn command(stage: &Stage, words: &[&str]) -> Command {
    let mut command = stage.command(words);
    command.env("PATH", format!("{}:/usr/bin:/bin", stage.path("bin").display())).stdin(Stdio::null());
    command
}

fn volery(stage: &Stage, words: &[&str]) -> Said {
    said(command(stage, words).output().unwrap())
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
fn denied(commands: &[&str]) -> Stage {
    let ids: Vec<String> = (0..commands.len()).map(|number| format!("t{number}")).collect();
    let mut lines: Vec<Value> =
        ids.iter().zip(commands).flat_map(|(id, command)| use_of_bash(id, command)).collect();
    let denials: Vec<Value> = ids.iter().map(|id| json!({"tool_name": "Bash", "tool_use_id": id})).collect();
    lines.push(json!({"type": "result", "subtype": "success", "is_error": false, "result": "done",
        "permission_denials": denials}));
    stage(&lines, "")
}

#[test]
fn a_denial_names_the_command_and_who_denied_it() {
    let stage = denied(&["touch a.txt", "touch a.txt"]);
    let words = ["run", "claude", "make it", "--permission", "yolo", "--deny", "Bash(touch:*)"];
    let run = volery(&stage, &words).ok();
    assert_eq!(run.stdout, "done");
    let sentence = "denied: Bash(touch a.txt): the rule deny Bash(touch:*), set by the command line";
    assert_eq!(run.stderr.matches(sentence).count(), 1, "{}", run.stderr);
    let waited = volery(&stage, &["wait"]).ok();
    assert_eq!(waited.stderr.matches(sentence).count(), 1, "{}", waited.stderr);
    let shown: Value = volery(&stage, &["show", "--json"]).ok().json();
    let warnings = shown["warnings"].as_array().unwrap().iter();
    assert_eq!(warnings.filter(|warning| **warning == json!(sentence)).count(), 1, "{shown}");
}

#[test]
fn many_denials_are_counted() {
    let commands: Vec<String> = (0..12).map(|number| format!("touch {number}.txt")).collect();
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let stage = denied(&commands);
    let words = ["run", "claude", "make it", "--permission", "yolo", "--deny", "Bash(touch:*)"];
    let run = volery(&stage, &words).ok();
    assert_eq!(run.stderr.matches("denied: Bash(touch ").count(), 5, "{}", run.stderr);
    assert!(run.stderr.contains("denied: 7 more, listed by volery show "), "{}", run.stderr);
    let mut client = crate::stage::Client::start(command(&stage, &["serve"])).initialize("it");
    let id = stage.only_run();
    let report = client.call("get_run", json!({"run_id": id}));
    let warnings = report["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 10, "{report}");
    let shown: Value = volery(&stage, &["show", "--json"]).ok().json();
    let all = shown["warnings"].as_array().unwrap().len();
    let more = format!("{} more warnings: `volery show RUN` has them", all - 9);
    assert_eq!(warnings[9], json!(more), "{report}");
    assert!(warnings[..9].iter().all(|one| one.as_str().unwrap().starts_with("denied: ")), "{report}");
}

#[test]
fn what_nobody_could_allow_is_said_once_and_with_the_command() {
    let ask = json!({"type": "control_request", "request_id": "r1", "request":
        {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "make all"}}});
    let result = json!({"type": "result", "subtype": "success", "is_error": false, "result": "done"});
    // The answer must be read before the program ends.
    let stage = stage(
        &[ask],
        &format!(
            "while read -r line; do case $line in *control_response*) break;; esac; done\necho '{result}'"
        ),
    );
    let run = volery(&stage, &["run", "claude", "make it"]).ok();
    let sentence = "denied: Bash(make all): nobody can answer: the command has no terminal\n";
    assert!(run.stderr.contains(sentence), "{}", run.stderr);
}

#[test]
fn a_time_out_says_that_the_models_service_cannot_be_reached() {
    let again = json!({"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": null,
        "error": "unknown"});
    let stage = stage(&[again], "exec sleep 60");
    let run = volery(&stage, &["run", "claude", "hi", "--timeout", "3s"]).exits(4);
    assert!(
        run.stderr.contains(
            "timed out: the total time-out passed: the model's service cannot be reached; claude asks its model again: no answer from its service (unknown)"
        ),
        "{}",
        run.stderr
    );
    assert!(!volery(&stage, &["show"]).ok().stdout.contains("null"));
}

#[test]
fn the_protocol_of_a_program_is_not_what_its_agent_says() {
    let stage = stage(&[], "exec sleep 60");
    let id = volery(&stage, &["run", "claude", "hi", "--background"]).ok().stdout.trim().to_owned();
    stage.event(&id, "session_named");
    let shown: Value = volery(&stage, &["show", &id, "--json"]).ok().json();
    assert_eq!((&shown["status"], shown.get("partial")), (&json!("running"), None), "{shown}");
    assert!(!volery(&stage, &["show", &id]).ok().stdout.contains("so far\n"), "no text, no section");
    let mut client = crate::stage::Client::start(command(&stage, &["serve"])).initialize("it");
    let report = client.call("get_run", json!({"run_id": id}));
    assert_eq!(report.get("partial_text"), None, "{report}");
    volery(&stage, &["cancel", &id]).ok();
}
