//! The dialect of Jarvis with a program that stands in for Claude Code.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::stage::{Client, Stage};

/// Writes down its words and variables, and answers.
const CLAUDE: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo '2.1.325 (Claude Code)'; exit 0; }
for word in "$@"; do printf '%s\n' "$word"; done > "RECORD.words"
env > "RECORD.env"
read -r prompt
session='"session_id":"11111111-1111-1111-1111-111111111111"'
echo '{"type":"system","subtype":"init",'$session',"model":"sonnet","tools":[]}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"an answer",'$session'}'
"#;

fn agent(home: &Path, name: &str, frontmatter: &str) {
    let folder = home.join("agents").join(name);
    fs::create_dir_all(&folder).unwrap();
    let text = format!("---\nname: {name}\ndescription: Helps.\n{frontmatter}---\nYou help.\n");
    fs::write(folder.join("agent.md"), text).unwrap();
}

fn serve(stage: &Stage, home: &Path) -> Client {
    let bin = stage.path("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join("claude"), CLAUDE.replace("RECORD", &stage.path("record").display().to_string()))
        .unwrap();
    fs::set_permissions(bin.join("claude"), PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = stage.command(["serve", "--dialect", "jarvis"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).env("JARVIS_HOME", home);
    command.env("AVIARY_COLOUR", "blue").env("VOLERY_SLOTS", "3");
    Client::start(command).initialize("test")
}

fn run(client: &mut Client, arguments: Value) -> Value {
    client.request("tools/call", json!({"name": "run_subagent", "arguments": arguments}))
}

fn recorded(stage: &Stage, what: &str) -> String {
    fs::read_to_string(stage.path("record").with_extension(what)).unwrap()
}

/// Differs from jarvis: `JARVIS_HOME` in the user's home or `/` | agents that may edit do so everywhere there | they may not edit in the
///    folders there that hold Volery's own files, which the answer names
#[test]
fn an_agent_works_in_its_users_home_and_cannot_edit_volerys_own_folders() {
    let stage = Stage::new();
    let home = stage.path("state").parent().unwrap().to_owned();
    agent(&home, "editor", "permissions:\n  allow: [Edit]\n");
    let result = run(&mut serve(&stage, &home), json!({"agent_name": "editor", "prompt": "x"}));
    assert_eq!(result["structuredContent"]["result"], json!("an answer"), "{result}");
    let words = recorded(&stage, "words");
    let denied = words
        .lines()
        .find(|word| word.starts_with("--disallowedTools="))
        .unwrap_or_else(|| panic!("{words}"));
    assert!(denied.contains("Edit(//"), "{denied}");
    let note = result["structuredContent"]["notes"][0].as_str().unwrap();
    assert!(note.starts_with("withheld: edits in //"), "{result}");
}

/// Differs from jarvis: the environment of an agent | all of the server's | all of the server's, without Volery's own variables
/// Differs from jarvis: a parameter that the tool does not have | ignored without a word | ignored, and a note names it
/// Differs from jarvis: the answer | text | the text, and the same as structured content
#[test]
fn an_agent_gets_the_servers_environment_and_what_is_no_parameter_is_named() {
    let stage = Stage::new();
    agent(&stage.project(), "helper", "");
    let arguments = json!({"agent_name": "helper", "prompt": "x", "model": "opus"});
    let result = run(&mut serve(&stage, &stage.project()), arguments);
    let variables = recorded(&stage, "env");
    assert!(variables.lines().any(|line| line == "AVIARY_COLOUR=blue"), "{variables}");
    assert!(!variables.contains("VOLERY_SLOTS"), "{variables}");
    assert!(result.to_string().contains("model is not a parameter of run_subagent"), "{result}");
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text["result"], json!("an answer"), "{result}");
    assert_eq!(result["structuredContent"]["result"], json!("an answer"), "{result}");
}

/// Differs from jarvis: `${VAR}` of a server whose variable is not set | empty | the call fails and names the variable; `${VAR:-}` is
///    empty
#[test]
fn a_variable_that_is_not_set_is_named() {
    let stage = Stage::new();
    let server = |text: &str| {
        format!("mcp_servers:\n  - name: birds\n    command: \"true\"\n    env:\n      KEY: \"{text}\"\n")
    };
    agent(&stage.project(), "strict", &server("${AVIARY_KEY}"));
    agent(&stage.project(), "lenient", &server("${AVIARY_KEY:-}"));
    stage.volery(["trust", "--yes"]).ok();
    let mut client = serve(&stage, &stage.project());
    let refused = run(&mut client, json!({"agent_name": "strict", "prompt": "x"}));
    assert_eq!(refused["isError"], json!(true), "{refused}");
    assert!(refused.to_string().contains("AVIARY_KEY"), "{refused}");
    let taken = run(&mut client, json!({"agent_name": "lenient", "prompt": "x"}));
    assert_eq!(taken["structuredContent"]["result"], json!("an answer"), "{taken}");
}

/// Differs from jarvis: the file of an agent that is wrong | skipped, and the log says so | the same, and `volery agents check` names the
///    line; one that was changed counts for the next call
#[test]
fn a_changed_file_counts_for_the_next_call() {
    let stage = Stage::new();
    agent(&stage.project(), "helper", "timeout_ms: 1000\n");
    let mut client = serve(&stage, &stage.project());
    run(&mut client, json!({"agent_name": "helper", "prompt": "x"}));
    agent(&stage.project(), "helper", "timeout_ms: 2000\n");
    run(&mut client, json!({"agent_name": "helper", "prompt": "y"}));
    let limits = |run: &String| stage.spec(run)["limits"]["timeout_ms"].clone();
    let timeouts: Vec<Value> = stage.runs().iter().map(limits).collect();
    assert_eq!(timeouts, [json!(1000), json!(2000)]);
    fs::create_dir_all(stage.project().join("agents/broken")).unwrap();
    fs::write(stage.project().join("agents/broken/agent.md"), "---\nname: broken\n---\nNo description.")
        .unwrap();
    let unknown = run(&mut client, json!({"agent_name": "broken", "prompt": "x"}));
    assert_eq!(unknown["content"][0]["text"], json!("Unknown agent: \"broken\". Available: helper"));
}
