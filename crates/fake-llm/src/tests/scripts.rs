//! Scripts in files, and unusual requests.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;

use super::http_client::PATIENCE;
use crate::{AnswerEnd, RequestCondition, ScriptedReply, ScriptedServer, ScriptedUsage, parse_script};

#[test]
fn a_script_in_a_file_means_the_same_as_one_in_code() {
    let text = r#"[
        {"say": "hi", "thinking": "hm", "usage": {"input": 5, "output": 6}},
        {"calls": [{"name": "Bash", "arguments": {"command": "ls"}}, {"name": "x", "namespace": "n"}], "delay_ms": 7},
        {"error": {"status": 429, "message": "slow", "kind": "k", "retry_after_s": 2}, "times": 3},
        {"say": "Hello world", "end": "cut"},
        {"say": "Hello world", "end": "length"},
        {"end": "hang", "times": "always"},
        {"say": "ok", "end": "unfinished", "when": {"last": "ENOENT", "messages": 3, "tool": "read"}},
        {"say": "ok", "redacted_thinking": "ZA==", "stop_reason": "refusal", "usage_json": {}},
        {"calls": [{"name": "read", "raw_arguments": "{\"a\": ", "id": ""}], "usage_json": {"input_tokens": -1}}
    ]"#;
    let expected = vec![
        ScriptedReply::say("hi").thinking("hm").using(ScriptedUsage { input: 5, output: 6, cached: 0 }),
        ScriptedReply::call("Bash", json!({ "command": "ls" })).and_call_in("n", "x", json!({})).after_ms(7),
        ScriptedReply::error(429, "slow").kind("k").retry_after_s(2).times(3),
        ScriptedReply::cut("Hello world"),
        ScriptedReply::say("Hello world").ending(AnswerEnd::Length),
        ScriptedReply::hang().always(),
        ScriptedReply::say("ok").ending(AnswerEnd::Unfinished).when(RequestCondition {
            messages: Some(3),
            tool: Some("read".to_owned()),
            ..RequestCondition::last("ENOENT")
        }),
        ScriptedReply::say("ok").redacted_thinking("ZA==").stopping("refusal").using_json(json!({})),
        ScriptedReply::hang()
            .ending(AnswerEnd::Whole)
            .and_raw_call("read", "{\"a\": ")
            .with_id("")
            .using_json(json!({ "input_tokens": -1 })),
    ];
    assert_eq!(parse_script(text).expect("the script is right"), expected);
}

#[test]
fn a_wrong_script_says_which_reply_is_wrong() {
    let check = |text: &str| parse_script(text).expect_err("the script is wrong").to_string();
    let cases = [
        (
            r#"[{"say":"a"},{}]"#,
            "read reply 2 of the script: it neither says nor calls anything, and is no error",
        ),
        (
            r#"[{"say":"a","end":"soon"}]"#,
            "read reply 1 of the script: end is one of whole, length, cut, hang, unfinished",
        ),
        (r#"[{"say":"a","times":-1}]"#, "read reply 1 of the script: times is a number or \"always\""),
        (
            r#"[{"say":"a","error":{"status":500}}]"#,
            "read reply 1 of the script: an error says and calls nothing",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(check(text), expected);
    }
    assert!(check(r#"[{"said":"a"}]"#).contains("unknown field `said`"));
}

#[test]
fn a_connection_carries_several_requests_also_in_chunks() {
    let server = ScriptedServer::start(vec![ScriptedReply::say("one"), ScriptedReply::say("two")])
        .expect("the server starts");
    let mut stream = TcpStream::connect(server.address()).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
    let head = "POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n";
    let chunks =
        "e\r\n{\"messages\":[{\r\n19\r\n\"role\":\"user\",\"content\":\"\r\n5\r\nx\"}]}\r\n0\r\n\r\n";
    write!(stream, "{head}\r\n{chunks}{head}Connection: close\r\n\r\n{chunks}").expect("the server reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the replies are text");
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 2, "{text}");
    let (one, two) = (text.find("\"one\""), text.find("\"two\""));
    assert!(one.is_some() && one < two, "{text}");
    assert!(
        server.model_requests().iter().all(|ask| ask.last_user_text() == "x"),
        "{:?}",
        server.model_requests()
    );
}

#[test]
fn a_request_that_is_too_long_is_not_read() {
    let server = ScriptedServer::start(vec![ScriptedReply::say("one")]).expect("the server starts");
    let mut stream = TcpStream::connect(server.address()).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
    let head = "POST /v1/messages HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("the server reads");
    let mut rest = Vec::new();
    // Closed or reset, but not answered.
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.is_empty());
    assert!(server.requests().is_empty());
}
