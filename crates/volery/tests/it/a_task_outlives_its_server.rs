//! The Tasks extension is backed by the journal: a task that one server made is answered by the next.

use serde_json::{Value, json};

use crate::test_env::{Client, PATIENCE, TestEnv, wait_for};

/// Asks as clients of the newer generation do, with the extension declared.
fn ask(client: &mut Client, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "it", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    client.request(method, params)
}

#[test]
fn also_when_the_server_was_killed() {
    let env = TestEnv::new();
    let wait = format!("wait-file:{}", env.path("go").display());
    env.fake("slow", &["say:first", &wait, "say:second"], "");
    let mut client = env.serve();
    let arguments = json!({"agent": "slow", "prompt": "x", "directory": env.project()});
    let created = ask(&mut client, "tools/call", json!({"name": "run_agent", "arguments": arguments}));
    assert_eq!(
        (&created["resultType"], &created["status"]),
        (&json!("task"), &json!("working")),
        "{created}"
    );
    client.kill();
    let mut other = env.serve();
    let task = json!({"taskId": created["taskId"]});
    assert_eq!(ask(&mut other, "tasks/get", task.clone())["status"], json!("working"));
    std::fs::write(env.path("go"), "").unwrap();
    let done = wait_for(PATIENCE, "the task to be completed", || {
        Some(ask(&mut other, "tasks/get", task.clone())).filter(|got| got["status"] == json!("completed"))
    });
    assert_eq!(done["result"]["structuredContent"]["result"], json!("first\nsecond\n"), "{done}");
}

#[test]
fn and_a_task_can_be_cancelled_from_there() {
    let env = TestEnv::new();
    env.rehearsal("slow", "- sleep: 60s", "");
    let mut client = env.serve();
    let arguments = json!({"agent": "slow", "prompt": "x", "directory": env.project()});
    let created = ask(&mut client, "tools/call", json!({"name": "run_agent", "arguments": arguments}));
    client.kill();
    let mut other = env.serve();
    let task = json!({"taskId": created["taskId"]});
    ask(&mut other, "tasks/cancel", task.clone());
    wait_for(PATIENCE, "the task to be cancelled", || {
        (ask(&mut other, "tasks/get", task.clone())["status"] == json!("cancelled")).then_some(())
    });
}
