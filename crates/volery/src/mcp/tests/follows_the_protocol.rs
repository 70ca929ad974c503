//! Both protocol generations: handshake, lists, calls and refusals.

use serde_json::{Value, json};

use super::client_session::{BOTH, ClientSession, Era, fast_options};

#[tokio::test]
async fn initialize_answers_with_the_requested_version() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut session = ClientSession::open(fast_options());
        let client = json!({ "name": "codex-mcp-client", "version": "1" });
        let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
        let answer = session.ask(Era::Legacy, "initialize", params).await;
        assert_eq!(answer["result"]["protocolVersion"], version);
        assert_eq!(answer["result"]["serverInfo"]["name"], "volery");
        assert_eq!(answer["result"]["capabilities"]["tools"], json!({}));
        assert!(answer["result"]["instructions"].as_str().unwrap().starts_with("Volery runs"));
        session.engine.logged("caller codex-mcp-client").await;
    }
}

#[tokio::test]
async fn initialize_with_a_version_of_the_future_is_answered_with_the_newest_that_has_a_handshake() {
    let mut session = ClientSession::open(fast_options());
    let client = json!({ "name": "x", "version": "1" });
    let params = json!({ "protocolVersion": "2031-01-01", "capabilities": {}, "clientInfo": client });
    let answer = session.ask(Era::Legacy, "initialize", params).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
}

#[tokio::test]
async fn discover_answers_with_versions_capabilities_and_instructions() {
    let mut session = ClientSession::open(fast_options());
    let answer = session.hello(Era::Modern, "claude-code", json!({})).await;
    let result = &answer["result"];
    assert_eq!(result["resultType"], "complete");
    assert!(result["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
    assert_eq!(result["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"], json!({}));
    assert!(result["capabilities"].get("prompts").is_none());
    assert!(result["instructions"].is_string());
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "volery");
}

#[tokio::test]
async fn a_client_may_discover_and_then_initialize() {
    let mut session = ClientSession::begin(Era::Modern, "both", json!({})).await;
    session.hello(Era::Legacy, "both", json!({})).await;
    let answer = session.ask(Era::Legacy, "tools/list", json!({})).await;
    assert_eq!(answer["result"]["tools"].as_array().unwrap().len(), 9);
}

#[tokio::test]
async fn results_have_the_shape_of_their_generation() {
    let mut legacy = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    let mut modern = ClientSession::begin(Era::Modern, "x", json!({})).await;
    let old = legacy.call(Era::Legacy, "list_agents", json!({})).await;
    let new = modern.call(Era::Modern, "list_agents", json!({})).await;
    assert_eq!(old.get("resultType"), None);
    assert_eq!(new["resultType"], "complete");
    assert_eq!(old["structuredContent"], new["structuredContent"]);
    let list = modern.ask(Era::Modern, "tools/list", json!({})).await;
    assert_eq!(
        (&list["result"]["ttlMs"], &list["result"]["resultType"]),
        (&json!(3_600_000), &json!("complete"))
    );
}

#[tokio::test]
async fn a_request_before_initialize_gets_an_explanation() {
    let mut session = ClientSession::open(fast_options());
    let answer = session.ask(Era::Legacy, "tools/list", json!({})).await;
    assert_eq!(answer["error"]["code"], -32602);
    assert!(answer["error"]["message"].as_str().unwrap().contains("initialize first"));
    // And the server is still there.
    session.hello(Era::Legacy, "x", json!({})).await;
    assert!(session.ask(Era::Legacy, "tools/list", json!({})).await["result"].is_object());
}

#[tokio::test]
async fn a_notification_as_first_message_does_not_end_the_server() {
    let mut session = ClientSession::open(fast_options());
    session.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    session.send(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    session.hello(Era::Legacy, "x", json!({})).await;
}

#[tokio::test]
async fn a_version_that_is_not_known_is_refused_with_those_that_are() {
    let mut session = ClientSession::begin(Era::Modern, "x", json!({})).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2031-01-01",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let answer = session.ask(Era::Legacy, "tools/list", json!({ "_meta": meta })).await;
    assert_eq!(answer["error"]["code"], -32022);
    assert!(answer["error"]["data"]["supported"].as_array().unwrap().contains(&json!("2026-07-28")));
}

#[tokio::test]
async fn ping_belongs_to_the_old_generation() {
    let mut legacy = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    assert_eq!(legacy.ask(Era::Legacy, "ping", json!({})).await["result"], json!({}));
    let mut modern = ClientSession::begin(Era::Modern, "x", json!({})).await;
    assert_eq!(modern.ask(Era::Modern, "ping", json!({})).await["error"]["code"], -32601);
}

#[tokio::test]
async fn an_unknown_method_is_not_found() {
    for era in BOTH {
        let mut session = ClientSession::begin(era, "x", json!({})).await;
        let answer = session.ask(era, "tools/frobnicate", json!({})).await;
        assert_eq!(answer["error"]["code"], -32601);
    }
}

#[tokio::test]
async fn the_name_of_the_client_is_shortened_and_printable() {
    let name = format!("bad\u{1b}[31m\u{202e}{}", "x".repeat(500));
    let session = ClientSession::begin(Era::Legacy, &name, json!({})).await;
    let logged = session.engine.logged("caller").await;
    assert_eq!(logged, format!(r"caller bad\u{{1b}}[31m\u{{202e}}{}", "x".repeat(79)));
}

#[tokio::test]
async fn calls_run_concurrently() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    let slow = session.request(
        Era::Legacy,
        "tools/call",
        json!({ "name": "run_agent", "arguments": { "agent": "slow", "prompt": "p" } }),
    );
    session.engine.logged("start slow").await;
    let quick = session.call(Era::Legacy, "run_agent", json!({ "agent": "quick", "prompt": "hi" })).await;
    assert_eq!(quick["structuredContent"]["result"], "HI");
    session.engine.end(session.engine.run_ids()[0], "succeeded", "done");
    let (answer, _) = session.answer_to(slow).await;
    assert_eq!(answer["result"]["structuredContent"]["result"], "done");
    assert_eq!(answer["result"]["isError"], Value::Bool(false));
}
