//! The model client over loopback: conversations with tools, several requests, connections, cancellation.

use domain::conversation::{Message, StopReason, ToolArguments, ToolChoice};
use domain::run::{ModelError, Usage};
use fake_llm::{
    RequestChecks, RequestCondition, RequestPurpose, ScriptedReply, ScriptedServer, ScriptedUsage,
};
use serde_json::json;

use super::super::model_client::{FailureCause, ModelClientEvent, RequestProgress, encode_cancel};
use super::super::service_config::known_service;
use super::KEY;
use super::client_fixtures::{PATIENCE, TestClient, request, results, tool, user, without_marks};

const ALL_CHECKS: RequestChecks = RequestChecks { conversation: true, cache_prefix: true };

fn start(script: Vec<ScriptedReply>) -> (ScriptedServer, TestClient) {
    let server = ScriptedServer::start(script).unwrap();
    server.verify(ALL_CHECKS);
    let client = TestClient::start(&server.url());
    (server, client)
}

fn read_reply(number: usize) -> ScriptedReply {
    ScriptedReply::call("read", json!({ "path": format!("file-{number}") }))
}

#[test]
fn twenty_steps_use_one_connection_and_one_prefix() {
    let mut script: Vec<ScriptedReply> =
        (0..19).map(|number| read_reply(number).thinking(&format!("step {number}"))).collect();
    script.push(ScriptedReply::say("done"));
    let (server, mut client) = start(script);
    let mut messages = vec![user("read them all")];
    let mut stop = None;
    for _ in 0..20 {
        let answer = client.answer(request(messages.clone()));
        stop = Some(answer.stop.clone());
        messages.push(Message::Assistant(answer.turn.clone()));
        if !answer.turn.calls.is_empty() {
            messages.push(results(&answer, "content"));
        }
    }
    assert_eq!(stop, Some(StopReason::EndTurn));
    let requests = server.requests();
    assert_eq!((requests.len(), server.connections()), (20, 1));
    // The server verified the prefixes itself; the marks are few and only move.
    for pair in requests.windows(2) {
        let (one, other) = (&without_marks(&pair[0].body), &without_marks(&pair[1].body));
        let (one, other) = (one["messages"].to_string(), other["messages"].to_string());
        assert!(other.starts_with(one.trim_end_matches(']')), "{one}\n{other}");
        assert_eq!(pair[0].body["tools"].to_string(), pair[1].body["tools"].to_string());
    }
    let marks = requests[19].body.to_string().matches("cache_control").count();
    assert_eq!(marks, 3);
    client.end();
}

#[test]
fn parallel_calls_with_reasoning_are_sent_back_as_they_came() {
    let (server, mut client) = start(vec![
        read_reply(1)
            .and_call("write", json!({ "path": "b" }))
            .thinking("Two at once.")
            .redacted_thinking("ZW5jcnlwdGVk")
            .using(ScriptedUsage { input: 1_200, output: 34, cached: 1_000 }),
        ScriptedReply::say("ok").when(RequestCondition::result("content")),
    ]);
    let first = client.answer(request(vec![user("go")]));
    let types: Vec<_> = first.turn.native.iter().map(|block| block["type"].clone()).collect();
    assert_eq!(types, ["thinking", "redacted_thinking", "tool_use", "tool_use"]);
    assert_eq!(first.stop, StopReason::ToolUse);
    assert_eq!(first.answered_by.as_deref(), Some("big-1"));
    let used = Usage { input_tokens: 1_200, output_tokens: 34, cache_read_tokens: 1_000, ..Usage::default() };
    assert_eq!(first.usage, Some(used));
    let calls: Vec<_> = first.turn.calls.iter().map(|call| (&*call.name, &call.arguments)).collect();
    let parsed = |value| ToolArguments::Parsed(value);
    let expected = [parsed(json!({ "path": "file-1" })), parsed(json!({ "path": "b" }))];
    assert_eq!(calls, [("read", &expected[0]), ("write", &expected[1])]);
    // Results in the wrong order are sent in the order of the calls.
    let Message::ToolResults { results: mut reversed } = results(&first, "content") else { panic!() };
    reversed.reverse();
    let turns =
        vec![user("go"), Message::Assistant(first.turn.clone()), Message::ToolResults { results: reversed }];
    client.answer(request(turns));
    let sent = server.requests()[1].body["messages"].clone();
    assert_eq!(sent[1]["content"].as_array(), Some(&first.turn.native));
    let ids: Vec<_> = (0..2).map(|at| sent[2]["content"][at]["tool_use_id"].clone()).collect();
    assert_eq!(ids, [first.turn.calls[0].id.clone(), first.turn.calls[1].id.clone()]);
}

