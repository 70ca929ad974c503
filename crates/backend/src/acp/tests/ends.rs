//! How a turn ends, and what it used.

use domain::run::{AgentEnd, Cost, CostBasis, Failure, LimitName, ModelError, Stream, Usage};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Talk, asks, ends, hello, says, spec, update};
use crate::acp::KNOWN;
use crate::contract::{Answer, Conclusion, Decision, Report};
use crate::kimi::home::failed_turn;

#[test]
fn turns_that_are_used_up_are_told_in_an_error_or_in_a_message() {
    let over = AgentEnd::OverBudget(LimitName::Turns);
    let mut talk = Talk::begun(&spec("acp-claude"));
    talk.hear(&says("Half of it."));
    let error = json!({"code": -32603, "message": "Internal error: Reached maximum number of turns (3)"});
    talk.hear(&json!({"jsonrpc": "2.0", "id": 4, "error": error}));
    let Conclusion { end, answer, .. } = talk.end();
    assert_eq!((end, answer), (over.clone(), Answer::Text("Half of it.\n".to_owned())));
    let mut talk = Talk::of(&spec("acp-goose"));
    talk.hear(&hello(&json!({})));
    talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {
        "currentModeId": "approve", "availableModes": [{"id": "approve", "name": "Approve"}]}}}));
    talk.hear(&says("Half of it."));
    talk.hear(&says("I've reached the maximum number of actions I can do without user input."));
    talk.hear(&ends("end_turn"));
    let Conclusion { end, answer, .. } = talk.end();
    assert_eq!((end, answer), (over, Answer::Text("Half of it.\n".to_owned())));
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
        let mut talk = Talk::begun(&spec("acp-kimi"));
        talk.hear(&says("So far."));
        talk.hear(&ends(reason));
        let conclusion = talk.end();
        assert_eq!(conclusion.end, end);
        let Answer::Text(text) = conclusion.answer else { panic!("{reason}") };
        assert_eq!(text.trim(), "So far.");
    }
}

#[test]
fn an_agent_that_gives_up_at_a_denial_has_not_succeeded() {
    let copilot = says("Info: Operation cancelled by user");
    for (kind, last) in [
        ("acp-copilot", vec![copilot, ends("end_turn")]),
        ("acp-codex", vec![ends("cancelled")]),
        ("acp-opencode", vec![ends("end_turn")]),
        ("acp-qwen", vec![ends("end_turn")]),
    ] {
        let mut talk = Talk::of(&spec(kind));
        talk.hear(&hello(&json!({})));
        let mode = KNOWN.iter().find(|known| known.name == kind).and_then(|known| known.habits.modes);
        let mode = mode.map(|modes| modes.safe_edit);
        talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": mode}}}));
        talk.hear(&says("I will make the file now."));
        talk.hear(&asks(7, &json!({"toolCallId": "c", "kind": "execute"})));
        talk.decide("7#0", &Decision::Deny("no".to_owned()));
        for message in last {
            talk.hear(&message);
        }
        let message = format!("{kind} gave up when it was denied a tool");
        assert_eq!(talk.end().end, AgentEnd::Failed(Failure::Agent { message }));
    }
}

