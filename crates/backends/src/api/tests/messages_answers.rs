//! Answers in Anthropic's protocol, as a stream in pieces of any size and as one document.

use domain::conversation::{ModelAnswer, StopReason, ToolArguments};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::answer_stream::AnswerStream;
use super::super::wire::Wire;
use super::client_fixtures::{request, user};

fn blocks() -> Vec<Value> {
    vec![
        json!({ "type": "thinking", "thinking": "Ich prüfe — 你好.", "signature": "c2ln" }),
        json!({ "type": "redacted_thinking", "data": "ZGF0YQ==" }),
        json!({ "type": "text", "text": "Two files.\nI read both.", "citations": [{ "cited_text": "x" }] }),
        json!({ "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": { "query": "é" } }),
        json!({ "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{ "a": [1, 2.5] }] }),
        json!({ "type": "from_the_future", "payload": { "deep": [null, true] } }),
        json!({ "type": "tool_use", "id": "toolu_1", "name": "read", "input": { "path": "a\"b", "n": 1 } }),
        json!({ "type": "tool_use", "id": "toolu_2", "name": "write", "input": {} }),
    ]
}

/// Renders blocks as the service streams them, with each text in two pieces.
fn stream() -> String {
    let mut events = vec![
        json!({ "type": "message_start", "message": { "model": "big-1", "usage": { "input_tokens": 3, "output_tokens": 1 } } }),
        json!({ "type": "ping" }),
    ];
    for (index, block) in blocks().iter().enumerate() {
        let mut opening = block.clone();
        let mut deltas = Vec::new();
        let halves = |text: &str| {
            let at = text.floor_char_boundary(text.len() / 2);
            [text[..at].to_owned(), text[at..].to_owned()]
        };
        let mut text_deltas = |member: &str, kind: &str| {
            let text = opening[member].as_str().unwrap_or_default().to_owned();
            opening[member] = "".into();
            deltas.extend(halves(&text).map(|piece| json!({ "type": kind, member: piece })));
        };
        match block["type"].as_str() {
            Some("thinking") => {
                text_deltas("thinking", "thinking_delta");
                text_deltas("signature", "signature_delta");
            }
            Some("text") => {
                text_deltas("text", "text_delta");
                deltas.push(json!({ "type": "citations_delta", "citation": block["citations"][0] }));
                opening["citations"] = Value::Null;
            }
            Some("tool_use" | "server_tool_use") => {
                opening["input"] = json!({});
                deltas.push(json!({ "type": "input_json_delta", "partial_json": "" }));
                let pieces = halves(&block["input"].to_string());
                deltas
                    .extend(pieces.map(|piece| json!({ "type": "input_json_delta", "partial_json": piece })));
            }
            _ => {}
        }
        events.push(json!({ "type": "content_block_start", "index": index, "content_block": opening }));
        let delta = |delta| json!({ "type": "content_block_delta", "index": index, "delta": delta });
        events.extend(deltas.into_iter().map(delta));
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    events.push(json!({
        "type": "message_delta", "delta": { "stop_reason": "tool_use" },
        "usage": { "output_tokens": 9, "cache_read_input_tokens": 4 },
    }));
    events.push(json!({ "type": "message_stop" }));
    let render =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
    events.iter().map(render).collect()
}

fn parse<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (String, ModelAnswer) {
    let mut stream = AnswerStream::new(Wire::Messages);
    let mut text = String::new();
    for piece in pieces {
        stream.feed(piece).unwrap();
        text.push_str(&stream.answer.take_text());
    }
    stream.finish(None).unwrap();
    text.push_str(&stream.answer.take_text());
    (text, stream.answer.finish("messages", &request(vec![user("go")])).unwrap())
}

#[test]
fn a_stream_and_a_document_give_the_same_blocks() {
    let body = stream();
    let (text, streamed) = parse(std::iter::once(body.as_bytes()));
    assert_eq!(streamed.turn.native, blocks());
    // The bytes are the same, too: members keep their order.
    assert_eq!(Value::from(streamed.turn.native.clone()).to_string(), Value::from(blocks()).to_string());
    assert_eq!(
        (text.as_str(), streamed.turn.text.as_str()),
        ("Two files.\nI read both.", "Two files.\nI read both.")
    );
    assert_eq!(streamed.stop, StopReason::ToolUse);
    let usage = streamed.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cache_read_tokens), (7, 9, 4));
    let calls: Vec<_> = streamed.turn.calls.iter().map(|call| (&*call.id, &call.arguments)).collect();
    let parsed = [json!({ "path": "a\"b", "n": 1 }), json!({})].map(ToolArguments::Parsed);
    assert_eq!(calls, [("toolu_1", &parsed[0]), ("toolu_2", &parsed[1])]);
    let document = json!({
        "type": "message", "model": "big-1", "content": blocks(), "stop_reason": "tool_use",
        "usage": { "input_tokens": 3, "output_tokens": 9, "cache_read_input_tokens": 4 },
    });
    let (_, whole) = parse(std::iter::once(document.to_string().as_bytes()));
    assert_eq!(whole, streamed);
}

#[test]
fn a_stream_may_lack_what_is_not_needed() {
    let event = |event: Value| format!("data: {event}\n\n");
    // No start of the message or of the block, no index, no stop of the block, no blank line at the end.
    let body =
        event(json!({ "type": "content_block_delta", "delta": { "type": "text_delta", "text": "all" } }))
            + "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}";
    let (text, answer) = parse(std::iter::once(body.as_bytes()));
    assert_eq!((text.as_str(), answer.turn.text.as_str(), answer.usage), ("all", "all", None));
    // The whole input at once.
    let call = json!({ "type": "tool_use", "id": "t", "name": "read", "input": { "a": 1 } });
    let body = event(json!({ "type": "content_block_start", "index": 0, "content_block": call }))
        + &event(json!({ "type": "message_stop" }));
    let (_, answer) = parse(std::iter::once(body.as_bytes()));
    assert_eq!(answer.turn.calls[0].arguments, ToolArguments::Parsed(json!({ "a": 1 })));
    assert_eq!(answer.stop, StopReason::ToolUse);
}

#[test]
fn deep_values_do_not_break_the_lines_that_carry_them() {
    let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let call = |arguments: &str| {
        let event = |event: Value| format!("data: {event}\n\n");
        let block = json!({ "type": "tool_use", "id": "t", "name": "read", "input": {} });
        let delta = json!({ "type": "input_json_delta", "partial_json": arguments });
        let body = event(json!({ "type": "content_block_start", "content_block": block }))
            + &event(json!({ "type": "content_block_delta", "delta": delta }))
            + &event(json!({ "type": "message_stop" }));
        parse(std::iter::once(body.as_bytes())).1
    };
    for levels in [1, 50, 100, 10_000] {
        let answer = call(&format!("{{\"a\": {}}}", deep(levels)));
        let is_readable = matches!(answer.turn.calls[0].arguments, ToolArguments::Parsed(_));
        assert_eq!(is_readable, levels <= 50, "{levels}");
        let line = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<ModelAnswer>(&line).unwrap(), answer);
    }
}

