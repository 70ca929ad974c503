//! How a turn ends, and what it used.

use domain::run::{AgentEnd, Cost, CostBasis, Failure, LimitName, ModelError, StdStream, Usage};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{TestConversation, hello, message_chunk, permission_request, spec, turn_end, update};
use crate::contract::{AgentAnswer, AgentReport, Conclusion, PermissionDecision};
use crate::kimi::config_home::last_turn_failure;

#[test]
fn used_up_turns_are_recognised_in_an_error_or_in_a_message() {
    let over = AgentEnd::OverBudget(LimitName::Turns);
    let mut conversation = TestConversation::prompted(&spec("acp-claude"));
    conversation.receive(&message_chunk("Half of it."));
    let error = json!({"code": -32603, "message": "Internal error: Reached maximum number of turns (3)"});
    conversation.receive(&json!({"jsonrpc": "2.0", "id": 4, "error": error}));
    let Conclusion { end, answer, .. } = conversation.end();
    assert_eq!((end, answer), (over.clone(), AgentAnswer::Text("Half of it.\n".to_owned())));
    let mut conversation = TestConversation::new(&spec("acp-goose"));
    conversation.receive(&hello(&json!({})));
    conversation.receive(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {
        "currentModeId": "approve", "availableModes": [{"id": "approve", "name": "Approve"}]}}}));
    conversation.receive(&message_chunk("Half of it."));
    conversation
        .receive(&message_chunk("I've reached the maximum number of actions I can do without user input."));
    conversation.receive(&turn_end("end_turn"));
    let Conclusion { end, answer, .. } = conversation.end();
    assert_eq!((end, answer), (over, AgentAnswer::Text("Half of it.\n".to_owned())));
}

#[test]
fn the_reason_of_the_end_decides() {
    let model =
        |error, message: &str| AgentEnd::Failed(Failure::Model { error, message: message.to_owned() });
    let cases = [
        ("end_turn", AgentEnd::Done),
        ("max_tokens", AgentEnd::OverBudget(LimitName::Tokens)),
        ("max_turn_requests", AgentEnd::OverBudget(LimitName::Turns)),
        ("refusal", model(ModelError::Refusal, "the agent refuses to go on")),
        ("cancelled", AgentEnd::Failed(Failure::Agent { message: "the turn was cancelled".to_owned() })),
        ("bored", AgentEnd::Failed(Failure::Output { reason: "the turn ended with \"bored\"".to_owned() })),
    ];
    for (reason, end) in cases {
        let mut conversation = TestConversation::prompted(&spec("acp-kimi"));
        conversation.receive(&message_chunk("So far."));
        conversation.receive(&turn_end(reason));
        let conclusion = conversation.end();
        assert_eq!(conclusion.end, end);
        let AgentAnswer::Text(text) = conclusion.answer else { panic!("{reason}") };
        assert_eq!(text.trim(), "So far.");
    }
}

