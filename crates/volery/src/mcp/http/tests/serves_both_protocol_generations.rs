//! Tools, tasks and resources over HTTP are those of standard input, in both generations.

use serde_json::{Value, json};

use super::test_server::{ANN, TestServer, legacy, modern, open_session, run_agent, test_limits};

#[tokio::test]
async fn both_list_the_same_tools_and_read_the_same_resources() {
    let server = TestServer::open(test_limits()).await;
    let session = open_session(&server, ANN).await;
    for (method, params, key) in [
        ("tools/list", json!({}), "tools"),
        ("resources/list", json!({}), "resources"),
        ("resources/read", json!({"uri": "volery://agents/quick"}), "contents"),
    ] {
        let newer = server.ask(method, params.clone()).await.last();
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let older = server.exchange(legacy(ANN, &session, &message).as_bytes()).await.last();
        assert!(newer["result"][key].as_array().is_some_and(|list| !list.is_empty()), "{newer}");
        assert_eq!(newer["result"][key], older["result"][key], "{method}");
    }
}

#[tokio::test]
async fn a_client_that_takes_tasks_gets_one_and_can_poll_it() {
    let server = TestServer::open(test_limits()).await;
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}).to_string();
    let with_tasks = |method: &str, params: Value, name: &str| {
        let request = modern(ANN, method, params);
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let body = body.replace(
            r#""io.modelcontextprotocol/clientCapabilities":{}"#,
            &format!(r#""io.modelcontextprotocol/clientCapabilities":{tasks}"#),
        );
        let lines =
            head.lines().filter(|line| !line.starts_with("content-length") && !line.starts_with("mcp-name"));
        let head: String = lines.map(|line| format!("{line}\r\n")).collect();
        format!("{head}mcp-name: {name}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    let call = json!({"name": "run_agent", "arguments": {"agent": "slow", "prompt": "x"}});
    let made = server.exchange(with_tasks("tools/call", call, "run_agent").as_bytes()).await.last();
    assert_eq!(made["result"]["resultType"], json!("task"), "{made}");
    let id = made["result"]["taskId"].as_str().unwrap().to_owned();
    server.ann.end(server.ann.run_ids()[0], "succeeded", "done");
    let got = server.exchange(with_tasks("tasks/get", json!({"taskId": id}), &id).as_bytes()).await.last();
    assert_eq!(got["result"]["status"], json!("completed"), "{got}");
}

#[tokio::test]
async fn a_panic_is_answered_and_the_server_goes_on() {
    let server = TestServer::open(test_limits()).await;
    let answer = server.exchange(run_agent(ANN, "panics").as_bytes()).await.last();
    assert_eq!(answer["result"]["isError"], json!(true), "{answer}");
    let session = open_session(&server, ANN).await;
    let params = json!({"name": "run_agent", "arguments": {"agent": "panics", "prompt": "x"}});
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    let answer = server.exchange(legacy(ANN, &session, &call).as_bytes()).await.last();
    assert_eq!(answer["result"]["isError"], json!(true), "{answer}");
    let run = server.exchange(run_agent(ANN, "quick").as_bytes()).await.last();
    assert_eq!(run["result"]["isError"], json!(false), "{run}");
}
