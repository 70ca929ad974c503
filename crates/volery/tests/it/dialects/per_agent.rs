//! `--tools per-agent`: each agent is a tool of its own, beside the native ones.

use serde_json::{Value, json};

use crate::stage::{Client, Stage};

#[test]
fn each_agent_is_a_tool_and_its_call_is_a_run_of_it() {
    let stage = Stage::new();
    stage.rehearsal("shout", "- say: \"{prompt}!\"", "use_when: [It must be loud]");
    stage.rehearsal("Odd-Name", "- say: odd", "");
    stage.agent("broken", "backend: nowhere");
    let mut client = Client::start(stage.command(["serve", "--tools", "per-agent"])).initialize("test");
    let tools = client.request("tools/list", json!({}))["tools"].as_array().unwrap().clone();
    let named = |name: &str| tools.iter().find(|tool| tool["name"] == json!(name)).cloned();
    assert_eq!(tools.len(), 9 + 2, "{tools:?}");
    assert!(named("agent_odd_name").is_some() && named("agent_broken").is_none());
    let shout = named("agent_shout").unwrap();
    assert_eq!(shout["description"], json!("for a test\n\nUse when:\n- It must be loud"));
    assert_eq!(shout["inputSchema"]["required"], json!(["prompt"]));
    assert_eq!(shout["inputSchema"]["properties"].get("agent"), None::<&Value>);
    let said = client.call("agent_shout", json!({"prompt": "hi"}));
    assert_eq!((&said["agent"], &said["result"]), (&json!("shout"), &json!("hi!\n")));
    let refused = client.refused("agent_shout", json!({}));
    assert!(refused.contains("prompt"), "{refused}");
}

#[test]
fn without_the_native_dialect_it_is_refused() {
    let stage = Stage::new();
    let refused = stage.volery(["serve", "--tools", "per-agent", "--dialect", "codex"]).exits(2);
    assert!(refused.stderr.contains("this server does not speak it"), "{refused:?}");
}

#[test]
fn an_agent_that_gets_no_tool_is_named() {
    let stage = Stage::new();
    stage.rehearsal("a-b", "- say: one", "");
    stage.rehearsal("a_b", "- say: two", "");
    let mut command = stage.command(["serve", "--tools", "per-agent"]);
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("has no tool of its own") && told.contains("agent_a_b"), "{told}");
}