#[test]
fn an_agent_that_gives_up_at_a_denial_has_not_succeeded() {
    let copilot = message_chunk("Info: Operation cancelled by user");
    for (kind, last) in [
        ("acp-copilot", vec![copilot, turn_end("end_turn")]),
        ("acp-codex", vec![turn_end("cancelled")]),
        ("acp-opencode", vec![turn_end("end_turn")]),
        ("acp-qwen", vec![turn_end("end_turn")]),
    ] {
        let mut conversation = TestConversation::new(&spec(kind));
        conversation.receive(&hello(&json!({})));
        let mode = crate::registry::vendor_for_backend(kind).and_then(|vendor| vendor.acp?.profile.modes);
        let mode = mode.map(|modes| modes.safe_edit);
        conversation.receive(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": mode}}}));
        conversation.receive(&message_chunk("I will make the file now."));
        conversation.receive(&permission_request(7, &json!({"toolCallId": "c", "kind": "execute"})));
        conversation.decide("7#0", &PermissionDecision::Deny("no".to_owned()));
        for message in last {
            conversation.receive(&message);
        }
        let message = format!("{kind} gave up when it was denied a tool");
        assert_eq!(conversation.end().end, AgentEnd::Failed(Failure::Agent { message }));
    }
}

#[test]
fn errors_that_agents_hide_in_a_good_end_are_found() {
    let hidden_error = |kind: &str, text: &str| {
        let mut conversation = TestConversation::new(&spec(kind));
        conversation.receive(&hello(&json!({})));
        let mode = crate::registry::vendor_for_backend(kind).and_then(|vendor| vendor.acp?.profile.modes);
        let mode = mode.map(|modes| modes.safe_edit);
        conversation.receive(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": mode}}}));
        if kind == "acp-copilot" {
            conversation
                .receive(&message_chunk("Info: Request failed due to a transient API error. Retrying..."));
        }
        if kind == "acp-codex" {
            let status = json!({"codex": {"threadStatus": {"type": "systemError"}}});
            conversation.receive(&update(&json!({"sessionUpdate": "session_info_update", "_meta": status})));
        }
        conversation.receive(&message_chunk(text));
        conversation.receive(&turn_end("end_turn"));
        match conversation.end().end {
            AgentEnd::Failed(Failure::Model { error, .. }) => error,
            end => panic!("{kind}: {end:?}"),
        }
    };
    assert_eq!(hidden_error("acp-copilot", "Error: Authentication failed (HTTP 401)."), ModelError::Denied);
    assert_eq!(hidden_error("acp-goose", "Ran into this error: Rate limit exceeded"), ModelError::RateLimit);
    let unreachable = "Network error: Could not connect.\n\nPlease resend your message to try again.";
    assert_eq!(hidden_error("acp-goose", unreachable), ModelError::Unreachable);
    let compacting = "Ran into this error trying to compact: Failed to compact: context limit exceeded";
    assert_eq!(hidden_error("acp-goose", compacting), ModelError::TooLong);
    assert_eq!(hidden_error("acp-goose", ""), ModelError::RateLimit, "it says nothing about credits");
    assert_eq!(hidden_error("acp-codex", "unexpected status 503"), ModelError::Overloaded);
    let mut silent = TestConversation::prompted(&spec("acp-kimi"));
    silent.receive(&turn_end("end_turn"));
    assert!(matches!(silent.end().end, AgentEnd::Failed(Failure::Model { error: ModelError::Other, .. })));
    let goose = |end: Value, text: &str| {
        let mut conversation = TestConversation::new(&spec("acp-goose"));
        conversation.receive(&hello(&json!({})));
        conversation.receive(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": "approve"}}}));
        conversation.receive(&message_chunk(text));
        conversation.receive(&end);
        conversation.end().end
    };
    let mut counted = turn_end("end_turn");
    counted["result"]["usage"] = json!({"totalTokens": 1, "inputTokens": 1, "outputTokens": 0});
    assert!(matches!(goose(counted, ""), AgentEnd::Failed(Failure::Output { .. })), "its model was paid");
    assert_eq!(goose(turn_end("end_turn"), "Network error: so says the log."), AgentEnd::Done);
    let mut mute = TestConversation::prompted(&spec("acp"));
    mute.receive(&turn_end("end_turn"));
    assert!(matches!(mute.end().end, AgentEnd::Failed(Failure::Output { .. })));
}

#[test]
fn text_before_a_tool_call_is_not_the_answer_of_an_agent_that_hides_errors() {
    let used = update(
        &json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "ls", "kind": "execute", "status": "completed",
        "rawInput": {"command": "ls"}}),
    );
    let end = |kind: &str, mode: &str, last: &[Value]| {
        let mut conversation = TestConversation::new(&spec(kind));
        conversation.receive(&hello(&json!({})));
        conversation.receive(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": mode}}}));
        conversation.receive(&message_chunk("Let me look first."));
        conversation.receive(&used);
        last.iter().for_each(|message| _ = conversation.receive(message));
        conversation.receive(&turn_end("end_turn"));
        conversation.end().end
    };
    for (kind, mode, expected) in
        [("acp-goose", "approve", ModelError::RateLimit), ("acp-kimi", "default", ModelError::Other)]
    {
        match end(kind, mode, &[]) {
            AgentEnd::Failed(Failure::Model { error, .. }) => assert_eq!(error, expected, "{kind}"),
            end => panic!("{kind}: {end:?}"),
        }
        assert_eq!(end(kind, mode, &[message_chunk("There is a heron.")]), AgentEnd::Done, "{kind}");
    }
    assert_eq!(end("acp-claude", "default", &[]), AgentEnd::Done, "it tells errors as such");
}

#[test]
fn a_turn_that_failed_by_kimis_own_record_has_failed() {
    let work = tempfile::tempdir().unwrap();
    let folder = work.path().join("secret-kimi-home/sessions/wd_project_1/s-1/agents/main");
    std::fs::create_dir_all(&folder).unwrap();
    let failed = |error: &Value| json!({"type": "turn.ended", "reason": "failed", "error": error});
    let completed = json!({"type": "turn.ended", "reason": "completed"});
    for (records, expected) in [
        (vec![completed.clone()], None),
        (vec![failed(&json!({"details": {"statusCode": 429}})), completed.clone()], None),
        (
            vec![completed.clone(), failed(&json!({"details": {"statusCode": 429}}))],
            Some(ModelError::RateLimit),
        ),
        (vec![failed(&json!({"code": "provider.connection_error"}))], Some(ModelError::Unreachable)),
        (vec![failed(&json!({}))], Some(ModelError::Other)),
    ] {
        let text: String = records.iter().map(|record| format!("{record}\n")).collect();
        std::fs::write(folder.join("wire.jsonl"), format!("{text}{{\"type\": \"prompt.completed\"}}\n"))
            .unwrap();
        let found = match last_turn_failure(work.path(), "s-1") {
            Some(Failure::Model { error, .. }) => Some(error),
            None => None,
            Some(other) => panic!("{other:?}"),
        };
        assert_eq!(found, expected, "{text}");
    }
    for sly in ["..", "../s-1", "s-2", ""] {
        assert_eq!(last_turn_failure(work.path(), sly), None, "{sly}");
    }
}

#[test]
fn errors_in_answer_to_the_prompt_have_a_meaning() {
    let cases = [
        (json!({"code": 429, "message": "slow down"}), Some(ModelError::RateLimit)),
        (
            json!({"code": -32603, "message": "Internal error", "data": {"details": "401 wrong key"}}),
            Some(ModelError::Denied),
        ),
        (
            json!({"code": -32603, "message": "Internal error", "data": {"errorName": "APIError"}}),
            Some(ModelError::Other),
        ),
        (json!({"code": -32000, "message": "Authentication required"}), Some(ModelError::Denied)),
        (json!({"code": -32603, "message": "out of nuts"}), None),
        (
            json!({"code": -32603, "message": "Request failed with status code 503"}),
            Some(ModelError::Overloaded),
        ),
        (
            json!({"code": -32603, "message": "Codex process has exited with code 1", "data": "at run (job.js:561:25)"}),
            None,
        ),
        (json!({"code": -32603, "message": "the line has 429 letters"}), None),
    ];
    for (error, expected) in cases {
        let mut conversation = TestConversation::prompted(&spec("acp-kimi"));
        conversation.receive(&json!({"jsonrpc": "2.0", "id": 4, "error": error}));
        let got = match conversation.end().end {
            AgentEnd::Failed(Failure::Model { error, .. }) => Some(error),
            AgentEnd::Failed(Failure::Agent { .. }) => None,
            end => panic!("{end:?}"),
        };
        assert_eq!(got, expected, "{error}");
    }
}

#[test]
fn a_missing_login_is_reported_with_advice() {
    let mut conversation = TestConversation::new(&spec("acp-copilot"));
    let mut hello = hello(&json!({}));
    hello["result"]["authMethods"] =
        json!([{"id": "x", "name": "Log in", "description": "Run `copilot login`"}]);
    conversation.receive(&hello);
    conversation.receive(
        &json!({"jsonrpc": "2.0", "id": 2, "error": {"code": -32000, "message": "Authentication required"}}),
    );
    let message = "acp-copilot wants its user to log in first: Run `copilot login` (Authentication required)"
        .to_owned();
    assert_eq!(
        conversation.end().end,
        AgentEnd::Failed(Failure::Model { error: ModelError::Denied, message })
    );
}

#[test]
fn another_version_of_the_protocol_is_not_spoken() {
    let mut conversation = TestConversation::new(&spec("acp"));
    conversation.receive(&json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 2}}));
    assert_eq!(conversation.written, Vec::<Value>::new());
    assert!(matches!(conversation.end().end, AgentEnd::Failed(Failure::Output { .. })));
}

