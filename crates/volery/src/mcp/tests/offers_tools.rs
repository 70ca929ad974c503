//! The nine tools: their definitions, and that their answers match the schemas.

use serde_json::{Value, json};

use super::super::dialect::ToolRegistry;
use super::client_session::{BOTH, ClientSession, Era};

async fn tools(era: Era) -> Vec<Value> {
    let mut session = ClientSession::begin(era, "x", json!({})).await;
    let list = session.ask(era, "tools/list", json!({})).await;
    list["result"]["tools"].as_array().unwrap().clone()
}

#[tokio::test]
async fn the_list_of_tools_is_the_one_that_was_reviewed() {
    let shown = serde_json::to_string_pretty(&tools(Era::Legacy).await).unwrap();
    insta::assert_snapshot!("tools", shown);
}

#[tokio::test]
async fn the_list_of_tools_never_varies() {
    let list = tools(Era::Legacy).await;
    assert_eq!(list, tools(Era::Modern).await);
    let names: Vec<_> = list.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "list_agents",
            "run_agent",
            "run_agents",
            "wait_runs",
            "get_run",
            "list_runs",
            "cancel_run",
            "answer_run",
            "health"
        ]
    );
}

/// Calls `visit` with every schema inside a schema.
fn walk(schema: &Value, visit: &mut dyn FnMut(&Value)) {
    visit(schema);
    for inner in schema["properties"].as_object().into_iter().flat_map(|properties| properties.values()) {
        walk(inner, visit);
    }
    if schema["items"].is_object() {
        walk(&schema["items"], visit);
    }
}

