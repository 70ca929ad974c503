//! What differs between PowerSpawn 1.6 and 1.8, and how a server knows which one it stands in for.

use std::fs;

use model_server::Reply;
use serde_json::json;

use super::{Place, argv, call, spawn, stand_in};
use crate::stage::Client;

fn serve(place: &Place, grok: &str, version: Option<&str>) -> Client {
    let mut command = place.command();
    command.env("GROK_BIN", grok).env("XAI_API_KEY", "dummy");
    command.envs(version.map(|version| ("POWERSPAWN_VERSION", version)));
    Client::start(command).initialize("claude-code")
}

/// Differs from powerspawn: `spawn_grok_cli` | no such tool | Grok's program in every version
#[test]
fn spawn_grok_is_the_program_since_1_8_and_the_api_before() {
    let place = Place::new(vec![Reply::say("ok").always()]);
    let grok = stand_in(&place, "grok");
    for (version, backend, level) in [
        (None, "api-grok", json!(null)),
        (Some("1.6.2"), "api-grok", json!(null)),
        (Some("1.8.1"), "grok", json!("read-only")),
    ] {
        let mut client = serve(&place, &grok, version);
        let id = spawn(&mut client, "spawn_grok", json!({"prompt": "Count."}));
        let waited = call(&mut client, "wait_for_agents", json!({}));
        let result = call(&mut client, "result", json!({"agent_id": id}));
        assert_eq!((&result["result"], &result["agent_type"]), (&json!("ok"), &json!("grok")), "{waited}");
        let spec = place.stage.spec(&place.run(&id));
        let found = (&spec["backend"]["kind"], &spec["setup"]["permission"]["level"]);
        assert_eq!(found, (&json!(backend), &level), "{version:?}");
    }
    let mut client = serve(&place, &grok, Some("1.8.1"));
    let spawned = call(&mut client, "spawn_grok_api", json!({"prompt": "Count."}));
    assert_eq!(
        (&spawned["agent_type"], &spawned["model"]),
        (&json!("grok_api"), &json!("grok-4")),
        "{spawned}"
    );
    call(&mut client, "wait_for_agents", json!({}));
    let tools = client.request("tools/list", json!({}));
    let listed = tools["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "spawn_grok").unwrap();
    let properties = &listed["inputSchema"]["properties"];
    assert_eq!(
        (&properties["force"]["default"], &properties["timeout"]["default"]),
        (&json!(false), &json!(600))
    );
}

#[test]
fn agents_md_is_put_before_tasks_since_1_8_unless_the_configuration_says_otherwise() {
    let place = Place::new(vec![Reply::say("ok").always()]);
    fs::write(place.stage.project().join("AGENTS.md"), "Herons are grey.\n").unwrap();
    let grok = stand_in(&place, "grok");
    let briefed = |version: &str| {
        let mut client = serve(&place, &grok, Some(version));
        spawn(&mut client, "spawn_grok_cli", json!({"prompt": "Count."}));
        call(&mut client, "wait_for_agents", json!({}));
        place.server.asks().pop().unwrap().last_user_text().contains("# Primary briefing (AGENTS.md)")
    };
    assert_eq!((briefed("1.6.2"), briefed("1.8.1")), (false, true));
    place.stage.configure("[serve]\npowerspawn_agents_context = false\n");
    assert!(!briefed("1.8.1"));
}

#[test]
fn the_files_of_the_project_say_which_version_it_is_and_which_models_are_meant() {
    let place = Place::new(vec![Reply::say("ok").always()]);
    let models = json!({
        "grok": {"default": "grok-build", "aliases": {"composer": "grok-composer-2.5-fast"}},
        "grok-api": {"default": "grok-4.3", "aliases": {}},
    });
    fs::write(place.stage.project().join("models.json"), models.to_string()).unwrap();
    let mut client = serve(&place, &stand_in(&place, "grok"), None);
    let id = spawn(&mut client, "spawn_grok", json!({"prompt": "Count.", "model": "composer"}));
    call(&mut client, "wait_for_agents", json!({}));
    assert!(argv(&place, &id).contains("grok-composer-2.5-fast"), "{}", argv(&place, &id));
    let spawned = call(&mut client, "spawn_grok_api", json!({"prompt": "Count."}));
    assert_eq!(spawned["model"], json!("grok-4.3"), "{spawned}");
}

/// Differs from powerspawn: the version of the tools | that of the program | `POWERSPAWN_VERSION`, else that of the
///    files in the project, else 1.6
#[test]
fn a_version_that_is_none_stops_the_server() {
    let place = Place::new(Vec::new());
    let mut command = place.command();
    let output =
        command.env("POWERSPAWN_VERSION", "new").stdin(std::process::Stdio::null()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("POWERSPAWN_VERSION is \"new\", which is not a version"), "{stderr}");
}

#[test]
fn agents_that_still_run_are_told_by_their_ids_the_oldest_first() {
    let place = Place::new(vec![Reply::hang().always()]);
    let mut client = place.serve();
    let ids: Vec<String> =
        (0..3).map(|_| spawn(&mut client, "spawn_mistral", json!({"prompt": "Wait."}))).collect();
    let waited = call(&mut client, "wait_for_agents", json!({"timeout": 1}));
    assert_eq!((&waited["status"], &waited["still_running"]), (&json!("timeout"), &json!(ids)), "{waited}");
    let listed = call(&mut client, "list", json!({}));
    let running: Vec<_> = listed["running"].as_array().unwrap().iter().map(|agent| &agent["id"]).collect();
    assert_eq!(json!(running), json!(ids), "{listed}");
    for id in &ids {
        place.stage.volery(["cancel", id]).ok();
        place.stage.ended(&place.run(id));
    }
    assert_eq!(call(&mut client, "list", json!({}))["completed_ids"], json!(ids));
}