#[test]
fn tokens_are_reported_if_they_are_the_runs_own() {
    let usage = json!({"totalTokens": 165, "inputTokens": 100, "outputTokens": 15, "cachedReadTokens": 50});
    let reported = |kind: &str, tools: bool| {
        let mut spec = spec(kind);
        spec.setup.permission.level = None;
        let mut conversation = TestConversation::new(&spec);
        conversation.receive(&hello(&json!({})));
        let mode = crate::registry::vendor_for_backend(kind).and_then(|vendor| vendor.acp?.profile.modes);
        let mode = mode.map(|modes| modes.safe_edit);
        conversation.receive(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": mode}}}));
        if tools {
            conversation
                .receive(&update(&json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t"})));
        }
        conversation.receive(&update(&json!({"sessionUpdate": "usage_update", "used": 1, "size": 2,
            "cost": {"amount": 0.5, "currency": "USD"}})));
        let end = json!({"jsonrpc": "2.0", "id": 4, "result": {"stopReason": "end_turn", "usage": usage}});
        let reports = conversation.receive(&end);
        reports.into_iter().find(|report| matches!(report, AgentReport::Used(_) | AgentReport::Warned(_)))
    };
    let cost = Some(Cost { microusd: 500_000, basis: CostBasis::Reported });
    // Cached tokens are input too.
    let tokens = Usage { input_tokens: 150, output_tokens: 15, cache_read_tokens: 50, ..Usage::default() };
    let whole = Some(AgentReport::Used(Usage { cost, ..tokens }));
    for kind in ["acp-claude", "acp-copilot", "acp-opencode", "acp"] {
        assert_eq!(reported(kind, false), whole, "{kind}");
    }
    assert!(
        matches!(reported("acp-opencode", true), Some(AgentReport::Warned(_))),
        "only the last request is counted"
    );
    assert_eq!(reported("acp-kimi", false), None);
}

#[test]
fn a_stop_request_cancels_the_turn_and_pending_permissions() {
    let mut conversation = TestConversation::prompted(&spec("acp-kimi"));
    conversation.receive(&permission_request(7, &json!({"toolCallId": "c", "kind": "execute"})));
    let reports = conversation.reader.ask_to_stop();
    conversation.record(reports);
    let reported: Vec<&Value> = conversation.written.iter().rev().take(2).collect();
    assert_eq!(reported[1]["result"]["outcome"], json!({"outcome": "cancelled"}));
    assert_eq!(
        (&reported[0]["method"], &reported[0]["params"]),
        (&json!("session/cancel"), &json!({"sessionId": "s-1"}))
    );
    let mut unprompted = TestConversation::new(&spec("acp-kimi"));
    unprompted.receive(&hello(&json!({})));
    assert_eq!(unprompted.reader.ask_to_stop(), [AgentReport::CloseInput]);
    let reports = unprompted.receive(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1",
        "modes": {"currentModeId": "default"}}}));
    assert!(
        !reports.iter().any(|report| matches!(report, AgentReport::Write(_))),
        "no turn is begun: {reports:?}"
    );
}