fn event() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z{\"\\\\}\\[ ]{0,12}".prop_map(Value::from),
        Just(json!("tool_use")),
        Just(json!("text")),
        Just(json!("end_turn")),
    ];
    let value = leaf.prop_recursive(3, 12, 3, |inner| {
        let member = prop_oneof![
            Just("type"),
            Just("text"),
            Just("input"),
            Just("id"),
            Just("name"),
            Just("partial_json"),
            Just("citation"),
            Just("citations"),
            Just("usage"),
            Just("input_tokens"),
            Just("stop_reason"),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((member, inner), 0..4)
                .prop_map(|members| members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    });
    let kind = prop_oneof![
        Just("message_start"),
        Just("content_block_start"),
        Just("content_block_delta"),
        Just("content_block_stop"),
        Just("message_delta"),
        Just("other"),
    ];
    (kind, 0_u64..4, value).prop_map(|(kind, index, value)| {
        json!({ "type": kind, "index": index, "content_block": value, "delta": value, "message": value, "usage": value })
    })
}

proptest! {
    #[test]
    fn pieces_of_any_size_give_the_same_answer(size in 1_usize..200) {
        let body = stream();
        let whole = parse(std::iter::once(body.as_bytes()));
        prop_assert_eq!(parse(body.as_bytes().chunks(size)), whole);
    }

    #[test]
    fn every_cut_is_an_error_or_the_whole_answer(cut in 0_usize..4_000) {
        let body = stream();
        let cut = cut.min(body.len());
        let mut stream = AnswerStream::new(Wire::Messages);
        stream.feed(&body.as_bytes()[..cut]).unwrap();
        let result = stream.finish(Some("connection reset"));
        // The reason to stop is in the event before the last, which is whole with its blank line.
        let reason_end = body.rfind("event: message_stop").unwrap();
        let has_stop = cut >= reason_end;
        prop_assert_eq!(result.is_ok(), has_stop);
    }

    #[test]
    fn no_order_of_events_makes_the_parser_panic(events in prop::collection::vec(event(), 0..12)) {
        let mut stream = AnswerStream::new(Wire::Messages);
        for event in events {
            if stream.feed(format!("data: {event}\n\n").as_bytes()).is_err() {
                return Ok(());
            }
        }
        let _ = stream.finish(None);
        let answer = stream.answer.finish("messages", &request(vec![user("go")]));
        if let Ok(answer) = answer {
            let line = serde_json::to_string(&answer).unwrap();
            prop_assert!(serde_json::from_str::<ModelAnswer>(&line).is_ok());
            let ids: std::collections::BTreeSet<_> = answer.turn.calls.iter().map(|call| &call.id).collect();
            prop_assert_eq!(ids.len(), answer.turn.calls.len());
        }
    }
}
