//! Each token has its own engine, sessions and name.

use serde_json::json;

use super::test_server::{ANN, BEN, TestServer, legacy, modern, open_session, run_agent, test_limits};

#[tokio::test]
async fn runs_of_one_token_are_not_those_of_another() {
    let server = TestServer::open(test_limits()).await;
    let run = server.exchange(run_agent(ANN, "quick").as_bytes()).await.last();
    let id = run["result"]["structuredContent"]["run_id"].clone();
    let request = json!({"name": "get_run", "arguments": {"run_id": id}});
    let mine = server.exchange(modern(ANN, "tools/call", request.clone()).as_bytes()).await.last();
    assert_eq!(mine["result"]["isError"], json!(false), "{mine}");
    let not_mine = server.exchange(modern(BEN, "tools/call", request).as_bytes()).await.last();
    assert_eq!(not_mine["result"]["isError"], json!(true), "{not_mine}");
}

#[tokio::test]
async fn a_session_of_one_token_is_unknown_to_another() {
    let server = TestServer::open(test_limits()).await;
    let session = open_session(&server, ANN).await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    assert_eq!(server.exchange(legacy(ANN, &session, &list).as_bytes()).await.status, 200);
    assert_eq!(server.exchange(legacy(BEN, &session, &list).as_bytes()).await.status, 404);
}
