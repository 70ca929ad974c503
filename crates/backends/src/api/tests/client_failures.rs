//! Failures of a service and of its connection, as the model client reports them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use domain::run::ModelError;
use fake_llm::{AnswerEnd, ScriptedReply, ScriptedServer};
use serde_json::json;

use super::super::model_client::{FailureCause, ModelClientEvent, RequestProgress};
use super::super::request_run::backoff;
use super::super::service_config::known_service;
use super::KEY;
use super::client_fixtures::{TestClient, request, user};

fn start(script: Vec<ScriptedReply>) -> (ScriptedServer, TestClient) {
    let server = ScriptedServer::start(script).unwrap();
    let client = TestClient::start(&server.url());
    (server, client)
}

/// Answers one request after the other on each connection: `None` closes it after the request was read.
fn serve(connections: Vec<Vec<Option<String>>>) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        for answers in connections {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            for answer in answers {
                read_request(&mut reader);
                let Some(answer) = answer else { break };
                (&stream).write_all(answer.as_bytes()).unwrap();
            }
        }
    });
    (address, thread)
}

fn read_request(reader: &mut BufReader<TcpStream>) {
    let (mut line, mut length) = (String::new(), 0);
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
}

fn document(text: &str) -> String {
    let body = json!({
        "type": "message", "model": "big-1", "stop_reason": "end_turn",
        "content": [{ "type": "text", "text": text }],
    });
    let body = body.to_string();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn a_service_without_capacity_gets_the_request_again_and_each_wait_is_reported() {
    let (server, mut client) = start(vec![
        ScriptedReply::error(429, "slow down").retry_after_s(0).times(2),
        ScriptedReply::error(529, "busy").retry_after_s(0),
        ScriptedReply::say("now"),
    ]);
    client.send(3, request(vec![user("go")]));
    let (events, answer) = client.finish();
    assert_eq!(answer.unwrap().turn.text, "now");
    let waits: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            ModelClientEvent::Retrying { id, error, wait_ms, .. } => Some((*id, *error, *wait_ms)),
            _ => None,
        })
        .collect();
    let expected = [ModelError::RateLimit, ModelError::RateLimit, ModelError::Overloaded];
    assert_eq!(waits, expected.map(|error| (3, error, 0)));
    assert_eq!((server.requests().len(), server.connections()), (4, 1));
}

