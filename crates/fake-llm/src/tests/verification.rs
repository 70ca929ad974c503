//! Replies that depend on the request, and requests that the service would refuse.

use serde_json::{Value, json};

use super::http_client::send;
use crate::{RequestChecks, RequestCondition, ScriptedReply, ScriptedServer};

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn call(id: &str) -> Value {
    json!({ "type": "tool_use", "id": id, "name": "read", "input": {} })
}

fn result(id: &str) -> Value {
    json!({ "type": "tool_result", "tool_use_id": id, "content": "x" })
}

/// Returns a request whose messages have these blocks, the user's first.
fn body(turns: &[&[Value]]) -> Value {
    let message = |(at, blocks): (usize, &&[Value])| json!({ "role": if at % 2 == 0 { "user" } else { "assistant" }, "content": blocks });
    json!({
        "model": "m", "max_tokens": 10, "tools": [{ "name": "read", "input_schema": { "type": "object" } }],
        "messages": turns.iter().enumerate().map(message).collect::<Vec<_>>(),
    })
}

fn refusal(server: &ScriptedServer, body: &Value) -> String {
    let reply = send(server, "POST", "/v1/messages", body);
    if reply.status == 200 { String::new() } else { reply.body }
}

#[test]
fn a_reply_with_a_condition_answers_matching_requests_only() {
    let condition =
        |last: &str| RequestCondition { model: Some("m".to_owned()), ..RequestCondition::last(last) };
    let server = ScriptedServer::start(vec![
        ScriptedReply::say("first"),
        ScriptedReply::say("beta").when(condition("beta")),
        ScriptedReply::say("always gamma").when(condition("gamma")).always(),
        ScriptedReply::say("second"),
    ])
    .expect("the server starts");
    let answers: Vec<Value> = ["gamma", "beta", "beta", "gamma", "other", "gamma"]
        .map(|word| {
            send(&server, "POST", "/v1/messages", &body(&[&[text(word)]])).json()["content"][0]["text"]
                .clone()
        })
        .to_vec();
    assert_eq!(answers, ["always gamma", "beta", "first", "always gamma", "second", "always gamma"]);
}

#[test]
fn conversations_that_the_service_refuses_are_refused() {
    let server = ScriptedServer::start(vec![ScriptedReply::say("ok").always()]).expect("the server starts");
    let cases: [(&[&[Value]], &str); 11] = [
        (&[&[text("go")], &[call("a")], &[result("a")]], ""),
        (&[&[text("go")], &[call("a"), call("b")], &[result("b"), result("a"), text("on")]], ""),
        (&[&[text("go")], &[call("a")], &[text("on")]], "without `tool_result`"),
        (&[&[text("go")], &[call("a"), call("b")], &[result("a")]], "without `tool_result`"),
        (&[&[text("go")], &[call("a")]], "without `tool_result`"),
        (&[&[text("go")], &[call("a")], &[result("b"), result("a")]], "unexpected `tool_use_id`"),
        (&[&[text("go")], &[call("a"), call("a")], &[result("a")]], "must be unique"),
        (&[&[text("go")], &[call("a")], &[text("on"), result("a")]], "before other content"),
        (&[&[text("go")], &[], &[text("on")]], "non-whitespace"),
        (&[&[text(" ")]], "non-whitespace"),
        (&[&[text("go")], &[call("")], &[result("")]], "tool_use.id"),
    ];
    for (turns, _) in &cases {
        assert_eq!(refusal(&server, &body(turns)), "", "nothing is verified unless a test asks for it");
    }
    server.verify(RequestChecks { conversation: true, cache_prefix: false });
    for (turns, expected) in &cases {
        let refusal = refusal(&server, &body(turns));
        assert!(
            refusal.contains(expected) && refusal.is_empty() == expected.is_empty(),
            "{turns:?}: {refusal}"
        );
    }
    let mut roles = body(&[&[text("go")], &[text("so")]]);
    roles["messages"][1]["role"] = "user".into();
    assert!(refusal(&server, &roles).contains("alternate"));
    let mut tools = body(cases[0].0);
    tools["tools"] = json!([]);
    assert!(refusal(&server, &tools).contains("must define tools"));
}

#[test]
fn reasoning_must_come_back_unchanged_within_a_cycle_of_calls() {
    let reply = ScriptedReply::call("read", json!({})).thinking("hm").redacted_thinking("ZGF0YQ==");
    let server =
        ScriptedServer::start(vec![reply, ScriptedReply::say("ok").always()]).expect("the server starts");
    server.verify(RequestChecks { conversation: true, cache_prefix: false });
    let answer = send(&server, "POST", "/v1/messages", &body(&[&[text("go")]])).json();
    let blocks: Vec<Value> = answer["content"].as_array().expect("an answer has content").clone();
    let id = blocks[2]["id"].as_str().expect("a call has an id").to_owned();
    let check = |blocks: &[Value], model: &str| {
        let mut body = body(&[&[text("go")], blocks, &[result(&id)]]);
        body["model"] = model.into();
        refusal(&server, &body)
    };
    assert_eq!(check(&blocks, "m"), "");
    assert!(check(&blocks, "other").contains("Invalid `signature`"));
    assert!(check(&blocks[1..], "m").contains("Expected `thinking`"));
    let mut changed = blocks.clone();
    changed[0]["thinking"] = "something else".into();
    assert!(check(&changed, "m").contains("Invalid `signature`"));
    changed = blocks.clone();
    changed[1]["data"] = "Zm9yZ2Vk".into();
    assert!(check(&changed, "m").contains("Invalid `signature`"));
    // In an earlier cycle, reasoning may be left out.
    let turns: [&[Value]; 5] = [&[text("go")], &blocks[2..], &[result(&id)], &[text("so")], &[text("on")]];
    assert_eq!(refusal(&server, &body(&turns)), "");
}

#[test]
fn a_cache_prefix_is_compared_without_its_marks() {
    let server = ScriptedServer::start(vec![ScriptedReply::say("ok").always()]).expect("the server starts");
    server.verify(RequestChecks { conversation: false, cache_prefix: true });
    let mut marked = text("go");
    marked["cache_control"] = json!({ "type": "ephemeral" });
    assert_eq!(refusal(&server, &body(&[&[marked]])), "");
    assert_eq!(refusal(&server, &body(&[&[text("go")], &[text("so")], &[text("on")]])), "");
    assert!(refusal(&server, &body(&[&[text("Go")], &[text("so")], &[text("on")]])).contains("cache prefix"));
    let mut other = body(&[&[text("go")], &[text("so")], &[text("on")]]);
    other["system"] = "The time is 12:00.".into();
    assert!(refusal(&server, &other).contains("cache prefix"));
    assert_eq!(server.connections(), server.requests().len());
}
