//! `--tools per-agent`: each agent is a tool of its own, in addition to the native ones.

use serde_json::{Value, json};

use crate::test_env::{Client, TestEnv};

#[test]
fn each_agent_is_a_tool_and_its_call_is_a_run_of_it() {
    let env = TestEnv::new();
    env.rehearsal("shout", "- say: \"{prompt}!\"", "use_when: [It must be loud]");
    env.rehearsal("Odd-Name", "- say: odd", "");
    env.agent("broken", "backend: nowhere");
    let mut client = Client::start(env.command(["serve", "--tools", "per-agent"])).initialize("test");
    let tools = client.request("tools/list", json!({}))["tools"].as_array().unwrap().clone();
    let find_tool = |name: &str| tools.iter().find(|tool| tool["name"] == json!(name)).cloned();
    assert_eq!(tools.len(), 9 + 2, "{tools:?}");
    assert!(find_tool("agent_odd_name").is_some() && find_tool("agent_broken").is_none());
    let shout = find_tool("agent_shout").unwrap();
    assert_eq!(shout["description"], json!("for a test\n\nUse when:\n- It must be loud"));
    assert_eq!(shout["inputSchema"]["required"], json!(["prompt"]));
    assert_eq!(shout["inputSchema"]["properties"].get("agent"), None::<&Value>);
    let answer = client.call("agent_shout", json!({"prompt": "hi"}));
    assert_eq!((&answer["agent"], &answer["result"]), (&json!("shout"), &json!("hi!\n")));
    let refused = client.refused("agent_shout", json!({}));
    insta::assert_snapshot!(env.masked(&refused), @"
    the arguments of run_agent cannot be used:
    - prompt is missing
    Correct them and call run_agent again
    ");
}

#[test]
fn without_the_native_dialect_it_is_refused() {
    let env = TestEnv::new();
    let refused = env.volery(["serve", "--tools", "per-agent", "--dialect", "codex"]).exits(2);
    insta::assert_snapshot!(env.masked(&refused.stderr), @"error: --tools per-agent is for the dialect volery, and this server does not speak it");
}

#[test]
fn an_agent_that_gets_no_tool_is_named() {
    let env = TestEnv::new();
    env.rehearsal("a-b", "- say: one", "");
    env.rehearsal("a_b", "- say: two", "");
    let mut command = env.command(["serve", "--tools", "per-agent"]);
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    insta::assert_snapshot!(env.masked(&stderr), @"(--tools per-agent): warning: a_b has no tool of its own: a-b has the tool agent_a_b (hint: run_agent starts it by name)");
}
