//! A long answer starts immediately, and closing it ends the call.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::super::limits::HttpLimits;
use super::test_server::{
    ANN, TestServer, legacy, modern, open_session, read_all, read_until, run_agent, test_limits,
};

#[tokio::test]
async fn a_silent_call_has_headers_and_keepalives_before_its_answer() {
    let limits = HttpLimits { keepalive_interval: Duration::from_millis(50), ..test_limits() };
    let server = TestServer::open(limits).await;
    let mut stream = server.connect().await;
    stream.write_all(run_agent(ANN, "slow").as_bytes()).await.unwrap();
    let first_bytes = read_until(&mut stream, ":\n\n\r\n3\r\n:\n\n").await;
    assert!(first_bytes.starts_with("HTTP/1.1 200 OK"), "{first_bytes}");
    assert!(first_bytes.contains("content-type: text/event-stream"), "{first_bytes}");
    assert!(!first_bytes.contains("data:"), "{first_bytes}");
    server.ann.end(server.ann.run_ids()[0], "succeeded", "at last");
    let rest = read_all(&mut stream).await;
    assert_eq!(rest.last()["result"]["structuredContent"]["result"], json!("at last"), "{rest:?}");
}

#[tokio::test]
async fn a_call_with_a_progress_token_gets_progress_immediately() {
    let limits = HttpLimits { headers_after: Duration::from_secs(60), ..test_limits() };
    let server = TestServer::open(limits).await;
    let params = json!({
        "name": "run_agent",
        "arguments": {"agent": "slow", "prompt": "x"},
        "_meta": {"progressToken": "p"},
    });
    let mut stream = server.connect().await;
    stream.write_all(modern(ANN, "tools/call", params).as_bytes()).await.unwrap();
    read_until(&mut stream, "notifications/progress").await;
}

#[tokio::test]
async fn closing_the_answer_cancels_the_run() {
    let server = TestServer::open(test_limits()).await;
    let mut started = server.connect().await;
    started.write_all(run_agent(ANN, "slow").as_bytes()).await.unwrap();
    read_until(&mut started, ":\n\n").await;
    drop(started);
    let cancelled = server.ann.logged("cancel").await;
    assert!(cancelled.contains("by tester"), "{cancelled}");
    // Also before anything was answered.
    let server =
        TestServer::open(HttpLimits { headers_after: Duration::from_secs(60), ..test_limits() }).await;
    let mut silent = server.connect().await;
    silent.write_all(run_agent(ANN, "slow").as_bytes()).await.unwrap();
    server.ann.logged("start slow").await;
    drop(silent);
    server.ann.logged("cancel").await;
}

#[tokio::test]
async fn in_the_older_generation_a_closed_answer_ends_nothing_and_a_notification_does() {
    let server = TestServer::open(test_limits()).await;
    let session = open_session(&server, ANN).await;
    let params = json!({"name": "run_agent", "arguments": {"agent": "slow", "prompt": "x"}});
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    let mut stream = server.connect().await;
    stream.write_all(legacy(ANN, &session, &call).as_bytes()).await.unwrap();
    server.ann.logged("start slow").await;
    drop(stream);
    let ping = json!({"jsonrpc": "2.0", "id": 8, "method": "ping"});
    assert_eq!(server.exchange(legacy(ANN, &session, &ping).as_bytes()).await.status, 200);
    assert!(!server.ann.log().iter().any(|line| line.starts_with("cancel")), "{:?}", server.ann.log());
    // A client that timed out only stops waiting.
    let cancel = |reason: &str| {
        let params = json!({"requestId": 7, "reason": reason});
        legacy(
            ANN,
            &session,
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
        )
    };
    assert_eq!(server.exchange(cancel("request timed out").as_bytes()).await.status, 202);
    server.ann.logged("detach").await;
    // A second call, which the user cancels.
    let mut stream = server.connect().await;
    stream.write_all(legacy(ANN, &session, &call).as_bytes()).await.unwrap();
    let started = async {
        while server.ann.run_ids().len() < 2 {
            tokio::task::yield_now().await
        }
    };
    tokio::time::timeout(super::test_server::PATIENCE, started).await.unwrap();
    assert_eq!(server.exchange(cancel("not needed").as_bytes()).await.status, 202);
    assert!(server.ann.logged("cancel").await.contains("not needed"));
}
