//! Conversations that are continued, copied, missing, or closed.

use domain::run::{AgentEnd, Failure, Usage};
use serde_json::{Value, json};

use super::{TestConversation, hello, message_chunk, spec, turn_end};
use crate::contract::{AgentAnswer, AgentReport};

#[test]
fn a_session_gets_a_title_before_a_model_would_make_one() {
    let begun = |session: Option<&str>, fork: bool| {
        let mut spec = spec("acp-codex");
        spec.session = session.map(|session| session.parse().unwrap());
        spec.fork = fork;
        let mut conversation = TestConversation::new(&spec);
        conversation.receive(&hello(&json!({"sessionCapabilities": {"fork": {}, "resume": {}}})));
        let modes = json!({"currentModeId": "workspace-write"});
        conversation
            .receive(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": modes}}));
        conversation
    };
    let methods = |conversation: &TestConversation| {
        let names = conversation.written.iter().map(|message| message["method"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    let mut conversation = begun(None, false);
    assert_eq!(methods(&conversation), ["session/new", "session/set_title", "session/prompt"]);
    let refused = json!({"jsonrpc": "2.0", "id": 6, "error": {"code": -32603, "message": "not now"}});
    let reports = conversation.receive(&refused);
    assert!(
        matches!(&reports[..], [AgentReport::Warned(message)] if message.contains("not now")),
        "{reports:?}"
    );
    assert_eq!(methods(&begun(Some("s-1"), false)), ["session/resume", "session/prompt"]);
    let copied = methods(&begun(Some("s-0"), true));
    assert_eq!(copied, ["session/fork", "session/set_title", "session/prompt"]);
}

#[test]
fn copying_a_session_is_a_capability() {
    let forks = |kind: &str| crate::registry::by_kind(kind).unwrap().capabilities(&Value::Null).forks;
    let known = ["acp-claude", "acp-codex", "acp-copilot", "acp-goose", "acp-kimi", "acp-opencode"];
    let copying: Vec<&str> = known.into_iter().filter(|kind| forks(kind)).collect();
    assert_eq!(copying, ["acp-claude", "acp-codex", "acp-kimi", "acp-opencode"]);
}

#[test]
fn a_session_is_copied_by_an_agent_that_can_and_has_a_new_name() {
    let mut spec = spec("acp-kimi");
    spec.session = Some("s-0".parse().unwrap());
    spec.fork = true;
    let mut conversation = TestConversation::new(&spec);
    conversation
        .receive(&hello(&json!({"loadSession": true, "sessionCapabilities": {"fork": {}, "resume": {}}})));
    let request = conversation.written.last().unwrap();
    assert_eq!(
        (&request["method"], &request["params"]["sessionId"]),
        (&json!("session/fork"), &json!("s-0"))
    );
    let modes = json!({"currentModeId": "default"});
    let reports = conversation
        .receive(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": modes}}));
    assert!(reports.contains(&AgentReport::Session("s-1".to_owned())), "{reports:?}");
    assert_eq!(conversation.written.last().unwrap()["params"]["sessionId"], "s-1");
    conversation.receive(&message_chunk("I am a copy."));
    conversation.receive(&turn_end("end_turn"));
    assert_eq!(conversation.end().session.as_deref(), Some("s-1"));

    let mut conversation = TestConversation::new(&spec);
    conversation.receive(&hello(&json!({"loadSession": true, "sessionCapabilities": {"resume": {}}})));
    assert_eq!(conversation.written, Vec::<Value>::new(), "the session itself is not gone on with");
    assert!(matches!(conversation.end().end, AgentEnd::Failed(Failure::Session { .. })));
}

#[test]
fn messages_repeated_by_a_loaded_session_are_not_part_of_this_run() {
    let mut spec = spec("acp-copilot");
    spec.session = Some("s-1".parse().unwrap());
    let mut conversation = TestConversation::new(&spec);
    conversation.receive(&hello(&json!({"loadSession": true})));
    assert_eq!(conversation.written[0]["method"], "session/load");
    assert_eq!(conversation.receive(&message_chunk("What I said yesterday.")), []);
    let agent = "https://agentclientprotocol.com/protocol/session-modes#agent";
    conversation.receive(&json!({"jsonrpc": "2.0", "id": 2, "result": {"modes": {"currentModeId": agent}}}));
    conversation.receive(&message_chunk("Today."));
    let usage = json!({"totalTokens": 1650, "inputTokens": 1500, "outputTokens": 150});
    let reports = conversation
        .receive(&json!({"jsonrpc": "2.0", "id": 4, "result": {"stopReason": "end_turn", "usage": usage}}));
    // It counts over the whole session, of which 1000 and 100 were used before.
    let own = Usage { input_tokens: 500, output_tokens: 50, ..Usage::default() };
    assert!(reports.contains(&AgentReport::Used(own)), "{reports:?}");
    assert_eq!(conversation.end().answer, AgentAnswer::Text("Today.".to_owned()));
}

#[test]
fn a_missing_session_is_reported() {
    let mut spec = spec("acp-kimi");
    spec.session = Some("s-1".parse().unwrap());
    let mut conversation = TestConversation::new(&spec);
    conversation.receive(&hello(&json!({"loadSession": true, "sessionCapabilities": {"resume": {}}})));
    assert_eq!(conversation.written[0]["method"], "session/resume");
    conversation.receive(
        &json!({"jsonrpc": "2.0", "id": 2, "error": {"code": -32602, "message": "Session not found"}}),
    );
    let reason = "Session not found".to_owned();
    assert_eq!(conversation.end().end, AgentEnd::Failed(Failure::Session { reason }));
    let mut departed = TestConversation::new(&spec);
    departed.receive(&hello(&json!({"loadSession": true})));
    assert!(
        matches!(departed.end().end, AgentEnd::Failed(Failure::Session { .. })),
        "an agent that leaves instead"
    );
    let mut unable = TestConversation::new(&spec);
    unable.receive(&hello(&json!({})));
    assert!(matches!(unable.end().end, AgentEnd::Failed(Failure::Session { .. })));
}

#[test]
fn a_session_that_can_be_closed_is_before_the_agent_leaves() {
    let mut conversation = TestConversation::new(&spec("acp-kimi"));
    conversation.receive(&hello(&json!({"sessionCapabilities": {"close": {}}})));
    conversation.receive(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": "default"}}}));
    conversation.receive(&message_chunk("Done."));
    let reports = conversation.receive(&turn_end("end_turn"));
    assert!(
        reports.contains(&AgentReport::Finished) && !reports.contains(&AgentReport::CloseInput),
        "{reports:?}"
    );
    assert_eq!(conversation.written.last().unwrap()["method"], "session/close");
    assert_eq!(
        conversation.receive(&json!({"jsonrpc": "2.0", "id": 5, "result": {}})),
        [AgentReport::CloseInput]
    );
    assert_eq!(conversation.end().end, AgentEnd::Done);
}
