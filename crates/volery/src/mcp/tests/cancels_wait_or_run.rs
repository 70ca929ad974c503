//! Cancelling a call ends its run, unless the client only timed out.

use std::time::Duration;

use serde_json::json;

use super::super::client_profiles::{CancelMeaning, ClientProfile};
use super::client_session::{BOTH, ClientSession, Era, default_waits};

async fn start_slow(session: &mut ClientSession, era: Era) -> i64 {
    let params = json!({ "name": "run_agent", "arguments": { "agent": "slow", "prompt": "p" } });
    let id = session.request(era, "tools/call", params);
    session.engine.logged("start slow").await;
    id
}

#[tokio::test]
async fn a_users_cancel_ends_the_run() {
    for era in BOTH {
        let mut session = ClientSession::begin(era, "claude-code", json!({})).await;
        let id = start_slow(&mut session, era).await;
        session.cancel(id, "the user pressed Escape");
        let short = session.engine.run_ids()[0].short();
        let logged = session.engine.logged("cancel").await;
        assert_eq!(logged, format!("cancel {short} by claude-code: the user pressed Escape"));
        // A cancelled request is not answered.
        let id = session.request(era, "tools/list", json!({}));
        assert_eq!(session.next().await["id"], json!(id));
    }
}

#[tokio::test]
async fn a_time_out_of_the_client_ends_only_the_wait() {
    for reason in
        ["McpError: MCP error -32001: Request timed out", "TimeoutError", "context deadline exceeded"]
    {
        let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
        let id = start_slow(&mut session, Era::Legacy).await;
        session.cancel(id, reason);
        session.engine.logged("detach").await;
        assert!(!session.engine.log().iter().any(|line| line.starts_with("cancel")), "{reason}");
        let run = session.engine.run_ids()[0].to_string();
        let result = session.call(Era::Legacy, "get_run", json!({ "run_id": run })).await;
        assert_eq!(result["structuredContent"]["status"], "running");
    }
}

#[tokio::test]
async fn to_cancel_a_wait_for_earlier_runs_does_not_end_them() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    session.call(Era::Legacy, "run_agent", json!({ "agent": "slow", "prompt": "p", "wait_s": 0 })).await;
    let run = session.engine.run_ids()[0].to_string();
    let params = json!({ "name": "wait_runs", "arguments": { "run_ids": [run] } });
    let id = session.request(Era::Legacy, "tools/call", params);
    session.cancel(id, "the user pressed Escape");
    let id = session.request(Era::Legacy, "tools/list", json!({}));
    assert_eq!(session.next().await["id"], json!(id));
    assert!(!session.engine.log().iter().any(|line| line.starts_with("cancel")));
}

#[tokio::test]
async fn to_cancel_a_group_ends_all_its_runs() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    let slow = json!({ "agent": "slow", "prompt": "p" });
    let params = json!({ "name": "run_agents", "arguments": { "runs": [slow, slow] } });
    let id = session.request(Era::Legacy, "tools/call", params);
    while session.engine.run_ids().len() < 2 {
        tokio::task::yield_now().await;
    }
    session.cancel(id, "no longer needed");
    for run in session.engine.run_ids() {
        session.engine.logged(&format!("cancel {}", run.short())).await;
    }
}

#[tokio::test]
async fn a_cancel_that_names_no_request_changes_nothing() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    session.cancel(999_999, "whatever");
    session.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {} }));
    session.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled" }));
    assert!(session.ask(Era::Legacy, "ping", json!({})).await["result"].is_object());
}

#[test]
fn a_cancel_near_the_clients_limit_is_a_time_out_whatever_it_says() {
    let client = ClientProfile::for_name("codex-mcp-client", &default_waits());
    let meaning = |reason, seconds| client.interpret_cancel(reason, Duration::from_secs(seconds));
    assert_eq!(meaning(None, 269), CancelMeaning::CancelRun);
    assert_eq!(meaning(None, 270), CancelMeaning::StopWaiting);
    assert_eq!(meaning(Some("user"), 299), CancelMeaning::StopWaiting);
    assert_eq!(meaning(Some("Time-Out of the request"), 1), CancelMeaning::StopWaiting);
    assert_eq!(meaning(Some("user abort"), 1), CancelMeaning::CancelRun);
}
