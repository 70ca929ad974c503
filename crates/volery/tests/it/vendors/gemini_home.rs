//! Gemini CLI takes some options only from its settings, so a run has a home of its own with the user's login and sessions.

use std::fs;

use fake_llm::ScriptedReply;
use serde_json::json;

use super::vendor_env::{Vendor, VendorEnv};

const GEMINI: Vendor = Vendor::new("gemini");

#[test]
fn turns_are_limited() {
    let script = vec![ScriptedReply::call("list_directory", json!({"dir_path": "."})).always()];
    let Some(vendor_env) = VendorEnv::make(&GEMINI, "turns", script) else { return };
    vendor_env.agent(&GEMINI, "timeout: 100s\nmax_turns: 2");
    let run = vendor_env.run("Look around.", &[]);
    assert_eq!(run["outcome"]["outcome"], json!("over_budget"), "{run}");
    assert!(
        vendor_env.offline.server().model_requests().len() <= 3,
        "{}",
        vendor_env.offline.server().model_requests().len()
    );
}

#[test]
fn a_session_continues_in_the_home_of_another_run() {
    let script = vec![ScriptedReply::say("One."), ScriptedReply::say("Two.")];
    let Some(vendor_env) = VendorEnv::make(&GEMINI, "session", script) else { return };
    vendor_env.agent(&GEMINI, "timeout: 100s\nmax_turns: 9");
    let first = vendor_env.run("Remember the word heliotrope.", &[]);
    assert_eq!(first["status"], json!("succeeded"), "{first}");
    let second = vendor_env.run("Which word?", &["--session", first["session"].as_str().unwrap()]);
    assert_eq!(second["status"], json!("succeeded"), "{second}");
    let asks = vendor_env.offline.server().requests();
    assert!(asks.last().unwrap().body.to_string().contains("heliotrope"), "the conversation is lost");
}

#[test]
fn a_project_that_would_replace_a_server_is_refused() {
    let Some(vendor_env) = VendorEnv::make(&GEMINI, "collision", Vec::new()) else { return };
    let folder = vendor_env.env.project().join(".gemini");
    fs::create_dir_all(&folder).unwrap();
    let settings = json!({"mcpServers": {"aviary": {"command": "/nonexistent/strange"}}});
    fs::write(folder.join("settings.json"), settings.to_string()).unwrap();
    let servers = "mcp_servers:\n  aviary:\n    command: /bin/true\n";
    vendor_env.agent(&GEMINI, &format!("timeout: 100s\n{servers}"));
    assert_eq!(vendor_env.volery(&["trust", "--yes"]).code, 0);
    let run = vendor_env.run("Go.", &[]);
    assert_eq!(run["status"], json!("failed"), "{run}");
    insta::assert_snapshot!(vendor_env.env.masked_texts(&run["explanation"]), @"failed: the agent could not be started: the gemini backend cannot carry out this run: [stage]/project/.gemini/settings.json has a server aviary of its own, which would be started instead");
}
