//! The rendering of one script, and the parsing of one conversation, in each protocol.

use serde_json::{Value, json};

use super::http_client::{ask, send};
use crate::{
    AnswerEnd, Message, ModelRequest, ScriptedReply, ScriptedServer, ScriptedUsage, ToolResult, WireFormat,
};

const ALL: [WireFormat; 4] =
    [WireFormat::Messages, WireFormat::Responses, WireFormat::Chat, WireFormat::Google];

/// The text, the calls and the usage of an answer, as a client of the protocol reads them.
#[derive(Debug, PartialEq)]
struct ParsedAnswer {
    text: String,
    calls: Vec<(String, Value)>,
    input: u64,
    output: u64,
    cached: u64,
    end: String,
}

fn parse_whole(format: WireFormat, body: &Value) -> ParsedAnswer {
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let parsed = |value: &Value| serde_json::from_str(value.as_str().expect("a string")).expect("JSON");
    let number = |pointer: &str| body.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let empty = Vec::new();
    let list = |pointer: &str| body.pointer(pointer).and_then(Value::as_array).unwrap_or(&empty).clone();
    let mut text = String::new();
    let mut calls = Vec::new();
    match format {
        WireFormat::Messages => {
            for block in list("/content") {
                text.push_str(&string(&block["text"]));
                if block["type"] == "tool_use" {
                    calls.push((string(&block["name"]), block["input"].clone()));
                }
            }
            let cached = number("/usage/cache_read_input_tokens");
            let input = number("/usage/input_tokens") + cached;
            let end = string(&body["stop_reason"]);
            ParsedAnswer { text, calls, input, output: number("/usage/output_tokens"), cached, end }
        }
        WireFormat::Responses => {
            for item in list("/output") {
                text.push_str(&string(&item["content"][0]["text"]));
                if item["type"] == "function_call" {
                    calls.push((string(&item["name"]), parsed(&item["arguments"])));
                }
            }
            let cached = number("/usage/input_tokens_details/cached_tokens");
            let (input, output) = (number("/usage/input_tokens"), number("/usage/output_tokens"));
            ParsedAnswer { text, calls, input, output, cached, end: string(&body["status"]) }
        }
        WireFormat::Chat => {
            let message = &body["choices"][0]["message"];
            text.push_str(&string(&message["content"]));
            for call in list("/choices/0/message/tool_calls") {
                let function = &call["function"];
                calls.push((string(&function["name"]), parsed(&function["arguments"])));
            }
            let cached = number("/usage/prompt_tokens_details/cached_tokens");
            let (input, output) = (number("/usage/prompt_tokens"), number("/usage/completion_tokens"));
            ParsedAnswer {
                text,
                calls,
                input,
                output,
                cached,
                end: string(&body["choices"][0]["finish_reason"]),
            }
        }
        WireFormat::Google => {
            for part in list("/candidates/0/content/parts") {
                text.push_str(&string(&part["text"]));
                if let Some(call) = part.get("functionCall") {
                    calls.push((string(&call["name"]), call["args"].clone()));
                }
            }
            let cached = number("/usageMetadata/cachedContentTokenCount");
            let input = number("/usageMetadata/promptTokenCount");
            let output = number("/usageMetadata/candidatesTokenCount");
            ParsedAnswer {
                text,
                calls,
                input,
                output,
                cached,
                end: string(&body["candidates"][0]["finishReason"]),
            }
        }
    }
}

/// Joins a stream into the complete response, like a client.
fn join_stream(format: WireFormat, events: &[Value]) -> Value {
    match format {
        WireFormat::Messages => {
            let mut message = events[0]["message"].clone();
            let mut blocks: Vec<Value> = Vec::new();
            for event in events {
                let delta = &event["delta"];
                match event["type"].as_str().expect("every event has a type") {
                    "content_block_start" => blocks.push(event["content_block"].clone()),
                    "content_block_delta" if delta["type"] == "text_delta" => {
                        let block = blocks.last_mut().expect("a block is open");
                        let text =
                            format!("{}{}", block["text"].as_str().unwrap(), delta["text"].as_str().unwrap());
                        block["text"] = text.into();
                    }
                    "content_block_delta" if delta["type"] == "input_json_delta" => {
                        let block = blocks.last_mut().expect("a block is open");
                        block["input"] =
                            serde_json::from_str(delta["partial_json"].as_str().unwrap()).unwrap();
                    }
                    "message_delta" => {
                        message["stop_reason"] = delta["stop_reason"].clone();
                        message["usage"]["output_tokens"] = event["usage"]["output_tokens"].clone();
                    }
                    _ => {}
                }
            }
            assert_eq!(events.last().expect("there are events")["type"], "message_stop");
            message["content"] = blocks.into();
            message
        }
        WireFormat::Responses => {
            // Clients read the items as they complete, and the last event for the usage.
            let done = events.iter().filter(|event| event["type"] == "response.output_item.done");
            let items: Vec<Value> = done.map(|event| event["item"].clone()).collect();
            let mut response = events.last().expect("there are events")["response"].clone();
            assert_eq!(response["output"], Value::from(items.clone()));
            response["output"] = items.into();
            response
        }
        WireFormat::Chat => {
            let mut text = String::new();
            let mut calls = Vec::new();
            let mut finish = Value::Null;
            let mut usage = Value::Null;
            for event in events {
                let choice = &event["choices"][0];
                text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
                calls.extend(choice["delta"]["tool_calls"].as_array().cloned().unwrap_or_default());
                if choice["finish_reason"].is_string() {
                    finish = choice["finish_reason"].clone();
                }
                if event["usage"].is_object() {
                    usage = event["usage"].clone();
                }
            }
            let message = json!({ "content": text, "tool_calls": calls });
            json!({ "choices": [{ "message": message, "finish_reason": finish }], "usage": usage })
        }
        WireFormat::Google => {
            let mut last = events.last().expect("there are events").clone();
            let parts = events.iter().flat_map(|event| {
                event["candidates"][0]["content"]["parts"].as_array().cloned().unwrap_or_default()
            });
            last["candidates"][0]["content"]["parts"] = parts.collect::<Vec<_>>().into();
            last
        }
    }
}

