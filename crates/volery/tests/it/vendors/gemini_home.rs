//! What Gemini CLI takes only from its settings: it gets a home of the run's own, and keeps its user's login and sessions.

use std::fs;

use model_server::Reply;
use serde_json::json;

use super::place::{Place, Vendor};

const GEMINI: Vendor = Vendor::named("gemini");

#[test]
fn turns_are_limited() {
    let script = vec![Reply::call("list_directory", json!({"dir_path": "."})).always()];
    let Some(place) = Place::make(&GEMINI, "turns", script) else { return };
    place.agent(&GEMINI, "timeout: 100s\nmax_turns: 2");
    let run = place.run("Look around.", &[]);
    assert_eq!(run["outcome"]["outcome"], json!("over_budget"), "{run}");
    assert!(place.offline.server().asks().len() <= 3, "{}", place.offline.server().asks().len());
}

#[test]
fn a_session_goes_on_in_the_home_of_another_run() {
    let script = vec![Reply::say("One."), Reply::say("Two.")];
    let Some(place) = Place::make(&GEMINI, "session", script) else { return };
    place.agent(&GEMINI, "timeout: 100s\nmax_turns: 9");
    let first = place.run("Remember the word heliotrope.", &[]);
    assert_eq!(first["status"], json!("succeeded"), "{first}");
    let second = place.run("Which word?", &["--session", first["session"].as_str().unwrap()]);
    assert_eq!(second["status"], json!("succeeded"), "{second}");
    let asks = place.offline.server().seen();
    assert!(asks.last().unwrap().body.to_string().contains("heliotrope"), "the conversation is lost");
}

#[test]
fn a_project_that_would_replace_a_server_is_refused() {
    let Some(place) = Place::make(&GEMINI, "collision", Vec::new()) else { return };
    let folder = place.stage.project().join(".gemini");
    fs::create_dir_all(&folder).unwrap();
    let settings = json!({"mcpServers": {"aviary": {"command": "/nonexistent/strange"}}});
    fs::write(folder.join("settings.json"), settings.to_string()).unwrap();
    let servers = "mcp_servers:\n  aviary:\n    command: /bin/true\n";
    place.agent(&GEMINI, &format!("timeout: 100s\n{servers}"));
    assert_eq!(place.volery(&["trust", "--yes"]).code, 0);
    let run = place.run("Go.", &[]);
    assert_eq!(run["status"], json!("failed"), "{run}");
    assert!(run["explanation"].as_str().unwrap().contains("has a server aviary of its own"), "{run}");
}
