//! Invalid lines: each is answered, with its id if it can be found, and none ends the server.

use rmcp::model::JsonRpcMessage;
use serde_json::{Value, json};

use super::super::id_scan::IdScan;
use super::super::jsonrpc_line::{self, Incoming, LINE_BYTES_MAX};
use super::client_session::{ClientSession, Era};

fn refusals(line: &[u8]) -> Vec<(Value, i32)> {
    match jsonrpc_line::read(line) {
        Some(Incoming::Refused(refusals)) => {
            refusals.into_iter().map(|refusal| (refusal.id, refusal.code.0)).collect()
        }
        // Passed on as a response to a server request; the library drops unknown ones.
        Some(Incoming::Message(message))
            if matches!(*message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)) =>
        {
            Vec::new()
        }
        Some(Incoming::Message(message)) => panic!("taken for a message: {message:?}"),
        None => Vec::new(),
    }
}

#[track_caller]
fn check(line: &str, id: Value, code: i32) {
    assert_eq!(refusals(line.as_bytes()), [(id, code)], "{line}");
}

#[test]
fn text_that_is_not_json_is_answered_with_the_id_that_it_contains() {
    check("hello", Value::Null, -32700);
    check("{", Value::Null, -32700);
    check(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"#, json!(7), -32700);
    check(
        r#"{"method":"tools/call","params":{"name":"x",},"jsonrpc":"2.0","id":"a-1"}"#,
        json!("a-1"),
        -32700,
    );
    check(r#"{"id" : 12 , "method":"x" "params":{}}"#, json!(12), -32700);
    check(r#"{"jsonrpc":"2.0","id":7,"method":"x"} trailing"#, json!(7), -32700);
}

#[test]
fn an_id_inside_the_parameters_is_not_taken_for_the_id_of_the_request() {
    check(r#"{"jsonrpc":"2.0","method":"x","params":{"id":5}"#, Value::Null, -32700);
    check(r#"{"params":{"text":"\"id\":9,"},"method":bad}"#, Value::Null, -32700);
    check(r#"[{"id":5}"#, Value::Null, -32700);
    // The number may be cut off.
    check(r#"{"jsonrpc":"2.0","method":"x","id":1"#, Value::Null, -32700);
}

#[test]
fn a_message_of_the_wrong_shape_is_an_invalid_request() {
    check("42", Value::Null, -32600);
    check(r#""text""#, Value::Null, -32600);
    check("{}", Value::Null, -32600);
    check(r#"{"jsonrpc":"2.0","id":3}"#, json!(3), -32600);
    check(r#"{"id":3,"method":"tools/list"}"#, json!(3), -32600);
    check(r#"{"jsonrpc":"1.0","id":3,"method":"tools/list"}"#, json!(3), -32600);
    check(r#"{"jsonrpc":"2.0","id":3,"method":7}"#, json!(3), -32600);
    check(r#"{"jsonrpc":"2.0","id":null,"method":"tools/list"}"#, Value::Null, -32600);
    check(r#"{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}"#, json!(1.5), -32600);
    check(r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"ping"}"#, json!(u64::MAX), -32600);
    check(r#"{"jsonrpc":"2.0","id":{},"method":"tools/list"}"#, Value::Null, -32600);
}

#[test]
fn parameters_of_the_wrong_shape_are_invalid_parameters() {
    check(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call"}"#, json!(3), -32602);
    check(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":null}"#, json!(3), -32602);
    check(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{}}"#, json!(3), -32602);
    check(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":5}}"#, json!(3), -32602);
    check(
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"x","arguments":[]}}"#,
        json!(3),
        -32602,
    );
    check(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":[]}"#, json!(3), -32602);
    check(r#"{"jsonrpc":"2.0","id":3,"method":"initialize","params":{}}"#, json!(3), -32602);
    check(r#"{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":1}}"#, json!(3), -32602);
    check(
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"x","_meta":1}}"#,
        json!(3),
        -32602,
    );
}

#[test]
fn each_request_of_a_batch_is_refused_by_its_id() {
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","id":"b","method":"ping"}]"#;
    assert_eq!(refusals(batch.as_bytes()), [(json!(1), -32600), (json!("b"), -32600)]);
    check("[]", Value::Null, -32600);
}

#[test]
fn bytes_that_are_not_text_are_answered() {
    let mut line = br#"{"jsonrpc":"2.0","id":8,"method":"x","params":{"t":""#.to_vec();
    line.extend([0xff, 0xfe, 0x00]);
    line.extend(br#""}}"#);
    assert_eq!(refusals(&line), [(json!(8), -32700)]);
    check(r#"{"jsonrpc":"2.0","id":8,"method":"x","params":{"t":"\ud800"}}"#, json!(8), -32700);
    assert_eq!(refusals(b"\0\0\0"), [(Value::Null, -32700)]);
    let deep = format!(r#"{{"jsonrpc":"2.0","id":8,"method":"x","params":{}"#, "[".repeat(100_000));
    assert_eq!(refusals(deep.as_bytes()), [(json!(8), -32700)]);
}

#[test]
fn notifications_responses_and_blank_lines_are_never_answered() {
    for line in [
        "",
        "  \t\r",
        r#"{"method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":[1],"result":7}"#,
    ] {
        assert_eq!(refusals(line.as_bytes()), [], "{line:?}");
    }
}

#[test]
fn the_scan_does_not_depend_on_where_its_input_is_cut() {
    let text = br#"{"params":{"id":1,"t":"\"id\":2"},"method":"m","id":"x\"y","z":[1,{"id":3}]}"#;
    for size in 1..text.len() {
        let mut scan = IdScan::default();
        text.chunks(size).for_each(|chunk| scan.feed(chunk));
        assert_eq!(scan.finish().id, Some(json!("x\"y")), "in pieces of {size}");
    }
}

#[tokio::test]
async fn a_line_that_is_too_long_is_drained_and_refused_with_the_id_at_its_end() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    let mut line = br#"{"method":"tools/call","params":{"name":"run_agent","arguments":{"prompt":""#.to_vec();
    line.resize(LINE_BYTES_MAX + 100_000, b'x');
    line.extend(b"\"}},\"jsonrpc\":\"2.0\",\"id\":4711}\n");
    session.send_bytes(&line);
    let answer = session.next().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(4711), &json!(-32600)));
    assert!(answer["error"]["message"].as_str().unwrap().contains("16 MiB"));
    assert!(session.ask(Era::Legacy, "tools/list", json!({})).await["result"].is_object());
}

#[tokio::test]
async fn a_last_line_without_its_end_is_still_answered() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    session.send_bytes(br#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#);
    session.hang_up();
    assert_eq!(session.next().await, json!({ "jsonrpc": "2.0", "id": 5, "result": {} }));
}

#[tokio::test]
async fn lines_may_end_as_on_windows() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    session.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\"}\r\n");
    assert_eq!(session.next().await["result"], json!({}));
}

/// A deterministic random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).expect("below the bound")
    }
}

fn mutate(line: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(3) {
        let at = random.below(line.len());
        match random.below(5) {
            0 => line[at] = u8::try_from(random.below(256)).expect("a byte"),
            1 => line.truncate(at.max(1)),
            2 => line.insert(at, b"{}[]\",:\\\0"[random.below(9)]),
            3 => drop(line.remove(at)),
            _ => {
                let end = (at + 8).min(line.len());
                line.extend_from_within(at..end);
            }
        }
        if line.is_empty() {
            line.push(b'{');
        }
    }
    line.retain(|byte| *byte != b'\n');
}

/// A mutated line is answered once if it still has its id, and the server continues.
#[tokio::test]
async fn a_thousand_malformed_lines_are_all_answered() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    let templates = [
        r#"{"jsonrpc":"2.0","id":ID,"method":"tools/list","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"name":"health","arguments":{}}}"#,
        r#"{"method":"resources/read","params":{"uri":"volery://agents"},"jsonrpc":"2.0","id":ID}"#,
    ];
    let mut random = Random(0x5eed_5eed_5eed_5eed);
    for number in 0..1_000 {
        let id = 10_000 + number;
        let text = templates[random.below(templates.len())].replace("ID", &id.to_string());
        let mut line = text.into_bytes();
        mutate(&mut line, &mut random);
        let expected = match jsonrpc_line::read(&line) {
            None => Vec::new(),
            Some(Incoming::Refused(refusals)) => refusals.into_iter().map(|refusal| refusal.id).collect(),
            Some(Incoming::Message(message)) => match *message {
                rmcp::model::JsonRpcMessage::Request(request) => vec![request.id.into_json_value()],
                _ => Vec::new(),
            },
        };
        let carries_id = {
            let mut scan = IdScan::default();
            scan.feed(&line);
            scan.finish().id.is_some()
        };
        assert!(!carries_id || !expected.is_empty(), "not answered: {}", String::from_utf8_lossy(&line));
        line.push(b'\n');
        session.send_bytes(&line);
        for id in expected {
            let answer = session.next().await;
            assert_eq!(answer["id"], id, "{} -> {answer}", String::from_utf8_lossy(&line));
        }
    }
    assert!(session.ask(Era::Legacy, "tools/list", json!({})).await["result"].is_object());
}