fn fetch_answer(server: &ScriptedServer, format: WireFormat, stream: bool) -> ParsedAnswer {
    let reply = ask(server, format, stream);
    assert_eq!((reply.status, reply.complete), (200, true), "{reply:?}");
    let body = if stream { join_stream(format, &reply.events()) } else { reply.json() };
    parse_whole(format, &body)
}

fn expected_end(format: WireFormat, answer: &str) -> &'static str {
    match (format, answer) {
        (WireFormat::Messages, "said") => "end_turn",
        (WireFormat::Messages, "called") => "tool_use",
        (WireFormat::Messages, _) => "max_tokens",
        (WireFormat::Responses, "said" | "called") => "completed",
        (WireFormat::Responses, _) => "incomplete",
        (WireFormat::Chat, "said") => "stop",
        (WireFormat::Chat, "called") => "tool_calls",
        (WireFormat::Chat, _) => "length",
        (WireFormat::Google, "said" | "called") => "STOP",
        (WireFormat::Google, _) => "MAX_TOKENS",
    }
}

#[test]
fn every_protocol_sends_the_same_text_and_calls() {
    for (format, stream) in ALL.iter().flat_map(|format| [(*format, true), (*format, false)]) {
        let server = ScriptedServer::start(vec![
            ScriptedReply::say("Hello wörld").using(ScriptedUsage { input: 300, output: 7, cached: 200 }),
            ScriptedReply::call("shell", json!({ "command": "ls" }))
                .and_call("read", json!({ "path": "a\n\"b" })),
            ScriptedReply::say("too much").ending(AnswerEnd::Length),
        ])
        .expect("the server starts");
        let text_answer = ParsedAnswer {
            text: "Hello wörld".to_owned(),
            calls: Vec::new(),
            input: 300,
            output: 7,
            cached: 200,
            end: expected_end(format, "said").to_owned(),
        };
        assert_eq!(fetch_answer(&server, format, stream), text_answer, "{format:?} {stream}");
        let call_answer = ParsedAnswer {
            text: String::new(),
            calls: vec![
                ("shell".to_owned(), json!({ "command": "ls" })),
                ("read".to_owned(), json!({ "path": "a\n\"b" })),
            ],
            input: 100,
            output: 10,
            cached: 0,
            end: expected_end(format, "called").to_owned(),
        };
        assert_eq!(fetch_answer(&server, format, stream), call_answer, "{format:?} {stream}");
        let short = fetch_answer(&server, format, stream);
        assert_eq!(short.end, expected_end(format, "short"), "{format:?} {stream}");
    }
}

