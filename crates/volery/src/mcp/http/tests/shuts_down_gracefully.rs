//! A server that stops answers pending calls, and cancels no run.

use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::test_server::{ANN, PATIENCE, TestServer, legacy, open_session, read_all, run_agent, test_limits};
use crate::mcp::serve::StopReason;

#[tokio::test]
async fn calls_that_wait_are_answered_with_their_handle_and_no_run_is_cancelled() {
    let mut server = TestServer::open(test_limits()).await;
    let session = open_session(&server, ANN).await;
    let mut modern = server.connect().await;
    modern.write_all(run_agent(ANN, "slow").as_bytes()).await.unwrap();
    let params = json!({"name": "run_agent", "arguments": {"agent": "slow", "prompt": "x"}});
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    let mut older = server.connect().await;
    older.write_all(legacy(ANN, &session, &call).as_bytes()).await.unwrap();
    let mut idle = server.connect().await;
    let started = async {
        while server.ann.run_ids().len() < 2 {
            tokio::task::yield_now().await
        }
    };
    tokio::time::timeout(PATIENCE, started).await.unwrap();
    server.stop.take().unwrap().send(StopReason::Terminated).unwrap();
    for stream in [&mut modern, &mut older] {
        let answer = read_all(stream).await;
        let result = &answer.last()["result"]["structuredContent"];
        assert_eq!(result["status"], json!("running"), "{answer:?}");
    }
    assert_eq!(read_all(&mut idle).await.text, "");
    let reason = tokio::time::timeout(PATIENCE, &mut server.serving).await.unwrap().unwrap();
    assert_eq!(reason, StopReason::Terminated);
    let log = server.ann.log();
    assert!(log.contains(&"disconnect".to_owned()), "{log:?}");
    assert!(!log.iter().any(|line| line.starts_with("cancel")), "{log:?}");
    assert!(tokio::net::TcpStream::connect(server.address).await.is_err());
}