#[tokio::test]
async fn every_schema_is_one_that_all_clients_take() {
    for tool in tools(Era::Legacy).await {
        let name = tool["name"].as_str().unwrap();
        assert!(
            name.len() <= 30 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'),
            "{name}"
        );
        let description = tool["description"].as_str().unwrap();
        assert!((40..2_000).contains(&description.len()), "{name}: {}", description.len());
        for part in ["inputSchema", "outputSchema"] {
            let schema = &tool[part];
            assert_eq!(schema["type"], "object", "{name} {part}");
            assert!(schema["properties"].is_object(), "{name} {part}");
            let text = schema.to_string();
            for banned in
                ["$ref", "$schema", "$defs", "anyOf", "oneOf", "allOf", "\"null\"", "\"format\"", "null"]
            {
                assert!(!text.contains(banned), "{name} {part} has {banned}: {text}");
            }
            walk(schema, &mut |inner| {
                assert!(inner["type"].is_string(), "{name} {part}: {inner}");
                if part == "inputSchema" && inner["type"] == "object" {
                    // The inputs of agents and the content of JSON schemas are not fixed.
                    let open = inner["properties"].is_null();
                    assert_eq!(inner["additionalProperties"], json!(open), "{name} {part}: {inner}");
                    let text = inner["description"].as_str().unwrap_or_default();
                    assert!(!open || text.contains("by name") || text.contains("A JSON schema"), "{inner}");
                }
            });
        }
        walk(&tool["inputSchema"], &mut |inner| {
            for (argument, schema) in inner["properties"].as_object().into_iter().flatten() {
                assert!(schema["description"].is_string() || argument == "runs", "{name}.{argument}");
            }
        });
        let annotations = tool["annotations"].as_object().unwrap();
        let hints = ["title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
        assert!(hints.iter().all(|hint| annotations.contains_key(*hint)), "{name}: {annotations:?}");
        assert!(tool["_meta"]["anthropic/searchHint"].is_string(), "{name}");
    }
}

#[test]
fn the_instructions_are_short_and_name_only_tools_that_exist() {
    let instructions = ToolRegistry::native().instructions();
    assert!(instructions.len() < 2_048, "{}", instructions.len());
    for tool in ["list_agents", "run_agent", "run_agents", "wait_runs", "answer_run", "get_run", "cancel_run"]
    {
        assert!(instructions.contains(tool), "{tool}");
    }
}

/// Checks a value against the part of JSON Schema that our schemas use, and that it has no other members.
fn conforms(schema: &Value, value: &Value, at: &str) {
    match schema["type"].as_str().unwrap() {
        "object" => {
            let object = value.as_object().unwrap_or_else(|| panic!("{at} is no object: {value}"));
            for key in schema["required"].as_array().into_iter().flatten() {
                assert!(object.contains_key(key.as_str().unwrap()), "{at} lacks {key}: {value}");
            }
            if let Some(properties) = schema["properties"].as_object() {
                for (key, value) in object {
                    let inner = properties.get(key).unwrap_or_else(|| panic!("{at}.{key} was not promised"));
                    conforms(inner, value, &format!("{at}.{key}"));
                }
            }
        }
        "array" => {
            for item in value.as_array().unwrap_or_else(|| panic!("{at} is no array")) {
                conforms(&schema["items"], item, at);
            }
        }
        "string" => assert!(value.is_string(), "{at}: {value}"),
        "boolean" => assert!(value.is_boolean(), "{at}: {value}"),
        "integer" => assert!(value.is_i64() || value.is_u64(), "{at}: {value}"),
        "number" => assert!(value.is_number(), "{at}: {value}"),
        other => panic!("{at} has the type {other}"),
    }
}

#[tokio::test]
async fn every_answer_follows_its_schema_and_says_the_same_as_text() {
    for era in BOTH {
        let mut session = ClientSession::begin(era, "x", json!({})).await;
        let slow = json!({ "agent": "slow", "prompt": "p", "wait_s": 0 });
        let run = session.call(era, "run_agent", slow.clone()).await["structuredContent"]["run_id"].clone();
        let asks =
            session.call(era, "run_agent", json!({ "agent": "asks", "prompt": "p", "wait_s": 0 })).await;
        let asks = asks["structuredContent"]["run_id"].clone();
        let quick = json!({ "agent": "quick", "prompt": "p" });
        let calls = [
            ("list_agents", json!({})),
            ("run_agent", json!({ "agent": "quick", "prompt": "p", "limits": { "timeout_s": 5 } })),
            ("run_agent", slow),
            ("run_agent", json!({ "agent": "fails", "prompt": "p" })),
            ("run_agent", json!({ "agent": "long", "prompt": "p" })),
            (
                "run_agents",
                json!({ "runs": [quick, { "agent": "nobody", "prompt": "p" }, { "agent": "slow", "prompt": "p" }], "wait_s": 1 }),
            ),
            ("wait_runs", json!({ "run_ids": [run, asks], "wait_s": 0 })),
            ("get_run", json!({ "run_id": run, "events_from": 0, "output": "stderr" })),
            ("list_runs", json!({ "states": ["running"], "all_projects": true })),
            ("cancel_run", json!({ "run_id": run })),
            ("answer_run", json!({ "run_id": asks, "text": "yes" })),
            ("health", json!({})),
        ];
        let list = session.ask(era, "tools/list", json!({})).await;
        for (name, arguments) in calls {
            let result = session.call(era, name, arguments.clone()).await;
            let structured = &result["structuredContent"];
            let tool = list["result"]["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name);
            conforms(&tool.unwrap()["outputSchema"], structured, name);
            let text = result["content"][0]["text"].as_str().unwrap();
            assert_eq!(text, structured.to_string(), "{name} {arguments}");
            assert!(text.len() < 50_000, "{name}: {}", text.len());
        }
    }
}

#[tokio::test]
async fn a_run_that_failed_is_an_error_that_still_has_its_shape() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    let result = session.call(Era::Legacy, "run_agent", json!({ "agent": "fails", "prompt": "p" })).await;
    assert_eq!(result["isError"], json!(true));
    assert_eq!(result["structuredContent"]["explanation"], "failed as scripted");
}

#[tokio::test]
async fn arguments_that_cannot_be_used_are_explained_all_at_once() {
    let cases = [
        ("run_agent", json!({}), vec!["agent is missing", "prompt is missing"]),
        (
            "run_agent",
            json!({ "agent": "quick", "promt": "p", "wait_s": "60", "limits": { "timeout": 5, "cpu_s": 0 } }),
            vec![
                "prompt is missing",
                "promt is not known; did you mean prompt?",
                "wait_s must be an integer, not \"60\"",
                "limits.timeout is not known; did you mean timeout_s?",
                "limits.cpu_s must be at least 1, not 0",
            ],
        ),
        (
            "run_agent",
            json!({ "agent": 5, "prompt": ["p"] }),
            vec!["agent must be a string, not 5", "prompt must be a string, not an array"],
        ),
        (
            "run_agent",
            json!({ "agent": "quick", "prompt": "p", "wait_s": -1 }),
            vec!["wait_s must be at least 0, not -1"],
        ),
        (
            "run_agent",
            json!({ "agent": "quick", "prompt": "p", "on_disconnect": "stay" }),
            vec!["on_disconnect must be one of \"cancel\", \"continue\", not \"stay\""],
        ),
        ("run_agents", json!({ "runs": [] }), vec!["runs must be at least 1 items, not 0"]),
        ("run_agents", json!({ "runs": [{ "agent": "quick" }] }), vec!["runs[0].prompt is missing"]),
        (
            "get_run",
            json!({ "run_id": "x", "result_max": 5 }),
            vec!["result_max must be at least 1000, not 5"],
        ),
        ("list_runs", json!({ "states": ["done"] }), vec!["states[0] must be one of"]),
        ("cancel_run", json!({}), vec!["give either run_id or session_id"]),
        ("answer_run", json!({ "run_id": "x" }), vec!["give decision"]),
        (
            "health",
            json!({ "verbose": true }),
            vec!["verbose is not known; the names are directory, all_projects"],
        ),
    ];
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    for (tool, arguments, expected) in cases {
        let result = session.call(Era::Legacy, tool, arguments.clone()).await;
        assert_eq!(result["isError"], json!(true), "{tool} {arguments}");
        assert_eq!(result.get("structuredContent"), None);
        let text = result["content"][0]["text"].as_str().unwrap();
        for part in expected {
            assert!(text.contains(part), "{tool} {arguments}: {text}");
        }
    }
    assert!(session.engine.starts().is_empty());
}

#[tokio::test]
async fn null_means_left_out() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    let arguments = json!({ "agent": "quick", "prompt": "hi", "wait_s": null, "inputs": null, "limits": { "timeout_s": null } });
    let result = session.call(Era::Legacy, "run_agent", arguments).await;
    assert_eq!(result["structuredContent"]["result"], "HI");
}