#[test]
fn the_server_refuses_a_conversation_whose_reasoning_was_changed() {
    let (_server, mut client) = start(vec![read_reply(1).thinking("hm"), ScriptedReply::say("no").always()]);
    let first = client.answer(request(vec![user("go")]));
    let mut changed = first.turn.clone();
    changed.native[0]["signature"] = "forged".into();
    let mut lost = first.turn.clone();
    lost.native.remove(0);
    for turn in [changed, lost] {
        let messages = vec![user("go"), Message::Assistant(turn), results(&first, "x")];
        let failure = client.failure(request(messages));
        assert_eq!(failure.error, ModelError::BadRequest, "{failure:?}");
        assert_eq!(failure.progress, RequestProgress::NotAccepted);
    }
}

#[test]
fn another_model_gets_the_conversation_without_foreign_reasoning() {
    let (server, mut client) = start(vec![read_reply(1).thinking("hm"), ScriptedReply::say("ok")]);
    server.verify(RequestChecks { conversation: true, cache_prefix: false });
    let first = client.answer(request(vec![user("go")]));
    let mut second = request(vec![user("go"), Message::Assistant(first.turn.clone()), results(&first, "x")]);
    second.model = "small-1".to_owned();
    // A real service verifies reasoning by the model that wrote it, so the turn is rebuilt.
    server.verify(RequestChecks::default());
    client.answer(second);
    let content = server.requests()[1].body["messages"][1]["content"].clone();
    assert_eq!((content.as_array().unwrap().len(), &content[0]["type"]), (1, &json!("tool_use")));
}

#[test]
fn unreadable_arguments_are_reported_and_the_conversation_stays_valid() {
    let broken = [
        ("{\"path\": ", "incomplete"),
        ("{path: 1}", "not valid JSON"),
        ("[1]", "not a JSON object"),
        ("\"text\"", "not a JSON object"),
        ("{\"a\": 1e999}", "not valid JSON"),
    ];
    for (raw, reason) in broken {
        let reply = ScriptedReply::say("I try.").and_raw_call("read", raw).and_call("write", json!({}));
        let (server, mut client) = start(vec![reply, ScriptedReply::say("ok")]);
        let first = client.answer(request(vec![user("go")]));
        let ToolArguments::Unreadable(message) = &first.turn.calls[0].arguments else { panic!("{raw}") };
        assert!(message.contains(reason), "{raw}: {message}");
        assert_eq!(first.turn.calls[1].arguments, ToolArguments::Parsed(json!({})));
        let messages = vec![user("go"), Message::Assistant(first.turn.clone()), results(&first, "bad")];
        client.answer(request(messages));
        assert_eq!(server.requests()[1].body["messages"][1]["content"][1]["input"], json!({}), "{raw}");
    }
}

#[test]
fn ten_megabytes_of_arguments_are_unreadable_and_cost_no_memory() {
    let long = format!("{{\"path\": \"{}\"}}", "x".repeat(10 << 20));
    let reply = ScriptedReply::call("write", json!({})).and_raw_call("read", &long);
    let (_server, mut client) = start(vec![reply, ScriptedReply::say("ok")]);
    let first = client.answer(request(vec![user("go")]));
    assert_eq!(first.turn.calls[0].arguments, ToolArguments::Parsed(json!({})));
    let ToolArguments::Unreadable(message) = &first.turn.calls[1].arguments else { panic!() };
    assert_eq!(message, "the arguments are longer than 1024 KiB");
    assert!(serde_json::to_vec(&first).unwrap().len() < 10_000);
    client.answer(request(vec![user("go"), Message::Assistant(first.turn.clone()), results(&first, "x")]));
}