#[test]
fn retries_end_and_the_failure_says_when_to_come_again() {
    let (server, mut client) = start(vec![ScriptedReply::error(429, "slow").retry_after_s(0).always()]);
    let failure = client.failure(request(vec![user("go")]));
    assert_eq!((failure.error, failure.is_retryable), (ModelError::RateLimit, true));
    assert_eq!((failure.retry_after_ms, server.requests().len()), (Some(0), 4));
    // A wait beyond the time-out is none.
    let (server, mut client) = start(vec![ScriptedReply::error(429, "slow").retry_after_s(3_600).always()]);
    let failure = client.failure(request(vec![user("go")]));
    assert_eq!((failure.retry_after_ms, server.requests().len()), (Some(3_600_000), 1));
    // Money does not come back with time.
    let broke = ScriptedReply::error(429, "You exceeded your current quota").kind("insufficient_quota");
    let (server, mut client) = start(vec![broke.always()]);
    assert!(!client.failure(request(vec![user("go")])).is_retryable);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn the_wait_grows_and_differs_between_runs() {
    for random in 0..20 {
        let wait = |retry| backoff(None, retry, random);
        assert!(wait(1) >= Duration::from_millis(750) && wait(1) <= Duration::from_millis(1_250));
        assert!(wait(3) >= Duration::from_secs(3) && wait(40) <= Duration::from_secs(75));
        assert_eq!(backoff(Some(0), 1, random), Duration::ZERO);
        let requested = backoff(Some(20), 1, random);
        assert!(requested >= Duration::from_secs(20) && requested <= Duration::from_secs(21));
    }
    assert_ne!(backoff(None, 1, 0), backoff(None, 1, 5));
    let _ = backoff(Some(u64::MAX / 2), u32::MAX, u64::MAX);
}

#[test]
fn a_silent_service_is_left_after_the_idle_time() {
    for (reply, progress) in [
        (ScriptedReply::stall("Half of this is lost"), RequestProgress::AnswerBegun),
        (ScriptedReply::hang(), RequestProgress::Unknown),
    ] {
        let (server, mut client) = start(vec![reply]);
        client.send_within(1, request(vec![user("go")]), 60_000, 100);
        let failure = client.finish().1.unwrap_err();
        assert_eq!((failure.cause, failure.progress), (FailureCause::IdleTimeout, progress));
        assert_eq!(server.requests().len(), 1, "what was begun is not asked again");
    }
}

#[test]
fn a_request_ends_with_its_time() {
    let (_server, mut client) = start(vec![ScriptedReply::stall("Half of this is lost")]);
    client.send_within(1, request(vec![user("go")]), 150, 60_000);
    assert_eq!(client.finish().1.unwrap_err().cause, FailureCause::TotalTimeout);
}

#[test]
fn an_answer_that_ends_early_is_none() {
    let cut = ScriptedReply::cut("Half of this is lost");
    let unfinished = ScriptedReply::say("Half of this is lost").ending(AnswerEnd::Unfinished);
    let call = ScriptedReply::call("read", json!({ "path": "a" })).ending(AnswerEnd::Unfinished);
    for reply in [cut, unfinished, call] {
        let (server, mut client) = start(vec![reply, ScriptedReply::say("no")]);
        let failure = client.failure(request(vec![user("go")]));
        assert_eq!((failure.error, failure.cause), (ModelError::Other, FailureCause::Service));
        assert_eq!(failure.progress, RequestProgress::AnswerBegun);
        assert!(!failure.is_retryable);
        assert_eq!(failure.usage.map(|usage| usage.input_tokens), Some(100));
        assert_eq!(server.requests().len(), 1, "what was begun is not asked again");
        assert_eq!(client.answer(request(vec![user("go")])).turn.text, "no", "the client goes on");
    }
}

#[test]
fn a_wrong_key_a_redirect_and_an_unreachable_service_are_different_failures() {
    let (_server, mut client) =
        start(vec![ScriptedReply::error(401, &format!("the key {KEY} is wrong")).always()]);
    let failure = client.failure(request(vec![user("go")]));
    assert_eq!((failure.error, failure.progress), (ModelError::Denied, RequestProgress::NotAccepted));
    assert!(failure.message.contains("the key [redacted] is wrong"), "{}", failure.message);
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = elsewhere.local_addr().unwrap();
    let redirect = format!("HTTP/1.1 307 Found\r\nlocation: http://{target}/\r\ncontent-length: 0\r\n\r\n");
    let (address, serving) = serve(vec![vec![Some(redirect)]]);
    let mut client = TestClient::start(&address);
    let failure = client.failure(request(vec![user("go")]));
    assert_eq!((failure.error, failure.is_retryable), (ModelError::Unreachable, true));
    elsewhere.set_nonblocking(true).unwrap();
    assert!(elsewhere.accept().is_err(), "nobody went there");
    serving.join().unwrap();
    drop(elsewhere);
    let mut client = TestClient::start(&format!("http://{target}"));
    let failure = client.failure(request(vec![user("go")]));
    assert_eq!((failure.error, failure.progress), (ModelError::Unreachable, RequestProgress::NotAccepted));
    // No key at all: every request says so.
    let service = known_service("anthropic").unwrap().service;
    let mut client = TestClient::start_with(&service, &address, None);
    for _ in 0..2 {
        let failure = client.failure(request(vec![user("go")]));
        assert_eq!(failure.message, "there is no key for anthropic: set ANTHROPIC_API_KEY");
    }
}

#[test]
fn the_key_is_masked_in_answers_too() {
    // The fixture searches every line of output for the key.
    let (_server, mut client) =
        start(vec![ScriptedReply::call("read", json!({ "path": KEY })).thinking(KEY)]);
    let answer = client.answer(request(vec![user("go")]));
    assert_eq!(
        answer.turn.calls[0].arguments,
        domain::conversation::ToolArguments::Parsed(json!({ "path": "[redacted]" }))
    );
}

#[test]
fn a_connection_that_the_service_closed_meanwhile_is_replaced_once() {
    let (address, serving) =
        serve(vec![vec![Some(document("one")), None], vec![Some(document("two")), None], vec![None]]);
    let mut client = TestClient::start(&address);
    assert_eq!(client.answer(request(vec![user("go")])).turn.text, "one");
    client.send(1, request(vec![user("go")]));
    let (events, answer) = client.finish();
    assert_eq!(answer.unwrap().turn.text, "two");
    let is_retried =
        |event: &ModelClientEvent| matches!(event, ModelClientEvent::Retrying { wait_ms: 0, .. });
    assert!(events.iter().any(is_retried), "{events:?}");
    // The third connection is new, so that its loss is the service's failure.
    let failure = client.failure(request(vec![user("go")]));
    assert_eq!((failure.error, failure.progress), (ModelError::Unreachable, RequestProgress::Unknown));
    serving.join().unwrap();
}

#[test]
fn a_service_that_leaves_its_responses_open_is_not_waited_for() {
    let event = |event: &str| format!("data: {event}\n\n");
    let text = json!({ "type": "content_block_delta", "delta": { "type": "text_delta", "text": "done" } });
    let answer = event(&text.to_string()) + &event(&json!({ "type": "message_stop" }).to_string());
    // One byte of the announced body is never sent, and the connection stays open.
    let open = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{answer}", answer.len() + 1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let mut streams = Vec::new();
        for answer in [open, document("next")] {
            let (stream, _) = listener.accept().unwrap();
            read_request(&mut BufReader::new(stream.try_clone().unwrap()));
            (&stream).write_all(answer.as_bytes()).unwrap();
            streams.push(stream);
        }
        streams
    });
    let mut client = TestClient::start(&address);
    for expected in ["done", "next"] {
        assert_eq!(client.answer(request(vec![user("go")])).turn.text, expected);
    }
    drop(serving.join().unwrap());
}

#[test]
fn an_absurd_stream_ends_with_a_failure() {
    let event = |event: serde_json::Value| format!("data: {event}\n\n");
    let start =
        |block: serde_json::Value| event(json!({ "type": "content_block_start", "content_block": block }));
    let calls: String =
        (0..65).map(|_| start(json!({ "type": "tool_use", "name": "read", "input": {} }))).collect();
    let blocks: String = (0..513).map(|_| start(json!({ "type": "text", "text": "" }))).collect();
    let text = start(json!({ "type": "text", "text": "x".repeat(5 << 20) }));
    let end = event(json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" } }));
    let cases =
        [calls + &end, blocks + &end, text + &end, "data: no JSON\n\n".to_owned(), "x".repeat(9 << 20)];
    for body in cases {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        // The client may close the connection before it has read everything.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let serving = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            read_request(&mut BufReader::new(stream.try_clone().unwrap()));
            let _ = (&stream).write_all((head + &body).as_bytes());
        });
        let mut client = TestClient::start(&address);
        let failure = client.failure(request(vec![user("go")]));
        assert_eq!((failure.error, failure.cause), (ModelError::Other, FailureCause::Service), "{failure:?}");
        client.end();
        serving.join().unwrap();
    }
}
