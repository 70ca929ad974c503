//! Requests that are too large, too many or too slow are refused, and the next client is served.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::super::limits::HttpLimits;
use super::test_server::{
    ANN, TestServer, bearer_header, modern, open_session, post_request, read_all, run_agent, test_limits,
};

fn tight_limits() -> HttpLimits {
    HttpLimits {
        connections: 4,
        requests: 2,
        sessions: 2,
        body_bytes: 64 << 10,
        head_bytes: 8 << 10,
        head_time: Duration::from_millis(300),
        body_time: Duration::from_millis(300),
        ..test_limits()
    }
}

/// Checks that the server still answers after the test.
async fn assert_still_serves(server: &TestServer) {
    assert_eq!(server.ask("tools/list", json!({})).await.status, 200);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_with_and_without_content_length() {
    let server = TestServer::open(tight_limits()).await;
    let large = "x".repeat((64 << 10) + 1);
    assert_eq!(server.post(&bearer_header(ANN), &large).await.status, 413);
    let head =
        post_request(&bearer_header(ANN), "").replace("content-length: 0", "transfer-encoding: chunked");
    let chunked = format!("{head}{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    assert_eq!(server.exchange(chunked.as_bytes()).await.status, 413);
    // The body of a request without a token is not read.
    assert_eq!(server.post("", &large).await.status, 401);
    assert_still_serves(&server).await;
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let server = TestServer::open(tight_limits()).await;
    let headers = format!("{}x-much: {}\r\n", bearer_header(ANN), "x".repeat(9 << 10));
    assert_eq!(server.post(&headers, "{}").await.status, 431);
    assert_still_serves(&server).await;
}

#[tokio::test]
async fn a_client_that_writes_too_slowly_is_left() {
    let server = TestServer::open(tight_limits()).await;
    let mut silent = server.connect().await;
    let mut dripping = server.connect().await;
    dripping.write_all(b"POST /mcp HTTP/1.1\r\nhost: loc").await.unwrap();
    let mut half = server.connect().await;
    let body = post_request(&bearer_header(ANN), &"x".repeat(1_000));
    half.write_all(&body.as_bytes()[..body.len() - 500]).await.unwrap();
    // Closed without a response, because there was no request.
    assert_eq!(read_all(&mut silent).await.text, "");
    assert_eq!(read_all(&mut dripping).await.text, "");
    assert_eq!(read_all(&mut half).await.status, 408);
    assert_still_serves(&server).await;
}

#[tokio::test]
async fn one_connection_too_many_gets_a_retry_after() {
    let server = TestServer::open(HttpLimits { head_time: Duration::from_secs(30), ..tight_limits() }).await;
    let mut open_streams = Vec::new();
    for _ in 0..4 {
        let mut stream = server.connect().await;
        stream.write_all(b"POST").await.unwrap();
        open_streams.push(stream);
    }
    let refused = server.post(&bearer_header(ANN), "{}").await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.header("retry-after"), Some("1"));
    open_streams.clear();
    let deadline = tokio::time::Instant::now() + super::test_server::PATIENCE;
    while server.ask("tools/list", json!({})).await.status != 200 {
        assert!(tokio::time::Instant::now() < deadline, "the places are not given back");
    }
}

#[tokio::test]
async fn one_request_too_many_is_answered_so_that_a_model_can_read_it() {
    let server = TestServer::open(tight_limits()).await;
    let mut open_streams = Vec::new();
    for _ in 0..2 {
        let mut stream = server.connect().await;
        stream.write_all(run_agent(ANN, "slow").as_bytes()).await.unwrap();
        super::test_server::read_until(&mut stream, "text/event-stream").await;
        open_streams.push(stream);
    }
    let refused = server.exchange(run_agent(ANN, "quick").as_bytes()).await.last();
    assert_eq!(refused["result"]["isError"], json!(true), "{refused}");
    let text = refused["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("2 requests are already being worked on"), "{text}");
    let listed = server.ask("tools/list", json!({})).await.last();
    assert_eq!(listed["error"]["code"], json!(-32000), "{listed}");
}

#[tokio::test]
async fn one_session_too_many_gets_a_retry_after() {
    let server = TestServer::open(tight_limits()).await;
    let first = open_session(&server, ANN).await;
    open_session(&server, ANN).await;
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
    let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
    let refused = server.post(&bearer_header(ANN), &message).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")), "{refused:?}");
    let end = format!(
        "DELETE /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nmcp-session-id: {first}\r\n{}\r\n",
        bearer_header(ANN)
    );
    server.exchange(end.as_bytes()).await;
    open_session(&server, ANN).await;
}

#[tokio::test]
async fn an_invalid_message_is_answered_with_an_error() {
    let server = TestServer::open(test_limits()).await;
    let wrong = [
        "",
        " ",
        "{",
        "[]",
        "[{}]",
        "1",
        "null",
        "\"x\"",
        "{}",
        r#"{"id":1}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        r#"{"method":"notifications/x"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#,
    ];
    for body in wrong {
        let answer = server.post(&bearer_header(ANN), body).await;
        assert_eq!(answer.status, 400, "{body:?}: {answer:?}");
        assert!(answer.last()["error"]["message"].is_string(), "{body:?}: {answer:?}");
    }
    let request = modern(ANN, "tools/list", json!({})).replace("application/json\r\n", "text/plain\r\n");
    assert_eq!(server.exchange(request.as_bytes()).await.status, 415);
}