#[tokio::test]
async fn an_unknown_tool_is_an_invalid_parameter_with_the_nearest_name() {
    for era in BOTH {
        let mut session = ClientSession::begin(era, "x", json!({})).await;
        let answer = session.ask(era, "tools/call", json!({ "name": "run_agnet" })).await;
        assert_eq!(answer["error"]["code"], -32602);
        assert!(answer["error"]["message"].as_str().unwrap().contains("did you mean run_agent?"));
    }
}

#[tokio::test]
async fn errors_of_the_engine_are_answered_with_their_hint() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    let result = session.call(Era::Legacy, "run_agent", json!({ "agent": "nobody", "prompt": "p" })).await;
    assert_eq!(result["isError"], json!(true));
    assert_eq!(result["content"][0]["text"], "no agent \"nobody\"\nhint: list_agents shows them");
}

#[tokio::test]
async fn every_argument_of_a_run_reaches_the_engine() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    let arguments = json!({
        "agent": "quick", "prompt": "p", "directory": "/d", "context": "c", "session_id": "s", "fork": true, "model": "m",
        "limits": { "timeout_s": 2, "idle_timeout_s": 3, "memory_mib": 4, "cpu_s": 5, "processes": 6 },
        "idempotency_key": "k", "on_disconnect": "cancel", "inputs": { "n": 1 },
    });
    session.call(Era::Legacy, "run_agent", arguments).await;
    let start = serde_json::to_value(&session.engine.starts()[0]).unwrap();
    assert_eq!(
        start,
        json!({
            "agent": "quick", "prompt": "p", "directory": "/d", "context": "c", "session": "s", "fork": true, "model": "m",
            "limits": { "timeout_ms": 2_000, "idle_timeout_ms": 3_000, "memory_bytes": 4 << 20, "cpu_ms": 5_000, "processes": 6 },
            "idempotency_key": "k", "on_disconnect": { "cancel": { "grace_ms": 30_000 } }, "attachment": "attached", "inputs": { "n": 1 },
        })
    );
}

