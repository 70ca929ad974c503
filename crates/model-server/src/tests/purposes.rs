//! Which requests take a reply from the script, and which do not.

use serde_json::{Value, json};

use super::client::{ask, send};
use crate::{Format, Purpose, Reply, Server, SideRule};

fn purposes(server: &Server) -> Vec<Purpose> {
    server.seen().iter().map(|seen| seen.purpose).collect()
}

fn chat(server: &Server, system: &str, tools: &Value) -> Value {
    let body = json!({
        "model": "m", "tools": tools,
        "messages": [{ "role": "system", "content": system }, { "role": "user", "content": "hello" }],
    });
    send(server, "POST", "/v1/chat/completions", &body).json()
}

#[test]
fn lists_and_counts_take_nothing_from_the_script() {
    let server = Server::start(vec![Reply::say("work")]).expect("the server starts");
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
    assert!(purposes(&server).iter().all(|purpose| *purpose == Purpose::Side), "{:?}", purposes(&server));
    assert_eq!(ask(&server, Format::Chat, false).json()["choices"][0]["message"]["content"], "work");
}

#[test]
fn a_title_takes_nothing_from_the_script_unless_tools_are_offered() {
    let server = Server::start(vec![Reply::say("work")]).expect("the server starts");
    let title = chat(&server, "You are a title generator.", &json!([]));
    assert_eq!(title["choices"][0]["message"]["content"], "A title");
    let tools = json!([{ "type": "function", "function": { "name": "shell" } }]);
    let work = chat(&server, "You are a title generator.", &tools);
    assert_eq!(work["choices"][0]["message"]["content"], "work");
    assert_eq!(purposes(&server), [Purpose::Side, Purpose::Work(0)]);
    assert_eq!(server.asks().len(), 1);
}

#[test]
fn a_test_can_name_side_requests_of_its_own() {
    let rule = SideRule { contains: "Summarise".to_owned(), answer: "short".to_owned() };
    let server = Server::start_with(0, vec![Reply::say("work")], vec![rule]).expect("the server starts");
    let summary = chat(&server, "Summarise this", &json!([]));
    assert_eq!(summary["choices"][0]["message"]["content"], "short");
    assert_eq!(purposes(&server), [Purpose::Side]);
}

#[test]
fn replies_come_in_order_and_as_often_as_asked() {
    let server = Server::start(vec![
        Reply::error(500, "no").times(2),
        Reply::say("yes"),
        Reply::error(429, "slow").always(),
        Reply::say("never"),
    ])
    .expect("the server starts");
    let statuses: Vec<u16> = (0..6).map(|_| ask(&server, Format::Chat, false).status).collect();
    assert_eq!(statuses, [500, 500, 200, 429, 429, 429]);
    let numbers = [0, 0, 1, 2, 2, 2].map(Purpose::Work);
    assert_eq!(purposes(&server), numbers);
}

#[test]
fn a_request_beyond_the_script_is_refused_and_told_apart() {
    let server = Server::start(Vec::new()).expect("the server starts");
    let got = ask(&server, Format::Messages, true);
    assert_eq!(got.status, 400);
    assert!(got.body.contains("no reply left"), "{}", got.body);
    assert_eq!(purposes(&server), [Purpose::Unscripted]);
    server.add([Reply::say("more")]);
    assert_eq!(ask(&server, Format::Messages, true).status, 200);
}

#[test]
fn whoever_takes_the_server_for_a_proxy_is_refused_and_noted() {
    let server = Server::start(vec![Reply::say("work")]).expect("the server starts");
    assert_eq!(send(&server, "CONNECT", "example.com:443", &Value::Null).status, 403);
    assert_eq!(send(&server, "GET", "http://example.com/v1/models", &Value::Null).status, 403);
    assert_eq!(purposes(&server), [Purpose::Outside, Purpose::Outside]);
    let hosts: Vec<String> = server.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(hosts, ["example.com:443", "http://example.com/v1/models"]);
}

#[test]
fn what_nobody_knows_is_not_found() {
    let server = Server::start(vec![Reply::say("work")]).expect("the server starts");
    assert_eq!(send(&server, "POST", "/api/event_logging/batch", &json!({})).status, 404);
    assert_eq!(purposes(&server), [Purpose::Unknown]);
}
