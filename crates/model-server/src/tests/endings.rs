//! Answers that are refused, cut, late, or never come.

use std::io::Read as _;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{PATIENCE, ask, open, question};
use crate::{Format, Reply, Server};

const ALL: [Format; 4] = [Format::Messages, Format::Responses, Format::Chat, Format::Google];

#[test]
fn refusals_look_like_those_of_the_vendor() {
    let kinds = |format: Format| match format {
        Format::Messages => ["authentication_error", "rate_limit_error", "api_error", "overloaded_error"],
        Format::Responses | Format::Chat => {
            ["invalid_api_key", "rate_limit_exceeded", "server_error", "server_error"]
        }
        Format::Google => ["UNAUTHENTICATED", "RESOURCE_EXHAUSTED", "INTERNAL", "UNAVAILABLE"],
    };
    for (format, stream) in ALL.iter().flat_map(|format| [(*format, true), (*format, false)]) {
        let server = Server::start(vec![
            Reply::error(401, "who are you"),
            Reply::error(429, "slow down").retry_after_s(2),
            Reply::error(500, "broken"),
            Reply::error(529, "busy"),
        ])
        .expect("the server starts");
        for (status, kind) in [401, 429, 500, 529].into_iter().zip(kinds(format)) {
            let got = ask(&server, format, stream);
            assert_eq!((got.status, got.complete), (status, true));
            assert!(got.body.contains(&format!("{kind:?}")), "{format:?} {status}: {}", got.body);
            assert_eq!(got.head.contains("retry-after: 2"), status == 429, "{}", got.head);
        }
    }
}

#[test]
fn a_cut_stream_ends_within_an_event() {
    for format in ALL {
        let server = Server::start(vec![Reply::cut("Hello world")]).expect("the server starts");
        let got = ask(&server, format, true);
        assert_eq!((got.status, got.complete), (200, false), "{got:?}");
        assert!(!got.body.ends_with("\n\n"), "{format:?}: the last event is whole: {}", got.body);
        let whole: String = got.events().iter().map(Value::to_string).collect();
        assert!(whole.contains("Hello") && !whole.contains("world"), "{format:?}: {whole}");
    }
}

#[test]
fn a_cut_reply_is_shorter_than_announced() {
    for format in ALL {
        let server = Server::start(vec![Reply::cut("Hello world")]).expect("the server starts");
        let got = ask(&server, format, false);
        assert_eq!((got.status, got.complete), (200, false), "{got:?}");
    }
}

#[test]
fn a_cut_without_a_text_closes_before_any_reply() {
    use crate::End;
    let reply = Reply::hang().ending(End::Cut);
    let server = Server::start(vec![reply]).expect("the server starts");
    let got = ask(&server, Format::Chat, true);
    assert_eq!((got.status, got.head.as_str()), (0, ""));
}

#[test]
fn a_client_that_leaves_a_silent_server_is_noticed() {
    for reply in [Reply::hang(), Reply::stall("Hello world"), Reply::say("late").after_ms(60_000)] {
        let server = Server::start(vec![reply]).expect("the server starts");
        let (path, body) = question(Format::Messages, true);
        let stream = open(&server, "POST", path, &body);
        assert!(server.wait_until(PATIENCE, |seen| seen.len() == 1), "the request was not seen");
        assert!(!server.seen()[0].left);
        stream.shutdown(Shutdown::Both).expect("the stream is open");
        assert!(server.wait_until(PATIENCE, |seen| seen[0].left), "nobody noticed");
    }
}

#[test]
fn a_stalled_stream_has_sent_the_first_half() {
    let server = Server::start(vec![Reply::stall("Hello world")]).expect("the server starts");
    let (path, body) = question(Format::Chat, true);
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
fn a_delay_is_kept() {
    let server = Server::start(vec![Reply::say("late").after_ms(300)]).expect("the server starts");
    let begun = Instant::now();
    assert_eq!(ask(&server, Format::Google, false).status, 200);
    assert!(begun.elapsed() >= Duration::from_millis(300));
}

#[test]
fn a_server_that_is_dropped_lets_go_of_its_clients() {
    let server = Server::start(vec![Reply::hang().always()]).expect("the server starts");
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
