//! Differences between PowerSpawn 1.6 and 1.8, and how a server decides which one it replaces.

use std::fs;

use fake_llm::ScriptedReply;
use serde_json::json;

use super::{PowerspawnEnv, argv, call, install_fake_cli, spawn};
use crate::test_env::Client;

fn serve(powerspawn: &PowerspawnEnv, grok: &str, version: Option<&str>) -> Client {
    let mut command = powerspawn.command();
    command.env("GROK_BIN", grok).env("XAI_API_KEY", "dummy");
    command.envs(version.map(|version| ("POWERSPAWN_VERSION", version)));
    Client::start(command).initialize("claude-code")
}

/// Differs from powerspawn: `spawn_grok_cli` | no such tool | Grok's program in every version
#[test]
fn spawn_grok_is_the_program_since_1_8_and_the_api_before() {
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::say("ok").always()]);
    let grok = install_fake_cli(&powerspawn, "grok");
    for (version, backend, level) in [
        (None, "api-grok", json!(null)),
        (Some("1.6.2"), "api-grok", json!(null)),
        (Some("1.8.1"), "grok", json!("read-only")),
    ] {
        let mut client = serve(&powerspawn, &grok, version);
        let id = spawn(&mut client, "spawn_grok", json!({"prompt": "Count."}));
        let waited = call(&mut client, "wait_for_agents", json!({}));
        let result = call(&mut client, "result", json!({"agent_id": id}));
        assert_eq!((&result["result"], &result["agent_type"]), (&json!("ok"), &json!("grok")), "{waited}");
        let spec = powerspawn.env.spec(&powerspawn.run(&id));
        let found = (&spec["backend"]["kind"], &spec["setup"]["permission"]["level"]);
        assert_eq!(found, (&json!(backend), &level), "{version:?}");
    }
    let mut client = serve(&powerspawn, &grok, Some("1.8.1"));
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
fn agents_md_precedes_tasks_since_1_8_unless_configured_otherwise() {
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::say("ok").always()]);
    fs::write(powerspawn.env.project().join("AGENTS.md"), "Herons are grey.\n").unwrap();
    let grok = install_fake_cli(&powerspawn, "grok");
    let briefed = |version: &str| {
        let mut client = serve(&powerspawn, &grok, Some(version));
        spawn(&mut client, "spawn_grok_cli", json!({"prompt": "Count."}));
        call(&mut client, "wait_for_agents", json!({}));
        powerspawn
            .server
            .model_requests()
            .pop()
            .unwrap()
            .last_user_text()
            .contains("# Primary briefing (AGENTS.md)")
    };
    assert_eq!((briefed("1.6.2"), briefed("1.8.1")), (false, true));
    powerspawn.env.configure("[serve]\npowerspawn_agents_context = false\n");
    assert!(!briefed("1.8.1"));
}

#[test]
fn files_of_the_project_decide_version_and_models() {
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::say("ok").always()]);
    let models = json!({
        "grok": {"default": "grok-build", "aliases": {"composer": "grok-composer-2.5-fast"}},
        "grok-api": {"default": "grok-4.3", "aliases": {}},
    });
    fs::write(powerspawn.env.project().join("models.json"), models.to_string()).unwrap();
    let mut client = serve(&powerspawn, &install_fake_cli(&powerspawn, "grok"), None);
    let id = spawn(&mut client, "spawn_grok", json!({"prompt": "Count.", "model": "composer"}));
    call(&mut client, "wait_for_agents", json!({}));
    assert!(argv(&powerspawn, &id).contains("grok-composer-2.5-fast"), "{}", argv(&powerspawn, &id));
    let spawned = call(&mut client, "spawn_grok_api", json!({"prompt": "Count."}));
    assert_eq!(spawned["model"], json!("grok-4.3"), "{spawned}");
}

/// Differs from powerspawn: the version of the tools | that of the program | `POWERSPAWN_VERSION`, else that of the
///    files in the project, else 1.6
#[test]
fn an_invalid_version_stops_the_server() {
    let powerspawn = PowerspawnEnv::new(Vec::new());
    let mut command = powerspawn.command();
    let output =
        command.env("POWERSPAWN_VERSION", "new").stdin(std::process::Stdio::null()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    insta::assert_snapshot!(powerspawn.env.masked(&stderr), @r#"
    error: POWERSPAWN_VERSION is "new", which is not a version
    hint: write for example [version] or [version]
    "#);
}

#[test]
fn running_agents_are_listed_by_id_oldest_first() {
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::hang().always()]);
    let mut client = powerspawn.serve();
    let ids: Vec<String> =
        (0..3).map(|_| spawn(&mut client, "spawn_mistral", json!({"prompt": "Wait."}))).collect();
    let waited = call(&mut client, "wait_for_agents", json!({"timeout": 1}));
    assert_eq!((&waited["status"], &waited["still_running"]), (&json!("timeout"), &json!(ids)), "{waited}");
    let listed = call(&mut client, "list", json!({}));
    let running: Vec<_> = listed["running"].as_array().unwrap().iter().map(|agent| &agent["id"]).collect();
    assert_eq!(json!(running), json!(ids), "{listed}");
    for id in &ids {
        powerspawn.env.volery(["cancel", id]).ok();
        powerspawn.env.wait_for_end(&powerspawn.run(id));
    }
    assert_eq!(call(&mut client, "list", json!({}))["completed_ids"], json!(ids));
}