#[test]
fn errors_that_agents_hide_in_a_good_end_are_found() {
    let said = |kind: &str, text: &str| {
        let mut talk = Talk::of(&spec(kind));
        talk.hear(&hello(&json!({})));
        let mode = KNOWN.iter().find(|known| known.name == kind).and_then(|known| known.habits.modes);
        let mode = mode.map(|modes| modes.safe_edit);
        talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": mode}}}));
        if kind == "acp-copilot" {
            talk.hear(&says("Info: Request failed due to a transient API error. Retrying..."));
        }
        if kind == "acp-codex" {
            let status = json!({"codex": {"threadStatus": {"type": "systemError"}}});
            talk.hear(&update(&json!({"sessionUpdate": "session_info_update", "_meta": status})));
        }
        talk.hear(&says(text));
        talk.hear(&ends("end_turn"));
        match talk.end().end {
            AgentEnd::Failed(Failure::Model { error, .. }) => error,
            end => panic!("{kind}: {end:?}"),
        }
    };
    assert_eq!(said("acp-copilot", "Error: Authentication failed (HTTP 401)."), ModelError::Denied);
    assert_eq!(said("acp-goose", "Ran into this error: Rate limit exceeded"), ModelError::RateLimit);
    let unreachable = "Network error: Could not connect.\n\nPlease resend your message to try again.";
    assert_eq!(said("acp-goose", unreachable), ModelError::Unreachable);
    let compacting = "Ran into this error trying to compact: Failed to compact: context limit exceeded";
    assert_eq!(said("acp-goose", compacting), ModelError::TooLong);
    assert_eq!(said("acp-goose", ""), ModelError::RateLimit, "it says nothing about credits");
    assert_eq!(said("acp-codex", "unexpected status 503"), ModelError::Overloaded);
    let mut silent = Talk::begun(&spec("acp-kimi"));
    silent.hear(&ends("end_turn"));
    assert!(matches!(silent.end().end, AgentEnd::Failed(Failure::Model { error: ModelError::Other, .. })));
    let goose = |end: Value, text: &str| {
        let mut talk = Talk::of(&spec("acp-goose"));
        talk.hear(&hello(&json!({})));
        talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": "approve"}}}));
        talk.hear(&says(text));
        talk.hear(&end);
        talk.end().end
    };
    let mut counted = ends("end_turn");
    counted["result"]["usage"] = json!({"totalTokens": 1, "inputTokens": 1, "outputTokens": 0});
    assert!(matches!(goose(counted, ""), AgentEnd::Failed(Failure::Output { .. })), "its model was paid");
    assert_eq!(goose(ends("end_turn"), "Network error: so says the log."), AgentEnd::Done);
    let mut mute = Talk::begun(&spec("acp"));
    mute.hear(&ends("end_turn"));
    assert!(matches!(mute.end().end, AgentEnd::Failed(Failure::Output { .. })));
}

#[test]
fn what_was_said_before_a_tool_is_no_answer_of_an_agent_that_is_silent_about_errors() {
    let used = update(
        &json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "ls", "kind": "execute", "status": "completed",
        "rawInput": {"command": "ls"}}),
    );
    let end = |kind: &str, mode: &str, last: &[Value]| {
        let mut talk = Talk::of(&spec(kind));
        talk.hear(&hello(&json!({})));
        talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": mode}}}));
        talk.hear(&says("Let me look first."));
        talk.hear(&used);
        last.iter().for_each(|message| _ = talk.hear(message));
        talk.hear(&ends("end_turn"));
        talk.end().end
    };
    for (kind, mode, expected) in
        [("acp-goose", "approve", ModelError::RateLimit), ("acp-kimi", "default", ModelError::Other)]
    {
        match end(kind, mode, &[]) {
            AgentEnd::Failed(Failure::Model { error, .. }) => assert_eq!(error, expected, "{kind}"),
            end => panic!("{kind}: {end:?}"),
        }
        assert_eq!(end(kind, mode, &[says("There is a heron.")]), AgentEnd::Done, "{kind}");
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
        let found = match failed_turn(work.path(), "s-1") {
            Some(Failure::Model { error, .. }) => Some(error),
            None => None,
            Some(other) => panic!("{other:?}"),
        };
        assert_eq!(found, expected, "{text}");
    }
    for sly in ["..", "../s-1", "s-2", ""] {
        assert_eq!(failed_turn(work.path(), sly), None, "{sly}");
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
        let mut talk = Talk::begun(&spec("acp-kimi"));
        talk.hear(&json!({"jsonrpc": "2.0", "id": 4, "error": error}));
        let got = match talk.end().end {
            AgentEnd::Failed(Failure::Model { error, .. }) => Some(error),
            AgentEnd::Failed(Failure::Agent { .. }) => None,
            end => panic!("{end:?}"),
        };
        assert_eq!(got, expected, "{error}");
    }
}

