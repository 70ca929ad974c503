//! Pitfalls of the library with standard input and output, each with a guard. Other files cover oversized and unreadable
//! lines (`answers_every_line`), the end of the input (`leaves_at_once`), schemas (`offers_tools`) and tasks
//! (`offers_tasks`).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::call_rate::CallRate;
use super::super::in_flight::IN_FLIGHT_MAX;
use super::super::options::Options;
use super::client_session::{BOTH, ClientSession, Era, fast_options};

/// More requests than can be in progress, and than fit into the pipe.
const FLOOD: u32 = 20_000;

#[tokio::test]
async fn a_panic_in_a_call_is_answered_as_an_error_and_the_server_goes_on() {
    for era in BOTH {
        let mut session = ClientSession::begin(era, "x", json!({})).await;
        let result = session.call(era, "run_agent", json!({ "agent": "panics", "prompt": "p" })).await;
        assert_eq!(result["isError"], json!(true));
        assert!(result["content"][0]["text"].as_str().unwrap().contains("defect"), "{result}");
        assert_eq!(result.get("resultType").is_some(), era == Era::Modern);
        let result = session.call(era, "run_agent", json!({ "agent": "quick", "prompt": "hi" })).await;
        assert_eq!(result["structuredContent"]["result"], "HI");
    }
}

#[tokio::test]
async fn a_silent_tool_sends_progress_before_anything_else() {
    let mut session = ClientSession::begin(Era::Modern, "x", json!({})).await;
    let params = json!({
        "name": "run_agent",
        "arguments": { "agent": "slow", "prompt": "p" },
        "_meta": { "progressToken": 1 },
    });
    session.request(Era::Modern, "tools/call", params);
    assert_eq!(session.next().await["method"], "notifications/progress");
}

#[tokio::test]
async fn a_cancelled_call_does_not_run_to_its_end() {
    let mut session = ClientSession::begin(Era::Legacy, "claude-code", json!({})).await;
    let params = json!({ "name": "run_agent", "arguments": { "agent": "slow", "prompt": "p" } });
    let id = session.request(Era::Legacy, "tools/call", params);
    session.engine.logged("start slow").await;
    session.cancel(id, "timeout");
    session.engine.logged("detach").await;
    // Its id is free again only when the handler is done.
    let again = json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
    loop {
        session.send(&again);
        if session.next().await["result"].is_object() {
            break;
        }
    }
}

#[tokio::test]
async fn an_id_that_is_in_flight_is_refused_and_the_first_call_still_answered() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    let params = json!({ "name": "run_agent", "arguments": { "agent": "slow", "prompt": "p" } });
    let id = session.request(Era::Legacy, "tools/call", params);
    session.engine.logged("start slow").await;
    session.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }));
    let refused = session.next().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(id), &json!(-32600)));
    session.engine.end(session.engine.run_ids()[0], "succeeded", "first");
    let (answer, _) = session.answer_to(id).await;
    assert_eq!(answer["result"]["structuredContent"]["result"], "first");
    // And may be used again afterwards.
    session.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }));
    assert_eq!(session.next().await["result"], json!({}));
}

#[tokio::test]
async fn prompts_and_completions_are_not_found_instead_of_empty() {
    for era in BOTH {
        let mut session = ClientSession::begin(era, "x", json!({})).await;
        for (method, params) in [
            ("prompts/list", json!({})),
            ("prompts/get", json!({ "name": "x" })),
            ("logging/setLevel", json!({ "level": "info" })),
            (
                "completion/complete",
                json!({ "ref": { "type": "ref/prompt", "name": "x" }, "argument": { "name": "a", "value": "" } }),
            ),
        ] {
            let answer = session.ask(era, method, params).await;
            assert_eq!(answer["error"]["code"], -32601, "{method} {answer}");
            let sentence = format!("this server has no method {method};");
            let message = answer["error"]["message"].as_str().unwrap_or_default();
            assert!(message.starts_with(&sentence), "{method} {answer}");
        }
    }
}

#[tokio::test]
async fn subscriptions_are_refused_because_nothing_changes() {
    let mut session = ClientSession::begin(Era::Modern, "claude-code", json!({})).await;
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let answer = session.ask(Era::Modern, "subscriptions/listen", params).await;
    assert_eq!(answer["error"]["code"], -32601);
}

#[tokio::test]
async fn too_many_concurrent_calls_are_refused() {
    let mut session = ClientSession::begin(Era::Legacy, "claude-code", json!({})).await;
    session.call(Era::Legacy, "run_agent", json!({ "agent": "slow", "prompt": "p", "wait_s": 0 })).await;
    let run = session.engine.run_ids()[0];
    let wait = json!({ "name": "wait_runs", "arguments": { "run_ids": [run.to_string()] } });
    for _ in 0..IN_FLIGHT_MAX {
        session.request(Era::Legacy, "tools/call", wait.clone());
    }
    let over = session.request(Era::Legacy, "tools/call", wait);
    let refused = session.next().await;
    assert_eq!((&refused["id"], &refused["result"]["isError"]), (&json!(over), &json!(true)));
    assert!(refused["result"]["content"][0]["text"].as_str().unwrap().contains("try again"));
    let list = session.request(Era::Legacy, "tools/list", json!({}));
    let refused = session.next().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(list), &json!(-32000)));
    session.engine.end(run, "succeeded", "done");
    for _ in 0..IN_FLIGHT_MAX {
        assert_eq!(session.next().await["result"]["structuredContent"]["timed_out"], Value::Bool(false));
    }
    assert!(session.ask(Era::Legacy, "tools/list", json!({})).await["result"].is_object());
}

#[tokio::test]
async fn a_client_that_floods_and_does_not_read_is_not_read_either() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    session.stop_reading();
    for id in 0..FLOOD {
        session.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }));
    }
    // Longer than handling all of them takes; still, not all are read.
    let drained = session.input_is_drained(Duration::from_millis(1_500)).await;
    assert!(!drained, "everything was read although nothing was");
    session.go_on_reading();
    for _ in 0..FLOOD {
        let answer = session.next().await;
        assert!(answer["result"].is_object() || answer["error"]["code"] == -32000, "{answer}");
    }
}

#[tokio::test]
async fn a_rate_limited_caller_learns_when_to_retry() {
    let mut session = ClientSession::open(Options { rate: Arc::new(CallRate::new(2)), ..fast_options() });
    session.hello(Era::Legacy, "x", json!({})).await;
    for _ in 0..2 {
        let list = session.call(Era::Legacy, "list_agents", json!({})).await;
        assert_ne!(list["isError"], json!(true), "{list}");
    }
    let refused = session.call(Era::Legacy, "list_agents", json!({})).await;
    assert_eq!(refused["isError"], json!(true));
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("too many calls: 2 a minute are allowed. Try again in "), "{text}");
}

#[tokio::test]
async fn invisible_characters_do_not_reach_the_model() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    let prompt = "\u{1b}[31mred\u{1b}[0m \u{202e}evil\u{202c} \u{e0041}tag\u{7}";
    let result = session.call(Era::Legacy, "run_agent", json!({ "agent": "quick", "prompt": prompt })).await;
    assert_eq!(result["structuredContent"]["result"], "RED EVIL TAG", "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("\"RED EVIL TAG\"") && !text.contains("u001b"), "{text}");
}