#[test]
fn missing_and_repeated_ids_are_replaced_one_to_one() {
    let same = |reply: ScriptedReply| reply.with_id("same");
    let script = (0..3)
        .map(|_| {
            let reply = same(same(read_reply(1)).and_call("write", json!({})));
            reply.and_call("read", json!({})).with_id("").and_call("read", json!({})).with_id("a:b")
        })
        .chain([ScriptedReply::say("ok")]);
    let (_server, mut client) = start(script.collect());
    let mut messages = vec![user("go")];
    let mut ids = Vec::new();
    for _ in 0..3 {
        let answer = client.answer(request(messages.clone()));
        ids.extend(answer.turn.calls.iter().map(|call| call.id.clone()));
        messages.extend([Message::Assistant(answer.turn.clone()), results(&answer, "x")]);
    }
    // The server itself refuses ids that are repeated, invalid or without a result.
    client.answer(request(messages));
    let number = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!((number, ids.len()), (12, 12));
}

#[test]
fn a_turn_may_end_in_any_way() {
    let cases = [
        (
            ScriptedReply::say("no").stopping("refusal"),
            StopReason::Refusal("the model declines to answer".into()),
        ),
        (ScriptedReply::say("so").stopping("model_context_window_exceeded"), StopReason::ContextWindow),
        (ScriptedReply::say("so").stopping("max_tokens"), StopReason::MaxTokens),
        (ScriptedReply::say("so").stopping("pause_turn"), StopReason::Other("pause_turn".into())),
        (ScriptedReply::say("so").stopping("stop_sequence"), StopReason::EndTurn),
        // Servers that name the wrong reason.
        (ScriptedReply::say("so").stopping("tool_use"), StopReason::EndTurn),
        (read_reply(1).stopping("end_turn"), StopReason::ToolUse),
    ];
    for (reply, expected) in cases {
        let (_server, mut client) = start(vec![reply]);
        assert_eq!(client.answer(request(vec![user("go")])).stop, expected);
    }
    // A call whose arguments never began because the tokens ran out is no call without arguments.
    let reply = ScriptedReply::say("so").and_raw_call("read", "").stopping("max_tokens");
    let (_server, mut client) = start(vec![reply]);
    let answer = client.answer(request(vec![user("go")]));
    assert!(matches!(answer.turn.calls[0].arguments, ToolArguments::Unreadable(_)));
}

#[test]
fn usage_is_what_the_service_reports_within_reason() {
    let usage = |usage| {
        let (_server, mut client) = start(vec![ScriptedReply::say("ok").using_json(usage)]);
        client.answer(request(vec![user("go")])).usage
    };
    assert_eq!(usage(json!(null)), None);
    assert_eq!(usage(json!({ "input_tokens": -1, "output_tokens": 1.5 })), None);
    assert_eq!(usage(json!({ "input_tokens": u64::MAX, "output_tokens": u64::MAX })), None);
    let written = json!({
        "input_tokens": 5, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 300, "output_tokens": 7,
    });
    let expected = Usage {
        input_tokens: 325,
        output_tokens: 7,
        cache_read_tokens: 300,
        cache_write_tokens: 20,
        cost: None,
    };
    assert_eq!(usage(written), Some(expected));
}

#[test]
fn a_last_turn_without_calls_keeps_its_tools() {
    let (server, mut client) =
        start(vec![read_reply(1), ScriptedReply::say("end"), ScriptedReply::say("end")]);
    let first = client.answer(request(vec![user("go")]));
    let messages = vec![user("go"), Message::Assistant(first.turn.clone()), results(&first, "x")];
    let mut last = request(messages);
    last.tool_choice = ToolChoice::Forbidden;
    client.answer(last.clone());
    let body = &server.requests()[1].body;
    assert_eq!(
        (&body["tool_choice"], body["tools"].as_array().map(Vec::len)),
        (&json!({ "type": "none" }), Some(2))
    );
    assert!(server.model_requests()[1].tools.is_empty());
    // Without tools, the service would refuse the calls of the conversation.
    server.verify(RequestChecks { conversation: true, cache_prefix: false });
    last.tools = Vec::new();
    client.answer(last);
    assert!(server.model_requests()[2].tools.is_empty());
}

#[test]
fn several_requests_run_at_once_and_each_gets_its_own_answer() {
    let script = (0..6).map(|number| {
        let text = format!("question {number}.");
        ScriptedReply::say(&format!("answer {number}.")).after_ms(20).when(RequestCondition::last(&text))
    });
    let (server, mut client) = start(script.collect());
    for number in 0..6 {
        client.send(number, request(vec![user(&format!("question {number}."))]));
    }
    let mut answers = Vec::new();
    while answers.len() < 6 {
        match client.next_event() {
            ModelClientEvent::Answered { id, answer } => answers.push((id, answer.turn.text)),
            ModelClientEvent::Failed(failure) => panic!("{failure:?}"),
            _ => {}
        }
    }
    answers.sort();
    let expected: Vec<_> = (0..6).map(|number| (number, format!("answer {number}."))).collect();
    assert_eq!(answers, expected);
    assert!(server.connections() <= 4, "{}", server.connections());
}

