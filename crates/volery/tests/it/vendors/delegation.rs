//! Real programs as clients of our own server: each is given it because it may delegate, and hands work to the other.

use fake_llm::ScriptedReply;
use serde_json::json;

use super::vendor_env::VendorEnv;

/// Lets one program delegate to the other, and checks that the answer came all the way back.
fn delegate(from: &str, to: &str, call: impl FnOnce(serde_json::Value) -> ScriptedReply) {
    let Some(vendor_env) = VendorEnv::make_for(&[from, to], "delegates", Vec::new()) else { return };
    let arguments =
        json!({"agent": "helper", "prompt": "Count the herons.", "directory": vendor_env.env.project()});
    let script =
        [call(arguments), ScriptedReply::say("Three herons."), ScriptedReply::say("There are three.")];
    vendor_env.offline.server().add(script);
    vendor_env.agent_named("worker", from, "delegates: anyone\npermission: yolo\ntimeout: 100s");
    vendor_env.agent_named("helper", to, "timeout: 90s");
    let run = vendor_env.run("How many herons are there?", &[]);
    assert_eq!(
        (&run["status"], &run["result"].as_str().map(str::trim)),
        (&json!("succeeded"), &Some("There are three.")),
        "{run}"
    );
    let children = run["children"].as_array().unwrap();
    assert_eq!((children.len(), &children[0]["agent"]), (1, &json!("helper")), "{run}");
    let child = children[0]["run_id"].as_str().unwrap();
    let shown = vendor_env.volery(&["show", child, "--json"]).ok().json();
    assert_eq!((&shown["backend"], &shown["status"]), (&json!(to), &json!("succeeded")), "{shown}");
    let asks = vendor_env.offline.server().model_requests();
    assert_eq!(asks.len(), 3);
    assert!(asks[1].last_user_text().contains("Count the herons."), "{:?}", asks[1].last_user_text());
    let seen = vendor_env.offline.server().requests();
    assert!(seen.last().unwrap().body.to_string().contains("Three herons."), "the answer did not come back");
}

#[test]
fn gemini_to_goose() {
    delegate("gemini", "goose", |arguments| ScriptedReply::call("mcp_volery_run_agent", arguments));
}

#[test]
fn claude_code_to_codex() {
    delegate("claude", "codex", |arguments| ScriptedReply::call("mcp__volery__run_agent", arguments));
}

#[test]
fn codex_to_claude_code() {
    delegate("codex", "claude", |arguments| {
        ScriptedReply::say("I ask somebody.").and_call_in("mcp__volery", "run_agent", arguments)
    });
}
