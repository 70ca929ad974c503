//! Conversations that go on, are copied, are gone, or are closed.

use domain::run::{AgentEnd, Failure, Usage};
use serde_json::{Value, json};

use super::{Talk, ends, hello, says, spec};
use crate::contract::{Answer, Report};

#[test]
fn a_session_that_would_be_given_a_title_by_a_model_has_one_before() {
    let begun = |session: Option<&str>, fork: bool| {
        let mut spec = spec("acp-codex");
        spec.session = session.map(|session| session.parse().unwrap());
        spec.fork = fork;
        let mut talk = Talk::of(&spec);
        talk.hear(&hello(&json!({"sessionCapabilities": {"fork": {}, "resume": {}}})));
        let modes = json!({"currentModeId": "workspace-write"});
        talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": modes}}));
        talk
    };
    let methods = |talk: &Talk| {
        let names = talk.written.iter().map(|message| message["method"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    let mut talk = begun(None, false);
    assert_eq!(methods(&talk), ["session/new", "session/set_title", "session/prompt"]);
    let refused = json!({"jsonrpc": "2.0", "id": 6, "error": {"code": -32603, "message": "not now"}});
    let reports = talk.hear(&refused);
    assert!(matches!(&reports[..], [Report::Warned(told)] if told.contains("not now")), "{reports:?}");
    assert_eq!(methods(&begun(Some("s-1"), false)), ["session/resume", "session/prompt"]);
    let copied = methods(&begun(Some("s-0"), true));
    assert_eq!(copied, ["session/fork", "session/set_title", "session/prompt"]);
}

#[test]
fn which_agents_copy_a_session_is_a_capability() {
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
    let mut talk = Talk::of(&spec);
    talk.hear(&hello(&json!({"loadSession": true, "sessionCapabilities": {"fork": {}, "resume": {}}})));
    let asked = talk.written.last().unwrap();
    assert_eq!((&asked["method"], &asked["params"]["sessionId"]), (&json!("session/fork"), &json!("s-0")));
    let modes = json!({"currentModeId": "default"});
    let reports =
        talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": modes}}));
    assert!(reports.contains(&Report::Session("s-1".to_owned())), "{reports:?}");
    assert_eq!(talk.written.last().unwrap()["params"]["sessionId"], "s-1");
    talk.hear(&says("I am a copy."));
    talk.hear(&ends("end_turn"));
    assert_eq!(talk.end().session.as_deref(), Some("s-1"));

    let mut talk = Talk::of(&spec);
    talk.hear(&hello(&json!({"loadSession": true, "sessionCapabilities": {"resume": {}}})));
    assert_eq!(talk.written, Vec::<Value>::new(), "the session itself is not gone on with");
    assert!(matches!(talk.end().end, AgentEnd::Failed(Failure::Session { .. })));
}

#[test]
fn what_a_loaded_session_repeats_is_no_part_of_this_run() {
    let mut spec = spec("acp-copilot");
    spec.session = Some("s-1".parse().unwrap());
    let mut talk = Talk::of(&spec);
    talk.hear(&hello(&json!({"loadSession": true})));
    assert_eq!(talk.written[0]["method"], "session/load");
    assert_eq!(talk.hear(&says("What I said yesterday.")), []);
    let agent = "https://agentclientprotocol.com/protocol/session-modes#agent";
    talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"modes": {"currentModeId": agent}}}));
    talk.hear(&says("Today."));
    let usage = json!({"totalTokens": 1650, "inputTokens": 1500, "outputTokens": 150});
    let reports =
        talk.hear(&json!({"jsonrpc": "2.0", "id": 4, "result": {"stopReason": "end_turn", "usage": usage}}));
    // It counts over the whole session, of which 1000 and 100 were used before.
    let own = Usage { input_tokens: 500, output_tokens: 50, ..Usage::default() };
    assert!(reports.contains(&Report::Used(own)), "{reports:?}");
    assert_eq!(talk.end().answer, Answer::Text("Today.".to_owned()));
}

#[test]
fn a_session_that_is_not_there_is_told_as_such() {
    let mut spec = spec("acp-kimi");
    spec.session = Some("s-1".parse().unwrap());
    let mut talk = Talk::of(&spec);
    talk.hear(&hello(&json!({"loadSession": true, "sessionCapabilities": {"resume": {}}})));
    assert_eq!(talk.written[0]["method"], "session/resume");
    talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "error": {"code": -32602, "message": "Session not found"}}));
    let reason = "Session not found".to_owned();
    assert_eq!(talk.end().end, AgentEnd::Failed(Failure::Session { reason }));
    let mut left = Talk::of(&spec);
    left.hear(&hello(&json!({"loadSession": true})));
    assert!(
        matches!(left.end().end, AgentEnd::Failed(Failure::Session { .. })),
        "an agent that leaves instead"
    );
    let mut unable = Talk::of(&spec);
    unable.hear(&hello(&json!({})));
    assert!(matches!(unable.end().end, AgentEnd::Failed(Failure::Session { .. })));
}

#[test]
fn a_session_that_can_be_closed_is_before_the_agent_leaves() {
    let mut talk = Talk::of(&spec("acp-kimi"));
    talk.hear(&hello(&json!({"sessionCapabilities": {"close": {}}})));
    talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": "default"}}}));
    talk.hear(&says("Done."));
    let reports = talk.hear(&ends("end_turn"));
    assert!(reports.contains(&Report::Finished) && !reports.contains(&Report::CloseInput), "{reports:?}");
    assert_eq!(talk.written.last().unwrap()["method"], "session/close");
    assert_eq!(talk.hear(&json!({"jsonrpc": "2.0", "id": 5, "result": {}})), [Report::CloseInput]);
    assert_eq!(talk.end().end, AgentEnd::Done);
}