#[test]
fn a_cancelled_request_ends_at_once_and_leaves_the_service() {
    let (server, mut client) = start(vec![
        ScriptedReply::stall("Half of this is lost"),
        ScriptedReply::error(429, "slow down").retry_after_s(30),
        ScriptedReply::say("next"),
    ]);
    client.send(7, request(vec![user("go")]));
    while !matches!(client.next_event(), ModelClientEvent::Text { id: 7, .. }) {}
    client.write(encode_cancel(7));
    let failure = client.finish().1.unwrap_err();
    assert_eq!((failure.id, failure.cause), (7, FailureCause::Cancelled));
    assert_eq!(failure.progress, RequestProgress::AnswerBegun);
    assert_eq!(failure.usage.map(|usage| usage.input_tokens), Some(100));
    assert!(server.wait_until(PATIENCE, |seen| seen[0].client_left), "the connection is closed");
    // Also while it waits for the next attempt.
    client.send(8, request(vec![user("go")]));
    while !matches!(client.next_event(), ModelClientEvent::Retrying { id: 8, .. }) {}
    client.write(encode_cancel(8));
    assert_eq!(client.finish().1.unwrap_err().cause, FailureCause::Cancelled);
    // The client goes on, and nothing comes for a request that is not there.
    client.write(encode_cancel(99));
    assert_eq!(client.answer(request(vec![user("go")])).turn.text, "next");
    client.end();
}

#[test]
fn the_end_of_input_abandons_what_runs() {
    let (server, client) = start(vec![ScriptedReply::hang()]);
    client.send(1, request(vec![user("go")]));
    assert!(server.wait_until(PATIENCE, |seen| !seen.is_empty()));
    client.end();
    assert!(server.wait_until(PATIENCE, |seen| seen[0].client_left));
}

#[test]
fn lines_that_are_no_requests_are_reported() {
    let (_server, mut client) = start(vec![ScriptedReply::say("ok")]);
    for line in ["\n", "{}\n", "{\"request\": {\"id\": 1}}\n", "[[[\n", "\u{0}\n"] {
        client.write(line.as_bytes().to_vec());
        assert!(matches!(client.next_event(), ModelClientEvent::InvalidInput { .. }), "{line:?}");
    }
    assert_eq!(client.answer(request(vec![user("go")])).turn.text, "ok");
}

#[test]
fn tools_are_refused_where_the_protocol_does_not_support_them_yet() {
    for name in ["openai", "gemini"] {
        let server = ScriptedServer::start(vec![ScriptedReply::say("ok").always()]).unwrap();
        let service = known_service(name).unwrap().service;
        assert!(!service.supports_tools());
        let mut client = TestClient::start_with(&service, &server.url(), Some(KEY));
        let failure = client.failure(request(vec![user("go")]));
        assert_eq!(
            (failure.cause, failure.progress),
            (FailureCause::Unsupported, RequestProgress::NotAccepted)
        );
        assert!(failure.message.contains("tools are not supported"), "{}", failure.message);
        let mut plain = request(vec![
            user("one"),
            Message::Assistant(super::client_fixtures::text_answer("two").turn),
            user("three"),
        ]);
        plain.tools = Vec::new();
        assert_eq!(client.answer(plain).turn.text, "ok", "{name}");
        assert_eq!(server.model_requests()[0].messages.len(), 3);
    }
    assert!(tool("read").input_schema.is_object());
}

#[test]
fn the_server_marks_a_request_that_it_refused() {
    let (server, mut client) = start(vec![ScriptedReply::say("ok")]);
    // The prefix changed: this conversation was never begun.
    let turn = super::client_fixtures::text_answer("before").turn;
    let failure = client.failure(request(vec![user("a"), Message::Assistant(turn), user("b")]));
    assert!(failure.message.contains("cache prefix"), "{}", failure.message);
    assert_eq!(server.requests()[0].purpose, RequestPurpose::Invalid);
}