#[test]
fn a_structured_answer_is_read_as_a_value() {
    let mut spec = spec("acp-kimi");
    spec.setup.output_schema = Some(json!({"type": "object"}));
    let mut conversation = TestConversation::prompted(&spec);
    let prompt = conversation.written.last().unwrap()["params"]["prompt"][0]["text"].to_string();
    assert!(prompt.contains("{\\\"type\\\":\\\"object\\\"}"), "{prompt}");
    conversation.receive(&message_chunk("{\"birds\": 3}"));
    conversation.receive(&turn_end("end_turn"));
    assert_eq!(conversation.end().structured, Some(json!({"birds": 3})));
}

/// Everything that an agent writes in one successful run.
fn stream() -> Vec<u8> {
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "kind": "execute",
        "rawInput": {"command": "ls"}});
    let done = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"});
    let messages = [
        hello(&json!({"loadSession": true})),
        json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": "default"}}}),
        update(&call),
        permission_request(7, &json!({"toolCallId": "c"})),
        update(&done),
        message_chunk("Hello."),
        turn_end("end_turn"),
    ];
    messages.iter().flat_map(|message| format!("{message}\n").into_bytes()).collect()
}

#[test]
fn no_beginning_of_a_stream_succeeds() {
    let whole = stream();
    for cut in 0..whole.len() - 1 {
        let mut conversation = TestConversation::new(&spec("acp-kimi"));
        conversation.reader.feed(StdStream::Stdout, &whole[..cut]);
        assert_ne!(conversation.end().end, AgentEnd::Done, "cut at {cut}");
    }
    let mut conversation = TestConversation::new(&spec("acp-kimi"));
    conversation.reader.feed(StdStream::Stdout, &whole);
    assert_eq!(conversation.end().end, AgentEnd::Done);
}

