//! Requests in Anthropic's protocol: whatever a conversation contains, the service accepts its shape.

use domain::conversation::{AssistantTurn, Message, ModelRequest, ToolArguments, ToolCall, ToolResult};
use fake_llm::{RequestChecks, ScriptedReply, ScriptedServer};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::providers;
use super::super::wire::Wire;
use super::client_fixtures::{TestClient, request, tool, user};

fn body(request: &ModelRequest) -> Value {
    Wire::Messages.post(request, providers::ANTHROPIC.quirks).unwrap().body
}

fn result(id: &str, text: &str) -> ToolResult {
    ToolResult { id: id.to_owned(), name: "read".to_owned(), text: text.to_owned(), is_error: true }
}

fn call(id: &str, name: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: ToolArguments::Parsed(json!({})) }
}

fn turn(wire: &str, text: &str, calls: Vec<ToolCall>) -> AssistantTurn {
    AssistantTurn {
        wire: wire.to_owned(),
        model: "big-1".to_owned(),
        native: Vec::new(),
        text: text.to_owned(),
        calls,
    }
}

#[test]
fn tools_are_sorted_and_marks_are_at_the_system_prompt_and_the_last_user_turns() {
    let assistant = || Message::Assistant(turn("chat", "ok", Vec::new()));
    let one = request(vec![user("a"), assistant(), user("b"), assistant(), user("c")]);
    let body = body(&one);
    let names: Vec<_> = (0..2).map(|at| body["tools"][at]["name"].clone()).collect();
    assert_eq!(names, ["read", "write"]);
    let mark = json!({ "type": "ephemeral" });
    assert_eq!(
        body["system"],
        json!([{ "type": "text", "text": "You are careful.", "cache_control": mark }])
    );
    let marked: Vec<bool> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"][0].get("cache_control").is_some())
        .collect();
    assert_eq!(marked, [false, false, true, false, true]);
    assert_eq!((&body["max_tokens"], body.get("tool_choice")), (&json!(4_096), None));
}

#[test]
fn a_single_question_is_not_cached() {
    let mut plain = request(vec![user("a")]);
    plain.tools = Vec::new();
    plain.max_output_tokens = None;
    plain.output_schema = Some(json!({ "type": "object" }));
    let body = body(&plain);
    assert!(!body.to_string().contains("cache_control"), "{body}");
    assert_eq!((&body["system"], &body["max_tokens"]), (&json!("You are careful."), &json!(16_384)));
    assert_eq!(body["output_config"]["format"]["schema"], json!({ "type": "object" }));
}

#[test]
fn results_of_missing_and_unknown_calls_and_empty_texts_are_repaired() {
    let turns = vec![
        user("go"),
        Message::Assistant(turn(
            "chat",
            " ",
            vec![call("", "read"), call("x:1", "two words"), call("", "read")],
        )),
        Message::ToolResults { results: vec![result("x:1", "one"), result("", ""), result("other", "lost")] },
        user(""),
        Message::Assistant(turn("chat", "", Vec::new())),
        Message::Assistant(turn("chat", "", vec![call("x:1", "read")])),
    ];
    let mut one = request(turns);
    one.tools = Vec::new();
    let body = super::client_fixtures::without_marks(&body(&one));
    let answered = |id: &str, text: &str| json!({ "type": "tool_result", "tool_use_id": id, "content": text, "is_error": true });
    let no_result = "This call was not carried out.";
    let text = |text: &str| json!({ "type": "text", "text": text });
    let used = |id: &str, name: &str| json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
    let expected = json!([
        { "role": "user", "content": [text("go")] },
        { "role": "assistant", "content": [
            used("call_1_0", "read"), used("call_1_1", "two_words"), used("call_1_2", "read"),
        ] },
        { "role": "user", "content": [
            answered("call_1_0", "(no output)"), answered("call_1_1", "one"), answered("call_1_2", no_result),
            text("Result of read: lost"), text("(no text)"),
        ] },
        { "role": "assistant", "content": [text("(no text)"), used("call_5_0", "read")] },
        { "role": "user", "content": [answered("call_5_0", no_result)] },
    ]);
    assert_eq!(body["messages"], expected);
    assert_eq!(body["tool_choice"], json!({ "type": "none" }));
    let names: Vec<_> = (0..2).map(|at| body["tools"][at]["name"].clone()).collect();
    assert_eq!(names, ["read", "two_words"]);
}

