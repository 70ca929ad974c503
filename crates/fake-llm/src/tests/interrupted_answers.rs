//! Answers that are errors, cut, late, or missing.

use std::io::Read as _;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http_client::{PATIENCE, ask, open, request_for};
use crate::{ScriptedReply, ScriptedServer, WireFormat};

const ALL: [WireFormat; 4] =
    [WireFormat::Messages, WireFormat::Responses, WireFormat::Chat, WireFormat::Google];

#[test]
fn refusals_look_like_those_of_the_vendor() {
    let kinds = |format: WireFormat| match format {
        WireFormat::Messages => ["authentication_error", "rate_limit_error", "api_error", "overloaded_error"],
        WireFormat::Responses | WireFormat::Chat => {
            ["invalid_api_key", "rate_limit_exceeded", "server_error", "server_error"]
        }
        WireFormat::Google => ["UNAUTHENTICATED", "RESOURCE_EXHAUSTED", "INTERNAL", "UNAVAILABLE"],
    };
    for (format, stream) in ALL.iter().flat_map(|format| [(*format, true), (*format, false)]) {
        let server = ScriptedServer::start(vec![
            ScriptedReply::error(401, "who are you"),
            ScriptedReply::error(429, "slow down").retry_after_s(2),
            ScriptedReply::error(500, "broken"),
            ScriptedReply::error(529, "busy"),
        ])
        .expect("the server starts");
        for (status, kind) in [401, 429, 500, 529].into_iter().zip(kinds(format)) {
            let reply = ask(&server, format, stream);
            assert_eq!((reply.status, reply.complete), (status, true));
            assert!(reply.body.contains(&format!("{kind:?}")), "{format:?} {status}: {}", reply.body);
            assert_eq!(reply.head.contains("retry-after: 2"), status == 429, "{}", reply.head);
        }
    }
}

#[test]
fn a_cut_stream_ends_within_an_event() {
    for format in ALL {
        let server =
            ScriptedServer::start(vec![ScriptedReply::cut("Hello world")]).expect("the server starts");
        let reply = ask(&server, format, true);
        assert_eq!((reply.status, reply.complete), (200, false), "{reply:?}");
        assert!(!reply.body.ends_with("\n\n"), "{format:?}: the last event is whole: {}", reply.body);
        let whole: String = reply.events().iter().map(Value::to_string).collect();
        assert!(whole.contains("Hello") && !whole.contains("world"), "{format:?}: {whole}");
    }
}

#[test]
fn a_cut_reply_is_shorter_than_announced() {
    for format in ALL {
        let server =
            ScriptedServer::start(vec![ScriptedReply::cut("Hello world")]).expect("the server starts");
        let reply = ask(&server, format, false);
        assert_eq!((reply.status, reply.complete), (200, false), "{reply:?}");
    }
}

#[test]
fn a_cut_without_a_text_closes_before_any_reply() {
    use crate::AnswerEnd;
    let reply = ScriptedReply::hang().ending(AnswerEnd::Cut);
    let server = ScriptedServer::start(vec![reply]).expect("the server starts");
    let reply = ask(&server, WireFormat::Chat, true);
    assert_eq!((reply.status, reply.head.as_str()), (0, ""));
}

#[test]
fn a_client_that_leaves_a_silent_server_is_noticed() {
    for reply in [
        ScriptedReply::hang(),
        ScriptedReply::stall("Hello world"),
        ScriptedReply::say("late").after_ms(60_000),
    ] {
        let server = ScriptedServer::start(vec![reply]).expect("the server starts");
        let (path, body) = request_for(WireFormat::Messages, true);
        let stream = open(&server, "POST", path, &body);
        assert!(server.wait_until(PATIENCE, |seen| seen.len() == 1), "the request was not seen");
        assert!(!server.requests()[0].client_left);
        stream.shutdown(Shutdown::Both).expect("the stream is open");
        assert!(server.wait_until(PATIENCE, |seen| seen[0].client_left), "nobody noticed");
    }
}

#[test]
fn a_stalled_stream_has_sent_the_first_half() {
    let server = ScriptedServer::start(vec![ScriptedReply::stall("Hello world")]).expect("the server starts");
    let (path, body) = request_for(WireFormat::Chat, true);
    let mut stream = open(&server, "POST", path, &body);
    let mut text = String::new();
    let mut bytes = [0; 1024];
    while !text.contains("Hello") {
        let read = stream.read(&mut bytes).expect("the first half comes in time");
        assert!(read > 0, "the stream ended: {text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a time-out can be set");
    assert!(stream.read(&mut bytes).is_err(), "more came, or the stream ended");
}

#[test]
fn a_delay_is_observed() {
    let server =
        ScriptedServer::start(vec![ScriptedReply::say("late").after_ms(300)]).expect("the server starts");
    let started = Instant::now();
    assert_eq!(ask(&server, WireFormat::Google, false).status, 200);
    assert!(started.elapsed() >= Duration::from_millis(300));
}

#[test]
fn a_dropped_server_disconnects_its_clients() {
    let server = ScriptedServer::start(vec![ScriptedReply::hang().always()]).expect("the server starts");
    let mut streams: Vec<_> =
        (0..4).map(|_| open(&server, "POST", "/v1/messages", &json!({ "messages": [] }))).collect();
    assert!(server.wait_until(PATIENCE, |seen| seen.len() == 4));
    drop(server);
    for stream in &mut streams {
        // Closed or reset: in both cases the client is not left waiting.
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty());
    }
}