#[tokio::test]
async fn a_long_result_is_cut_for_the_client_and_can_be_read_to_its_end() {
    let whole = "0123456789\n".repeat(20_000);
    for (client, most) in [("claude-code", 34_000), ("codex-mcp-client", 9_000)] {
        let mut session = ClientSession::begin(Era::Legacy, client, json!({})).await;
        let result = session.call(Era::Legacy, "run_agent", json!({ "agent": "long", "prompt": "p" })).await;
        assert!(result["content"][0]["text"].as_str().unwrap().len() < most, "{client}");
        let mut report = result["structuredContent"].clone();
        assert_eq!(report["result_bytes"], whole.len());
        assert!(report["next"].as_str().unwrap().contains("result_offset"));
        let run = report["run_id"].clone();
        let mut read = report["result"].as_str().unwrap().to_owned();
        while let Some(offset) = report["result_next_offset"].as_u64() {
            assert_eq!(offset, read.len() as u64);
            let arguments = json!({ "run_id": run, "result_offset": offset, "result_max": 100_000 });
            report = session.call(Era::Legacy, "get_run", arguments).await["structuredContent"].clone();
            read.push_str(report["result"].as_str().unwrap());
        }
        assert!(read == whole, "{client} read {} of {} bytes", read.len(), whole.len());
    }
}