#[test]
fn streams_of_anthropic_name_their_events() {
    let server = ScriptedServer::start(vec![ScriptedReply::say("hi")]).expect("the server starts");
    let reply = ask(&server, WireFormat::Messages, true);
    let names: Vec<&str> = reply.body.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    let expected = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_stream_of_chat_ends_with_done() {
    let server = ScriptedServer::start(vec![ScriptedReply::say("hi")]).expect("the server starts");
    assert!(ask(&server, WireFormat::Chat, true).body.ends_with("data: [DONE]\n\n"));
}

#[test]
fn free_text_and_namespaces_of_tools_are_preserved_in_responses() {
    let reply =
        ScriptedReply::call("apply_patch", "*** Begin Patch".into()).and_call_in("mcp__x", "find", json!({}));
    let server = ScriptedServer::start(vec![reply]).expect("the server starts");
    let output = ask(&server, WireFormat::Responses, false).json()["output"].clone();
    let picked: Vec<Value> = (0..2)
        .map(|at| {
            let item = &output[at];
            json!([item["type"], item["name"], item["input"], item["namespace"], item["arguments"]])
        })
        .collect();
    let expected = json!([
        ["custom_tool_call", "apply_patch", "*** Begin Patch", null, null],
        ["function_call", "find", null, "mcp__x", "{}"],
    ]);
    assert_eq!(Value::from(picked), expected);
}

fn conversation(format: WireFormat) -> (&'static str, Value) {
    let schema = json!({ "type": "object" });
    match format {
        WireFormat::Messages => {
            let body = json!({
                "model": "m", "stream": true, "system": [{ "type": "text", "text": "Be brief." }],
                "tools": [{ "name": "shell" }],
                "output_config": { "format": { "type": "json_schema", "schema": schema } },
                "messages": [
                    { "role": "user", "content": [{ "type": "text", "text": "look" }] },
                    { "role": "assistant", "content": [{ "type": "tool_use", "id": "t", "name": "shell", "input": {} }] },
                    { "role": "user", "content": [
                        { "type": "tool_result", "tool_use_id": "t", "is_error": true, "content": "denied" },
                    ] },
                ],
            });
            ("/v1/messages", body)
        }
        WireFormat::Responses => {
            let body = json!({
                "model": "m", "stream": true,
                "tools": [{ "type": "function", "name": "shell" }],
                "text": { "format": { "type": "json_schema", "schema": schema } },
                "input": [
                    { "type": "message", "role": "developer", "content": "Be brief." },
                    { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "look" }] },
                    { "type": "function_call", "name": "shell", "call_id": "t", "arguments": "{}" },
                    { "type": "function_call_output", "call_id": "t", "output": "denied" },
                ],
            });
            ("/v1/responses", body)
        }
        WireFormat::Chat => {
            let call =
                json!({ "id": "t", "type": "function", "function": { "name": "shell", "arguments": "{}" } });
            let body = json!({
                "model": "m", "stream": true, "tools": [{ "type": "function", "function": { "name": "shell" } }],
                "response_format": { "type": "json_schema", "json_schema": { "schema": schema } },
                "messages": [
                    { "role": "system", "content": "Be brief." },
                    { "role": "user", "content": "look" },
                    { "role": "assistant", "content": null, "tool_calls": [call] },
                    { "role": "tool", "tool_call_id": "t", "content": "denied" },
                ],
            });
            ("/v1/chat/completions", body)
        }
        WireFormat::Google => {
            let response = json!({ "name": "shell", "response": { "error": "denied" } });
            let body = json!({
                "systemInstruction": { "parts": [{ "text": "Be brief." }] },
                "tools": [{ "functionDeclarations": [{ "name": "shell" }] }],
                "generationConfig": { "responseJsonSchema": schema },
                "contents": [
                    { "role": "user", "parts": [{ "text": "look" }] },
                    { "role": "model", "parts": [{ "functionCall": { "name": "shell", "args": {} } }] },
                    { "role": "user", "parts": [{ "functionResponse": response }] },
                ],
            });
            ("/v1beta/models/m:streamGenerateContent?alt=sse", body)
        }
    }
}

#[test]
fn requests_of_every_protocol_are_parsed_into_one_shape() {
    for format in ALL {
        let server = ScriptedServer::start(vec![ScriptedReply::say("ok")]).expect("the server starts");
        let (path, body) = conversation(format);
        assert_eq!(send(&server, "POST", path, &body).status, 200);
        let (assistant, tool, call) = match format {
            WireFormat::Messages => ("assistant", "user", "t"),
            WireFormat::Responses | WireFormat::Chat => ("assistant", "tool", "t"),
            WireFormat::Google => ("model", "user", "shell"),
        };
        let failed = matches!(format, WireFormat::Messages | WireFormat::Google);
        let result = ToolResult { call: call.to_owned(), text: "denied".to_owned(), failed };
        let message = |role: &str| Message { role: role.to_owned(), ..Message::default() };
        let expected = ModelRequest {
            model: "m".to_owned(),
            stream: true,
            system: "Be brief.".to_owned(),
            tools: vec!["shell".to_owned()],
            messages: vec![
                Message { text: "look".to_owned(), ..message("user") },
                Message { calls: vec!["shell".to_owned()], ..message(assistant) },
                Message { results: vec![result.clone()], ..message(tool) },
            ],
            schema: Some(json!({ "type": "object" })),
        };
        let asks = server.model_requests();
        assert_eq!(asks, vec![expected], "{format:?}");
        assert_eq!(asks[0].last_user_text(), "look");
        assert_eq!(asks[0].last_result(), Some(&result));
        let seen = &server.requests()[0];
        assert_eq!(seen.body, body);
        assert!(seen.headers.contains(&("x-key".to_owned(), "k".to_owned())));
    }
}