proptest! {
    #[test]
    fn no_bytes_are_too_strange(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..20)) {
        let mut conversation = TestConversation::new(&spec("acp"));
        for chunk in &chunks {
            conversation.reader.feed(StdStream::Stdout, chunk);
        }
        prop_assert_ne!(conversation.end().end, AgentEnd::Done);
    }

    #[test]
    fn a_stream_with_strange_bytes_in_it_is_survived(at in 0_usize..1_500, bytes in prop::collection::vec(any::<u8>(), 1..8)) {
        let mut whole = stream();
        let at = at.min(whole.len());
        whole.splice(at..(at + bytes.len()).min(whole.len()), bytes);
        let mut conversation = TestConversation::new(&spec("acp-kimi"));
        conversation.reader.feed(StdStream::Stdout, &whole);
        conversation.end();
    }
}

#[test]
fn a_service_that_cannot_be_reached_ends_a_turn_of_opencode() {
    let line = "timestamp=2026-11-18T06:19:24.295Z level=ERROR message=\"stream error\" providerID=opencode \
                modelID=big-pickle small=false error.error=\"AI_APICallError: Cannot connect to API: Unable to connect.\"\n";
    let mut conversation = TestConversation::prompted(&spec("acp-opencode"));
    conversation.reader.expect_no_login();
    assert_eq!(conversation.reader.feed(StdStream::Stderr, line.as_bytes()), []);
    conversation.receive(&message_chunk("Hello."));
    assert_eq!(conversation.reader.feed(StdStream::Stderr, line.as_bytes()), []);
    let reports = conversation.reader.feed(StdStream::Stderr, line.as_bytes());
    assert_eq!(reports, [AgentReport::CloseInput, AgentReport::Finished]);
    // Its later answer does not end the turn.
    conversation.receive(&turn_end("end_turn"));
    let message = "2 requests to opencode/big-pickle in a row found no connection".to_owned();
    let failure = Failure::Model { error: ModelError::Unreachable, message };
    assert_eq!(conversation.end().end, AgentEnd::Failed(failure));
}

#[test]
fn a_mode_that_cannot_be_set_is_reported_with_the_agents_full_error() {
    let mut conversation = TestConversation::new(&spec("acp-goose"));
    conversation.receive(&hello(&json!({})));
    conversation.receive(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {
        "currentModeId": "auto", "availableModes": [{"id": "auto", "name": "auto"}, {"id": "approve", "name": "approve"}]}}}));
    let error = json!({"code": -32603, "message": "Internal error", "data": "Missing provider"});
    conversation.receive(&json!({"jsonrpc": "2.0", "id": 3, "error": error}));
    let message =
        "acp-goose cannot be put in the mode in which it asks: Internal error: Missing provider".to_owned();
    assert_eq!(conversation.end().end, AgentEnd::Failed(Failure::Agent { message }));
}
