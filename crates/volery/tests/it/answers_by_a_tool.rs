//! An agent of Kiro's that may not write files hands in its answer by a tool of ours.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::test_env::{CommandOutput, TestEnv, command_output};

/// Stands in for kiro-cli: finds the agent's file as Kiro does, starts the server that it names, and calls its tool.
const KIRO: &str = r#"#!/bin/sh
[ "$*" = --version ] && echo kiro-cli 2.3.0 && exit
while [ $# -gt 1 ]; do [ "$1" = --agent ] && agent=$2; shift; done
prompt=$1
file=$KIRO_HOME/agents/$agent.json
[ -f "$file" ] || { echo "no agent $agent" >&2; exit 4; }
cp "$file" "$HOME/seen.json"
printf '%s' "$prompt" > "$HOME/prompt.txt"
server=$(sed -n 's/.*"volery_answer":{[^}]*"command":"\([^"]*\)".*/\1/p' "$file")
word=$(sed -n 's/.*"volery_answer":{[^}]*"args":\["\([^"]*\)".*/\1/p' "$file")
[ "$1" = "${1#*tools}" ] || printf 'Using tool: fs_read\n ● Completed\n'
if [ "$1" != "${1#*nothing}" ]; then echo "▸ Credits: 0.1 • Time: 1s" >&2; exit 0; fi
{
  echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}'
  echo '{"jsonrpc":"2.0","method":"notifications/initialized"}'
  echo '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"submit_result","arguments":{"result":"the answer"}}}'
} | "$server" "$word" > "$HOME/told.txt"
[ "$1" = "${1#*talk}" ] || echo "> I handed it in."
echo "▸ Credits: 0.1 • Time: 1s" >&2
"#;

fn env(allowed: &str) -> TestEnv {
    env_with("\"fs_read\"", allowed)
}

fn env_with(tools: &str, allowed: &str) -> TestEnv {
    let env = TestEnv::new();
    fs::create_dir_all(env.path("bin")).unwrap();
    fs::write(env.path("bin/kiro-cli"), KIRO).unwrap();
    fs::set_permissions(env.path("bin/kiro-cli"), PermissionsExt::from_mode(0o755)).unwrap();
    let write = |path: std::path::PathBuf, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let agent = format!(
        "{{\"name\": \"helper\", \"description\": \"sub-agent: helps\", \"prompt\": \"file://./helper.txt\",
          \"tools\": [{tools}], \"allowedTools\": [{allowed}], \"resources\": [\"file://README.md\"]}}"
    );
    write(env.path("home/.kiro/agents/helper.json"), &agent);
    write(env.path("home/.kiro/sub-agents/prompts/_system.md"), "To {{RESPONSE_FILE}}");
    env
}

fn volery(env: &TestEnv, words: &[&str]) -> CommandOutput {
    let path = format!("{}:{}", env.path("bin").display(), std::env::var("PATH").unwrap());
    command_output(env.command(words).env("PATH", path).output().unwrap())
}

#[test]
fn which_is_the_answer_and_in_the_journal() {
    let env = env("\"fs_read\"");
    for prompt in ["do it", "talk and do it"] {
        let output = volery(&env, &["run", "helper", prompt]).ok();
        assert_eq!(output.stdout.trim_end(), "the answer", "{output:?}");
    }
    let run = &env.runs()[0];
    assert_eq!(env.wait_for_event(run, "result_submitted")["text"], json!("the answer"));
    let seen: Value = serde_json::from_slice(&fs::read(env.path("home/seen.json")).unwrap()).unwrap();
    assert_eq!(seen["tools"], json!(["fs_read", "@volery_answer"]));
    assert_eq!(seen["allowedTools"], json!(["fs_read", "@volery_answer/submit_result"]));
    assert_eq!(seen["resources"], json!(["file://README.md"]));
    let prompt = format!("file://{}", env.path("home/.kiro/agents/helper.txt").display());
    assert_eq!(seen["prompt"], json!(prompt));
    let received_prompt = fs::read_to_string(env.path("home/prompt.txt")).unwrap();
    assert!(
        received_prompt.starts_with("In directory /") && received_prompt.contains("submit_result"),
        "{received_prompt}"
    );
    assert!(!received_prompt.contains("response.txt"), "{received_prompt}");
}

#[test]
fn and_an_agent_that_hands_in_nothing_has_not_answered() {
    let env = env("\"fs_read\"");
    let errors = ["do nothing", "use tools and do nothing"]
        .map(|prompt| env.masked(&volery(&env, &["run", "helper", prompt]).exits(1).stderr));
    insta::assert_snapshot!(errors.concat(), @"
    [run-id] failed: the agent's output could not be used: there is no answer, after [span]
    hint: volery show [run-id] tells all that is known about it
    [run-id] failed: the agent's output could not be used: there is no answer, after [span]
    hint: volery show [run-id] tells all that is known about it
    ");
}

#[test]
fn and_a_check_says_how_each_agent_answers() {
    let mut messages = String::new();
    let (read, write) = ("\"fs_read\"", "\"fs_write\"");
    for (tools, allowed, way) in [
        ("\"*\"", read, "submit_result"),
        // What is not among its tools it cannot use.
        (read, write, "submit_result"),
        (write, write, "file"),
    ] {
        let env = env_with(tools, allowed);
        env.rehearsal("plain", "- say: x", "");
        let checked = volery(&env, &["agents", "check"]).ok();
        messages += &env.masked(&checked.stderr);
        let list: Value = volery(&env, &["agents", "check", "--json"]).ok().json();
        let agents = list["agents"].as_array().unwrap();
        let defined = agents.iter().filter(|agent| agent["built_in"] != json!(true));
        let ways: Vec<_> = defined.map(|agent| (&agent["name"], &agent["answers_by"])).collect();
        assert_eq!(ways, [(&json!("helper"), &json!(way)), (&json!("plain"), &json!("output"))]);
    }
    insta::assert_snapshot!(messages, @"
    helper answers by the tool submit_result
    2 agents, 0 of them blocked, 0 errors, 1 warning
    helper answers by the tool submit_result
    2 agents, 0 of them blocked, 0 errors, 1 warning
    helper answers into a file
    2 agents, 0 of them blocked, 0 errors, 0 warnings
    ");
}
