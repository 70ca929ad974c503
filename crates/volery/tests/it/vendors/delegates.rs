//! Real programs as clients of our own server: each is given it because it may delegate, and hands work to the other.

use model_server::Reply;
use serde_json::json;

use super::place::Place;

/// Lets one program delegate to the other, and checks that the answer came all the way back.
fn delegate(from: &str, to: &str, call: impl FnOnce(serde_json::Value) -> Reply) {
    let Some(place) = Place::make_for(&[from, to], "delegates", Vec::new()) else { return };
    let arguments =
        json!({"agent": "helper", "prompt": "Count the herons.", "directory": place.stage.project()});
    let script = [call(arguments), Reply::say("Three herons."), Reply::say("There are three.")];
    place.offline.server().add(script);
    place.agent_named("worker", from, "delegates: anyone\npermission: yolo\ntimeout: 100s");
    place.agent_named("helper", to, "timeout: 90s");
    let run = place.run("How many herons are there?", &[]);
    assert_eq!(
        (&run["status"], &run["result"].as_str().map(str::trim)),
        (&json!("succeeded"), &Some("There are three.")),
        "{run}"
    );
    let children = run["children"].as_array().unwrap();
    assert_eq!((children.len(), &children[0]["agent"]), (1, &json!("helper")), "{run}");
    let child = children[0]["run_id"].as_str().unwrap();
    let shown = place.volery(&["show", child, "--json"]).ok().json();
    assert_eq!((&shown["backend"], &shown["status"]), (&json!(to), &json!("succeeded")), "{shown}");
    let asks = place.offline.server().asks();
    assert_eq!(asks.len(), 3);
    assert!(asks[1].last_user_text().contains("Count the herons."), "{:?}", asks[1].last_user_text());
    let seen = place.offline.server().seen();
    assert!(seen.last().unwrap().body.to_string().contains("Three herons."), "the answer did not come back");
}

#[test]
fn gemini_to_goose() {
    delegate("gemini", "goose", |arguments| Reply::call("mcp_volery_run_agent", arguments));
}

#[test]
fn claude_code_to_codex() {
    delegate("claude", "codex", |arguments| Reply::call("mcp__volery__run_agent", arguments));
}

#[test]
fn codex_to_claude_code() {
    delegate("codex", "claude", |arguments| {
        Reply::say("I ask somebody.").and_call_in("mcp__volery", "run_agent", arguments)
    });
}