#[tokio::test]
async fn events_of_a_run_are_paged_by_size() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    session.call(Era::Legacy, "run_agent", json!({ "agent": "quick", "prompt": "p" })).await;
    let run = session.engine.run_ids()[0].to_string();
    let mut from = Some(0);
    let mut sequence_numbers = Vec::new();
    while let Some(next) = from {
        let arguments = json!({ "run_id": run, "events_from": next, "events_max": 200 });
        let result = session.call(Era::Legacy, "get_run", arguments).await;
        assert!(result["content"][0]["text"].as_str().unwrap().len() < 40_000);
        let report = &result["structuredContent"];
        sequence_numbers
            .extend(report["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()));
        from = report["next_event"].as_u64();
    }
    assert_eq!(sequence_numbers, (0..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn runs_of_a_group_are_reported_in_order_with_what_was_refused() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    let runs = json!([
        { "agent": "quick", "prompt": "one" },
        { "agent": "nobody", "prompt": "two" },
        { "agent": "quick", "prompt": "three" },
    ]);
    let result = session.call(Era::Legacy, "run_agents", json!({ "runs": runs })).await;
    let output = &result["structuredContent"];
    let results: Vec<_> = output["runs"].as_array().unwrap().iter().map(|run| &run["result"]).collect();
    assert_eq!(results, ["ONE", "THREE"]);
    assert_eq!(output["refused"][0]["index"], 1);
    assert_eq!(output["next"], "Correct the requests in refused, or drop them.");
}

#[tokio::test]
async fn a_group_respects_max_parallel_and_lists_what_it_did_not_start() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    let slow = json!({ "agent": "slow", "prompt": "p" });
    let arguments = json!({ "runs": [slow, slow, slow], "max_parallel": 1, "wait_s": 5 });
    let id =
        session.request(Era::Legacy, "tools/call", json!({ "name": "run_agents", "arguments": arguments }));
    session.engine.logged("start slow").await;
    session.engine.end(session.engine.run_ids()[0], "succeeded", "first");
    while session.engine.run_ids().len() < 2 {
        tokio::task::yield_now().await;
    }
    let (answer, _) = session.answer_to(id).await;
    let output = &answer["result"]["structuredContent"];
    assert_eq!(output["runs"][0]["result"], "first");
    assert_eq!(output["runs"][1]["status"], "running");
    assert_eq!(output["not_started"], json!([2]));
    assert!(output["next"].as_str().unwrap().contains("wait_runs"));
    assert_eq!(session.engine.starts().len(), 2);
}

#[tokio::test]
async fn until_any_waits_for_a_run_that_ends_after_the_call() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    let slow = json!({ "agent": "slow", "prompt": "p" });
    session.call(Era::Legacy, "run_agents", json!({ "runs": [slow, slow], "wait_s": 0 })).await;
    let quick = json!({ "agent": "quick", "prompt": "hi", "wait_s": 0 });
    session.call(Era::Legacy, "run_agent", quick).await;
    let runs = session.engine.run_ids();
    let ids: Vec<_> = runs.iter().map(ToString::to_string).collect();
    let arguments = json!({ "run_ids": ids, "until": "any" });
    let params = json!({ "name": "wait_runs", "arguments": arguments });
    let id = session.request(Era::Legacy, "tools/call", params.clone());
    session.engine.logged("wait for any of 2").await;
    session.engine.end(runs[0], "succeeded", "first");
    let (answer, _) = session.answer_to(id).await;
    let output = &answer["result"]["structuredContent"];
    assert_eq!(output["timed_out"], json!(false));
    // The result of a run that had ended before is returned once.
    assert_eq!(output["already_ended"], json!([ids[2]]));
    let results: Vec<_> = output["runs"].as_array().unwrap().iter().map(|run| &run["result"]).collect();
    assert_eq!(results, [&json!("HI"), &json!("first"), &json!(null)]);
    insta::assert_snapshot!(output["next"].as_str().unwrap().replace(&ids[1], "[run id]"), @r#"Some runs go on. Do other work, then call wait_runs with run_ids ["[run id]"]."#);

    let id = session.request(Era::Legacy, "tools/call", params);
    session.engine.logged("wait for any of 1").await;
    session.engine.end(runs[1], "succeeded", "third");
    let (answer, _) = session.answer_to(id).await;
    let output = &answer["result"]["structuredContent"];
    assert_eq!(output["already_ended"], json!([ids[0], ids[2]]));
    let shown: Vec<_> = output["runs"].as_array().unwrap().iter().map(|run| &run["run_id"]).collect();
    assert_eq!(shown, [&json!(ids[1])]);
    // All runs had ended, so the call does not wait.
    let all = session.call(Era::Legacy, "wait_runs", arguments).await;
    assert_eq!(all["structuredContent"]["already_ended"], json!(ids));
    assert_eq!(all["structuredContent"]["runs"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_result_that_was_returned_whole_is_not_repeated() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    let prompt = "long ".repeat(400);
    let run = session.call(Era::Legacy, "run_agent", json!({ "agent": "quick", "prompt": prompt })).await;
    let run = &run["structuredContent"];
    assert_eq!(run["result"].as_str().unwrap().len(), prompt.len());
    let waited = session.call(Era::Legacy, "wait_runs", json!({ "run_ids": [run["run_id"]] })).await;
    let again = &waited["structuredContent"]["runs"][0];
    assert_eq!(again["result"].as_str().unwrap().len(), 500);
    let next = again["next"].as_str().unwrap();
    insta::assert_snapshot!(next.replace(run["run_id"].as_str().unwrap(), "[run id]"), @r#"An earlier answer has the whole result. If you no longer have it, call get_run with run_id "[run id]"."#);
    let fetched = session.call(Era::Legacy, "get_run", json!({ "run_id": run["run_id"] })).await;
    assert_eq!(fetched["structuredContent"]["result"], run["result"]);
}

#[tokio::test]
async fn answers_that_leave_something_to_do_say_what() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    let empty = session.call(Era::Legacy, "list_runs", json!({})).await;
    session.call(Era::Legacy, "run_agent", json!({ "agent": "slow", "prompt": "p", "wait_s": 0 })).await;
    let run = session.engine.run_ids()[0].to_string();
    let listed = session.call(Era::Legacy, "list_runs", json!({})).await;
    let waited = session.call(Era::Legacy, "wait_runs", json!({ "run_ids": [run], "wait_s": 0 })).await;
    let cancelled =
        session.call(Era::Legacy, "cancel_run", json!({ "run_id": run, "reason": "not needed" })).await;
    let next = |answer: &serde_json::Value| answer["structuredContent"]["next"].as_str().unwrap().to_owned();
    let all = [next(&empty), next(&listed), next(&waited), next(&cancelled)].join("\n");
    insta::assert_snapshot!(all.replace(&run, "[run id]"), @r#"
    No run matches. Leave out filters, or list all_projects; run_agent starts one.
    wait_runs with run_ids ["[run id]"] waits for the active runs.
    Some runs go on. Do other work, then call wait_runs with run_ids ["[run id]"].
    Call wait_runs with run_ids ["[run id]"] to see how they end, with their output so far.
    "#);
}