#[test]
fn whoever_has_to_log_in_is_told_how() {
    let mut talk = Talk::of(&spec("acp-copilot"));
    let mut hello = hello(&json!({}));
    hello["result"]["authMethods"] =
        json!([{"id": "x", "name": "Log in", "description": "Run `copilot login`"}]);
    talk.hear(&hello);
    talk.hear(
        &json!({"jsonrpc": "2.0", "id": 2, "error": {"code": -32000, "message": "Authentication required"}}),
    );
    let message = "acp-copilot wants its user to log in first: Run `copilot login` (Authentication required)"
        .to_owned();
    assert_eq!(talk.end().end, AgentEnd::Failed(Failure::Model { error: ModelError::Denied, message }));
}

#[test]
fn another_version_of_the_protocol_is_not_spoken() {
    let mut talk = Talk::of(&spec("acp"));
    talk.hear(&json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 2}}));
    assert_eq!(talk.written, Vec::<Value>::new());
    assert!(matches!(talk.end().end, AgentEnd::Failed(Failure::Output { .. })));
}

#[test]
fn tokens_are_told_as_far_as_they_are_the_runs_own() {
    let usage = json!({"totalTokens": 165, "inputTokens": 100, "outputTokens": 15, "cachedReadTokens": 50});
    let told = |kind: &str, tools: bool| {
        let mut spec = spec(kind);
        spec.setup.permission.level = None;
        let mut talk = Talk::of(&spec);
        talk.hear(&hello(&json!({})));
        let mode = KNOWN.iter().find(|known| known.name == kind).and_then(|known| known.habits.modes);
        let mode = mode.map(|modes| modes.safe_edit);
        talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": mode}}}));
        if tools {
            talk.hear(&update(&json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t"})));
        }
        talk.hear(&update(&json!({"sessionUpdate": "usage_update", "used": 1, "size": 2,
            "cost": {"amount": 0.5, "currency": "USD"}})));
        let end = json!({"jsonrpc": "2.0", "id": 4, "result": {"stopReason": "end_turn", "usage": usage}});
        let reports = talk.hear(&end);
        reports.into_iter().find(|report| matches!(report, Report::Used(_) | Report::Warned(_)))
    };
    let cost = Some(Cost { microusd: 500_000, basis: CostBasis::Reported });
    // What came from a cache is input too.
    let tokens = Usage { input_tokens: 150, output_tokens: 15, cache_read_tokens: 50, ..Usage::default() };
    let whole = Some(Report::Used(Usage { cost, ..tokens }));
    for kind in ["acp-claude", "acp-copilot", "acp-opencode", "acp"] {
        assert_eq!(told(kind, false), whole, "{kind}");
    }
    assert!(
        matches!(told("acp-opencode", true), Some(Report::Warned(_))),
        "only the last request is counted"
    );
    assert_eq!(told("acp-kimi", false), None);
}

#[test]
fn a_run_is_stopped_by_a_word_and_nothing_is_asked_any_more() {
    let mut talk = Talk::begun(&spec("acp-kimi"));
    talk.hear(&asks(7, &json!({"toolCallId": "c", "kind": "execute"})));
    let reports = talk.reader.ask_to_stop();
    talk.note(reports);
    let told: Vec<&Value> = talk.written.iter().rev().take(2).collect();
    assert_eq!(told[1]["result"]["outcome"], json!({"outcome": "cancelled"}));
    assert_eq!(
        (&told[0]["method"], &told[0]["params"]),
        (&json!("session/cancel"), &json!({"sessionId": "s-1"}))
    );
    let mut early = Talk::of(&spec("acp-kimi"));
    early.hear(&hello(&json!({})));
    assert_eq!(early.reader.ask_to_stop(), [Report::CloseInput]);
    let reports = early.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1",
        "modes": {"currentModeId": "default"}}}));
    assert!(
        !reports.iter().any(|report| matches!(report, Report::Write(_))),
        "no turn is begun: {reports:?}"
    );
}

#[test]
fn an_answer_in_a_shape_is_read_as_a_value() {
    let mut spec = spec("acp-kimi");
    spec.setup.output_schema = Some(json!({"type": "object"}));
    let mut talk = Talk::begun(&spec);
    let prompt = talk.written.last().unwrap()["params"]["prompt"][0]["text"].to_string();
    assert!(prompt.contains("{\\\"type\\\":\\\"object\\\"}"), "{prompt}");
    talk.hear(&says("{\"birds\": 3}"));
    talk.hear(&ends("end_turn"));
    assert_eq!(talk.end().structured, Some(json!({"birds": 3})));
}

