//! An agent of Kiro's that may not write files hands in its answer by a tool of ours.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::stage::{Said, Stage, said};

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

fn stage(allowed: &str) -> Stage {
    stage_with("\"fs_read\"", allowed)
}

fn stage_with(tools: &str, allowed: &str) -> Stage {
    let stage = Stage::new();
    fs::create_dir_all(stage.path("bin")).unwrap();
    fs::write(stage.path("bin/kiro-cli"), KIRO).unwrap();
    fs::set_permissions(stage.path("bin/kiro-cli"), PermissionsExt::from_mode(0o755)).unwrap();
    let write = |path: std::path::PathBuf, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let agent = format!(
        "{{\"name\": \"helper\", \"description\": \"sub-agent: helps\", \"prompt\": \"file://./helper.txt\",
          \"tools\": [{tools}], \"allowedTools\": [{allowed}], \"resources\": [\"file://README.md\"]}}"
    );
    write(stage.path("home/.kiro/agents/helper.json"), &agent);
    write(stage.path("home/.kiro/sub-agents/prompts/_system.md"), "To {{RESPONSE_FILE}}");
    stage
}

fn volery(stage: &Stage, words: &[&str]) -> Said {
    let path = format!("{}:{}", stage.path("bin").display(), std::env::var("PATH").unwrap());
    said(stage.command(words).env("PATH", path).output().unwrap())
}

#[test]
fn which_is_the_answer_and_in_the_journal() {
    let stage = stage("\"fs_read\"");
    for prompt in ["do it", "talk and do it"] {
        let told = volery(&stage, &["run", "helper", prompt]).ok();
        assert_eq!(told.stdout.trim_end(), "the answer", "{told:?}");
    }
    let run = &stage.runs()[0];
    assert_eq!(stage.event(run, "result_submitted")["text"], json!("the answer"));
    let seen: Value = serde_json::from_slice(&fs::read(stage.path("home/seen.json")).unwrap()).unwrap();
    assert_eq!(seen["tools"], json!(["fs_read", "@volery_answer"]));
    assert_eq!(seen["allowedTools"], json!(["fs_read", "@volery_answer/submit_result"]));
    assert_eq!(seen["resources"], json!(["file://README.md"]));
    let prompt = format!("file://{}", stage.path("home/.kiro/agents/helper.txt").display());
    assert_eq!(seen["prompt"], json!(prompt));
    let asked = fs::read_to_string(stage.path("home/prompt.txt")).unwrap();
    assert!(asked.starts_with("In directory /") && asked.contains("submit_result"), "{asked}");
    assert!(!asked.contains("response.txt"), "{asked}");
}

#[test]
fn and_an_agent_that_hands_in_nothing_has_not_answered() {
    let stage = stage("\"fs_read\"");
    for prompt in ["do nothing", "use tools and do nothing"] {
        let told = volery(&stage, &["run", "helper", prompt]);
        assert_eq!(told.code, 1, "{told:?}");
        assert!(told.stderr.contains("there is no answer"), "{told:?}");
    }
}

#[test]
fn and_a_check_says_how_each_agent_answers() {
    let (read, write) = ("\"fs_read\"", "\"fs_write\"");
    for (tools, allowed, way) in [
        ("\"*\"", read, "submit_result"),
        // What is not among its tools it cannot use.
        (read, write, "submit_result"),
        (write, write, "file"),
    ] {
        let stage = stage_with(tools, allowed);
        stage.rehearsal("plain", "- say: x", "");
        let told = volery(&stage, &["agents", "check"]).ok();
        assert!(told.stderr.contains("helper answers"), "{told:?}");
        let list: Value = volery(&stage, &["agents", "check", "--json"]).ok().json();
        let agents = list["agents"].as_array().unwrap();
        let defined = agents.iter().filter(|agent| agent["built_in"] != json!(true));
        let ways: Vec<_> = defined.map(|agent| (&agent["name"], &agent["answers_by"])).collect();
        assert_eq!(ways, [(&json!("helper"), &json!(way)), (&json!("plain"), &json!("output"))]);
    }
}