#[test]
fn parts_of_an_answer_that_the_service_would_refuse_are_left_out() {
    let mut cut = turn("messages", "", Vec::new());
    cut.native = vec![
        json!({ "type": "thinking", "thinking": "cut off befo" }),
        json!({ "type": "text", "text": "\n\n" }),
        json!({ "type": "from_the_future", "x": 1 }),
    ];
    let sent = body(&request(vec![user("go"), Message::Assistant(cut.clone()), user("on")]));
    assert_eq!(sent["messages"][1]["content"], json!([{ "type": "from_the_future", "x": 1 }]));
    cut.native.pop();
    let sent = body(&request(vec![user("go"), Message::Assistant(cut), user("on")]));
    assert_eq!(sent["messages"][1]["content"], json!([{ "type": "text", "text": "(no text)" }]));
}

fn message() -> impl Strategy<Value = Message> {
    let text = prop_oneof![Just(String::new()), Just(" ".to_owned()), "[a-z]{1,5}"];
    let id =
        prop_oneof![Just(String::new()), Just("a".to_owned()), Just("b:1".to_owned()), Just("c".to_owned())];
    let arguments = prop_oneof![
        Just(ToolArguments::Parsed(json!({ "a": 1 }))),
        Just(ToolArguments::Parsed(json!([1]))),
        Just(ToolArguments::Unreadable("no".to_owned())),
    ];
    let call = (id.clone(), "[a-z ]{0,4}", arguments).prop_map(|(id, name, arguments)| ToolCall {
        id,
        name,
        arguments,
    });
    let native = prop_oneof![
        Just(json!({ "type": "text", "text": " " })),
        Just(json!({ "type": "text", "text": "x" })),
        Just(json!({ "type": "thinking", "thinking": "x" })),
        Just(json!({ "type": "tool_use", "id": "a", "name": "read", "input": {} })),
        Just(json!("text")),
    ];
    let result = (id, text.clone(), any::<bool>()).prop_map(|(id, text, is_error)| ToolResult {
        id,
        name: "read".to_owned(),
        text,
        is_error,
    });
    let turn = (
        prop_oneof![Just("messages"), Just("chat")],
        prop::collection::vec(native, 0..3),
        text.clone(),
        prop::collection::vec(call, 0..3),
    )
        .prop_map(|(wire, native, text, calls)| AssistantTurn { native, ..turn(wire, &text, calls) });
    prop_oneof![
        text.prop_map(|text| Message::User { text }),
        turn.prop_map(Message::Assistant),
        prop::collection::vec(result, 0..3).prop_map(|results| Message::ToolResults { results }),
    ]
}

#[test]
fn the_service_accepts_every_conversation() {
    let server = ScriptedServer::start(vec![ScriptedReply::say("ok").always()]).unwrap();
    server.verify(RequestChecks { conversation: true, cache_prefix: false });
    let client = std::cell::RefCell::new(TestClient::start(&server.url()));
    let cases = prop::collection::vec(message(), 0..7);
    proptest!(|(messages in cases, has_tools in any::<bool>())| {
        let mut one = request(messages);
        one.tools = if has_tools { vec![tool("read")] } else { Vec::new() };
        client.borrow().send(0, one);
        let answer = client.borrow_mut().finish().1;
        prop_assert!(answer.is_ok(), "{:?}", answer);
    });
}

proptest! {
    #[test]
    fn a_longer_conversation_begins_with_the_same_bytes(messages in prop::collection::vec(message(), 1..7)) {
        let messages: Vec<Message> = std::iter::once(user("go")).chain(messages).collect();
        let mut longer = messages.clone();
        // Calls without results are answered at the end, so that only complete conversations are continued.
        longer.push(user("more"));
        let parts = |request: &ModelRequest| {
            let body = super::client_fixtures::without_marks(&body(request));
            body["messages"].to_string().trim_end_matches("]}]").to_owned()
        };
        let (short, long) = (parts(&request(messages)), parts(&request(longer)));
        prop_assert!(long.starts_with(&short), "{}\n{}", short, long);
    }
}
