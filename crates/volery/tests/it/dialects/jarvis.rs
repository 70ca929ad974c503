//! The dialect of Jarvis with a fake Claude Code.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::test_env::{Client, TestEnv};

/// Records its arguments and variables, and answers.
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

fn serve(env: &TestEnv, home: &Path) -> Client {
    let bin = env.path("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join("claude"), CLAUDE.replace("RECORD", &env.path("record").display().to_string()))
        .unwrap();
    fs::set_permissions(bin.join("claude"), PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = env.command(["serve", "--dialect", "jarvis"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).env("JARVIS_HOME", home);
    command.env("AVIARY_COLOUR", "blue").env("VOLERY_SLOTS", "3");
    Client::start(command).initialize("test")
}

fn run(client: &mut Client, arguments: Value) -> Value {
    client.request("tools/call", json!({"name": "run_subagent", "arguments": arguments}))
}

fn recorded(env: &TestEnv, what: &str) -> String {
    fs::read_to_string(env.path("record").with_extension(what)).unwrap()
}

/// Differs from jarvis: `JARVIS_HOME` in the user's home or `/` | agents that may edit do so everywhere there | they may not edit in the
///    folders there that hold Volery's own files, which the answer names
#[test]
fn an_agent_works_in_its_users_home_and_cannot_edit_volerys_own_folders() {
    let env = TestEnv::new();
    let home = env.path("state").parent().unwrap().to_owned();
    agent(&home, "editor", "permissions:\n  allow: [Edit]\n");
    let result = run(&mut serve(&env, &home), json!({"agent_name": "editor", "prompt": "x"}));
    assert_eq!(result["structuredContent"]["result"], json!("an answer"), "{result}");
    let argv = recorded(&env, "words");
    let denied = argv
        .lines()
        .find(|argument| argument.starts_with("--disallowedTools="))
        .unwrap_or_else(|| panic!("{argv}"));
    assert!(denied.contains("Edit(//"), "{denied}");
    insta::assert_snapshot!(env.masked_texts(&result["structuredContent"]["notes"]), @"
    withheld: edits in /[stage]/config/**: Volery's own files are there
    withheld: edits in /[stage]/state/**: Volery's own files are there
    ");
}

/// Differs from jarvis: the environment of an agent | all of the server's | all of the server's, without Volery's own variables
/// Differs from jarvis: a parameter that the tool does not have | ignored without a word | ignored, and a note names it
/// Differs from jarvis: the answer | text | the text, and the same as structured content
#[test]
fn an_agent_gets_the_servers_environment_and_unknown_parameters_are_named() {
    let env = TestEnv::new();
    agent(&env.project(), "helper", "");
    let arguments = json!({"agent_name": "helper", "prompt": "x", "model": "opus"});
    let result = run(&mut serve(&env, &env.project()), arguments);
    let variables = recorded(&env, "env");
    assert!(variables.lines().any(|line| line == "AVIARY_COLOUR=blue"), "{variables}");
    assert!(!variables.contains("VOLERY_SLOTS"), "{variables}");
    insta::assert_snapshot!(env.masked_texts(&result["content"][1]["text"]), @"model is not a parameter of run_subagent and was ignored");
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text["result"], json!("an answer"), "{result}");
    assert_eq!(result["structuredContent"]["result"], json!("an answer"), "{result}");
}

/// Differs from jarvis: `${VAR}` of a server whose variable is not set | empty | the call fails and names the variable; `${VAR:-}` is
///    empty
#[test]
fn a_variable_that_is_not_set_is_named() {
    let env = TestEnv::new();
    let server = |text: &str| {
        format!("mcp_servers:\n  - name: birds\n    command: \"true\"\n    env:\n      KEY: \"{text}\"\n")
    };
    agent(&env.project(), "strict", &server("${AVIARY_KEY}"));
    agent(&env.project(), "lenient", &server("${AVIARY_KEY:-}"));
    env.volery(["trust", "--yes"]).ok();
    let mut client = serve(&env, &env.project());
    let refused = run(&mut client, json!({"agent_name": "strict", "prompt": "x"}));
    assert_eq!(refused["isError"], json!(true), "{refused}");
    insta::assert_snapshot!(env.masked_texts(&refused["content"][0]["text"]), @r#"Subagent "strict" failed (cli_error): the agent could not be started: a process for the agent could not be made: these variables are needed and not set: AVIARY_KEY"#);
    let taken = run(&mut client, json!({"agent_name": "lenient", "prompt": "x"}));
    assert_eq!(taken["structuredContent"]["result"], json!("an answer"), "{taken}");
}

/// Differs from jarvis: the file of an agent that is wrong | skipped, and the log says so | the same, and `volery agents check` names the
///    line; one that was changed counts for the next call
#[test]
fn a_changed_file_counts_for_the_next_call() {
    let env = TestEnv::new();
    agent(&env.project(), "helper", "timeout_ms: 1000\n");
    let mut client = serve(&env, &env.project());
    run(&mut client, json!({"agent_name": "helper", "prompt": "x"}));
    agent(&env.project(), "helper", "timeout_ms: 2000\n");
    run(&mut client, json!({"agent_name": "helper", "prompt": "y"}));
    let limits = |run: &String| env.spec(run)["limits"]["timeout_ms"].clone();
    let timeouts: Vec<Value> = env.runs().iter().map(limits).collect();
    assert_eq!(timeouts, [json!(1000), json!(2000)]);
    fs::create_dir_all(env.project().join("agents/broken")).unwrap();
    fs::write(env.project().join("agents/broken/agent.md"), "---\nname: broken\n---\nNo description.")
        .unwrap();
    let unknown = run(&mut client, json!({"agent_name": "broken", "prompt": "x"}));
    assert_eq!(unknown["content"][0]["text"], json!("Unknown agent: \"broken\". Available: helper"));
}
