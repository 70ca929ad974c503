//! Which requests take a reply from the script, and which do not.

use serde_json::{Value, json};

use super::http_client::{ask, send};
use crate::{RequestPurpose, ScriptedReply, ScriptedServer, SideRule, WireFormat};

fn purposes(server: &ScriptedServer) -> Vec<RequestPurpose> {
    server.requests().iter().map(|seen| seen.purpose).collect()
}

fn chat(server: &ScriptedServer, system: &str, tools: &Value) -> Value {
    let body = json!({
        "model": "m", "tools": tools,
        "messages": [{ "role": "system", "content": system }, { "role": "user", "content": "hello" }],
    });
    send(server, "POST", "/v1/chat/completions", &body).json()
}

#[test]
fn lists_and_counts_take_nothing_from_the_script() {
    let server = ScriptedServer::start(vec![ScriptedReply::say("work")]).expect("the server starts");
    assert_eq!(send(&server, "HEAD", "/", &Value::Null).status, 200);
    for path in ["/v1/models", "/v1beta/models?pageSize=50", "/v1/models?limit=1000"] {
        let models = send(&server, "GET", path, &Value::Null).json();
        assert_eq!(models["data"][0]["id"], "scripted-model");
        assert_eq!(models["models"][0]["name"], "models/scripted-model");
    }
    assert_eq!(send(&server, "GET", "/v1/models/abc", &Value::Null).json()["id"], "abc");
    let count = send(&server, "POST", "/v1/messages/count_tokens?beta=true", &json!({})).json();
    assert_eq!(count["input_tokens"], 100);
    let count = send(&server, "POST", "/v1beta/models/m:countTokens", &json!({})).json();
    assert_eq!(count["totalTokens"], 100);
    assert_eq!(send(&server, "GET", "/v1/responses", &Value::Null).status, 426);
    assert!(
        purposes(&server).iter().all(|purpose| *purpose == RequestPurpose::Side),
        "{:?}",
        purposes(&server)
    );
    assert_eq!(ask(&server, WireFormat::Chat, false).json()["choices"][0]["message"]["content"], "work");
}

#[test]
fn a_title_takes_nothing_from_the_script_unless_tools_are_offered() {
    let server = ScriptedServer::start(vec![ScriptedReply::say("work")]).expect("the server starts");
    let title = chat(&server, "You are a title generator.", &json!([]));
    assert_eq!(title["choices"][0]["message"]["content"], "A title");
    let tools = json!([{ "type": "function", "function": { "name": "shell" } }]);
    let work = chat(&server, "You are a title generator.", &tools);
    assert_eq!(work["choices"][0]["message"]["content"], "work");
    assert_eq!(purposes(&server), [RequestPurpose::Side, RequestPurpose::Work(0)]);
    assert_eq!(server.model_requests().len(), 1);
}

#[test]
fn a_test_can_name_side_requests_of_its_own() {
    let rule = SideRule { contains: "Summarise".to_owned(), answer: "short".to_owned() };
    let server = ScriptedServer::start_with(0, vec![ScriptedReply::say("work")], vec![rule])
        .expect("the server starts");
    let summary = chat(&server, "Summarise this", &json!([]));
    assert_eq!(summary["choices"][0]["message"]["content"], "short");
    assert_eq!(purposes(&server), [RequestPurpose::Side]);
}

#[test]
fn replies_come_in_order_and_as_often_as_scripted() {
    let server = ScriptedServer::start(vec![
        ScriptedReply::error(500, "no").times(2),
        ScriptedReply::say("yes"),
        ScriptedReply::error(429, "slow").always(),
        ScriptedReply::say("never"),
    ])
    .expect("the server starts");
    let statuses: Vec<u16> = (0..6).map(|_| ask(&server, WireFormat::Chat, false).status).collect();
    assert_eq!(statuses, [500, 500, 200, 429, 429, 429]);
    let numbers = [0, 0, 1, 2, 2, 2].map(RequestPurpose::Work);
    assert_eq!(purposes(&server), numbers);
}

#[test]
fn a_request_beyond_the_script_is_refused_and_marked() {
    let server = ScriptedServer::start(Vec::new()).expect("the server starts");
    let reply = ask(&server, WireFormat::Messages, true);
    assert_eq!(reply.status, 400);
    assert!(reply.body.contains("no reply left"), "{}", reply.body);
    assert_eq!(purposes(&server), [RequestPurpose::Unscripted]);
    server.add([ScriptedReply::say("more")]);
    assert_eq!(ask(&server, WireFormat::Messages, true).status, 200);
}

#[test]
fn proxy_requests_are_refused_and_recorded() {
    let server = ScriptedServer::start(vec![ScriptedReply::say("work")]).expect("the server starts");
    assert_eq!(send(&server, "CONNECT", "example.com:443", &Value::Null).status, 403);
    assert_eq!(send(&server, "GET", "http://example.com/v1/models", &Value::Null).status, 403);
    assert_eq!(purposes(&server), [RequestPurpose::Outside, RequestPurpose::Outside]);
    let hosts: Vec<String> = server.requests().into_iter().map(|seen| seen.path).collect();
    assert_eq!(hosts, ["example.com:443", "http://example.com/v1/models"]);
}

#[test]
fn an_unknown_path_is_not_found() {
    let server = ScriptedServer::start(vec![ScriptedReply::say("work")]).expect("the server starts");
    assert_eq!(send(&server, "POST", "/api/event_logging/batch", &json!({})).status, 404);
    assert_eq!(purposes(&server), [RequestPurpose::Unknown]);
}