/// The whole of what an agent writes in one good run.
fn stream() -> Vec<u8> {
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "kind": "execute",
        "rawInput": {"command": "ls"}});
    let done = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"});
    let messages = [
        hello(&json!({"loadSession": true})),
        json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": "default"}}}),
        update(&call),
        asks(7, &json!({"toolCallId": "c"})),
        update(&done),
        says("Hello."),
        ends("end_turn"),
    ];
    messages.iter().flat_map(|message| format!("{message}\n").into_bytes()).collect()
}

#[test]
fn no_beginning_of_a_stream_succeeds() {
    let whole = stream();
    for cut in 0..whole.len() - 1 {
        let mut talk = Talk::of(&spec("acp-kimi"));
        talk.reader.feed(Stream::Stdout, &whole[..cut]);
        assert_ne!(talk.end().end, AgentEnd::Done, "cut at {cut}");
    }
    let mut talk = Talk::of(&spec("acp-kimi"));
    talk.reader.feed(Stream::Stdout, &whole);
    assert_eq!(talk.end().end, AgentEnd::Done);
}

proptest! {
    #[test]
    fn no_bytes_are_too_strange(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..20)) {
        let mut talk = Talk::of(&spec("acp"));
        for chunk in &chunks {
            talk.reader.feed(Stream::Stdout, chunk);
        }
        prop_assert_ne!(talk.end().end, AgentEnd::Done);
    }

    #[test]
    fn a_stream_with_strange_bytes_in_it_is_survived(at in 0_usize..1_500, bytes in prop::collection::vec(any::<u8>(), 1..8)) {
        let mut whole = stream();
        let at = at.min(whole.len());
        whole.splice(at..(at + bytes.len()).min(whole.len()), bytes);
        let mut talk = Talk::of(&spec("acp-kimi"));
        talk.reader.feed(Stream::Stdout, &whole);
        talk.end();
    }
}

#[test]
fn a_service_that_cannot_be_reached_ends_a_turn_of_opencode() {
    let line = "timestamp=2026-11-18T06:19:24.295Z level=ERROR message=\"stream error\" providerID=opencode \
                modelID=big-pickle small=false error.error=\"AI_APICallError: Cannot connect to API: Unable to connect.\"\n";
    let mut talk = Talk::begun(&spec("acp-opencode"));
    talk.reader.expect_no_login();
    assert_eq!(talk.reader.feed(Stream::Stderr, line.as_bytes()), []);
    talk.hear(&says("Hello."));
    assert_eq!(talk.reader.feed(Stream::Stderr, line.as_bytes()), []);
    let reports = talk.reader.feed(Stream::Stderr, line.as_bytes());
    assert_eq!(reports, [Report::CloseInput, Report::Finished]);
    // What it answers then is no end of the turn.
    talk.hear(&ends("end_turn"));
    let message = "2 requests to opencode/big-pickle in a row found no connection".to_owned();
    let failure = Failure::Model { error: ModelError::Unreachable, message };
    assert_eq!(talk.end().end, AgentEnd::Failed(failure));
}

#[test]
fn a_mode_that_cannot_be_set_is_told_with_all_that_the_agent_says_about_it() {
    let mut talk = Talk::of(&spec("acp-goose"));
    talk.hear(&hello(&json!({})));
    talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {
        "currentModeId": "auto", "availableModes": [{"id": "auto", "name": "auto"}, {"id": "approve", "name": "approve"}]}}}));
    let error = json!({"code": -32603, "message": "Internal error", "data": "Missing provider"});
    talk.hear(&json!({"jsonrpc": "2.0", "id": 3, "error": error}));
    let message =
        "acp-goose cannot be put in the mode in which it asks: Internal error: Missing provider".to_owned();
    assert_eq!(talk.end().end, AgentEnd::Failed(Failure::Agent { message }));
}
