//! Programs that are started: with which words, and how they end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use model_server::Reply;
use serde_json::json;

use super::{Place, call, spawn, stand_in};
use crate::stage::{Client, tagged};

/// Puts a script in the place of a vendor's program; `$RECORD` gets its words.
fn script(place: &Place, name: &str, version: &str, body: &str) -> PathBuf {
    let bin = place.stage.path("bin");
    fs::create_dir_all(&bin).unwrap();
    let record = place.stage.path(&format!("{name}.words"));
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo '{version}'; exit 0; }}\nRECORD='{}'\n\
         for word in \"$@\"; do printf '%s\\n' \"$word\" >> \"$RECORD\"; done\n{body}\n",
        record.display()
    );
    fs::write(bin.join(name), text).unwrap();
    fs::set_permissions(bin.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    record
}

fn serve(place: &Place, variables: &[(&str, &str)]) -> Client {
    let mut command = place.command();
    command.env("PATH", format!("{}:/usr/bin:/bin", place.stage.path("bin").display()));
    command.envs(variables.iter().copied());
    Client::start(command).initialize("t")
}

#[test]
fn a_time_out_leaves_nothing_of_a_program_that_will_not_go_and_the_server_lives() {
    let place = Place::new(Vec::new());
    let stubborn = "trap '' TERM INT HUP\n\
        setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' &\n\
        while :; do sleep 1; done";
    script(&place, "claude", "2.1.0 (Claude Code)", stubborn);
    let mut client = serve(&place, &[]);
    let id = spawn(&mut client, "spawn_claude", json!({"prompt": "Count.", "timeout": 2}));
    let waited = call(&mut client, "wait_for_agents", json!({"timeout": 60}));
    let result = &waited["results"][0];
    assert_eq!((&result["agent_id"], &result["success"]), (&json!(id), &json!(false)), "{waited}");
    assert!(result["error"].as_str().unwrap().starts_with("timed out"), "{result}");
    assert_eq!(tagged(place.stage.tag(&place.run(&id))), Vec::<u32>::new(), "nothing is left");
    assert!(place.iac().contains("❌ **Failed**: timed out"), "{}", place.iac());
    assert_eq!(call(&mut client, "list", json!({}))["completed_ids"], json!([id]), "the server lives");
}

#[test]
fn a_failure_is_said_once() {
    let place = Place::new(Vec::new());
    script(&place, "claude", "2.1.0 (Claude Code)", "exit 3");
    let mut client = serve(&place, &[]);
    spawn(&mut client, "spawn_claude", json!({"prompt": "Count."}));
    let waited = call(&mut client, "wait_for_agents", json!({}));
    let error = waited["results"][0]["error"].as_str().unwrap();
    assert!(!error.starts_with("failed"), "{error}");
    assert!(place.iac().contains(&format!("❌ **Failed**: {error} (")), "{}", place.iac());
}

#[test]
fn copilot_and_claude_are_given_the_documented_words() {
    let place = Place::new(Vec::new());
    let copilot = script(&place, "copilot", "1.0.102", "echo done");
    let claude = script(&place, "claude", "2.1.0 (Claude Code)", "exit 3");
    let mut client = serve(&place, &[]);
    spawn(&mut client, "spawn_copilot", json!({"prompt": "Count the herons."}));
    spawn(&mut client, "spawn_claude", json!({"prompt": "Count the herons.", "model": "opus"}));
    call(&mut client, "wait_for_agents", json!({}));
    let words = |record: &PathBuf| -> Vec<String> {
        fs::read_to_string(record).unwrap().lines().map(ToOwned::to_owned).collect()
    };
    let copilot = words(&copilot);
    let has = |words: &[String], word: &str| words.iter().any(|known| known == word);
    assert!(has(&copilot, "--model=gpt-5.1") && has(&copilot, "--allow-all"), "{copilot:?}");
    let claude = words(&claude);
    assert!(has(&claude, "-p") && has(&claude, "--model=opus"), "{claude:?}");
    assert!(has(&claude, "--tools=Bash,Read,Write,Edit,Glob,Grep"), "{claude:?}");
}

#[test]
fn seconds_are_seconds_in_every_time_zone() {
    let place = Place::new(vec![Reply::hang()]);
    let mut client = serve(&place, &[("TZ", "Asia/Tokyo")]);
    let id = spawn(&mut client, "spawn_mistral", json!({"prompt": "Count."}));
    let seconds = call(&mut client, "list", json!({}))["running"][0]["sec"].as_i64().unwrap();
    assert!((0..60).contains(&seconds), "{seconds}");
    let going = call(&mut client, "result", json!({"agent_id": id}));
    assert!((0..60).contains(&going["elapsed_seconds"].as_i64().unwrap()), "{going}");
    place.stage.volery(["cancel", &id]).ok();
    call(&mut client, "wait_for_agents", json!({}));
    let result = call(&mut client, "result", json!({"agent_id": id}));
    assert!(result["started_at"].as_str().unwrap().ends_with('Z'), "{result}");
}

/// Differs from powerspawn: a limit on what all programs may do | none | `[serve] powerspawn_permission`
#[test]
fn the_user_holds_all_programs_to_a_level_whatever_a_call_says() {
    let place = Place::new(vec![Reply::say("ok").always()]);
    let cursor = stand_in(&place, "cursor-agent");
    place.stage.configure("[serve]\npowerspawn_permission = \"safe-edit\"\n");
    script(&place, "claude", "2.1.0 (Claude Code)", "exit 3");
    let mut client = serve(&place, &[("CURSOR_AGENT_BIN", &cursor), ("CURSOR_API_KEY", "dummy")]);
    for (tool, ask) in [
        ("spawn_cursor", json!({"prompt": "x", "force": true})),
        ("spawn_claude", json!({"prompt": "x", "dangerously_skip_permissions": true})),
    ] {
        let spawned = call(&mut client, tool, ask);
        let Some(id) = spawned["agent_id"].as_str() else {
            // A program that cannot be held to it is not started.
            assert_eq!(spawned["error_type"], json!("PermissionError"), "{spawned}");
            continue;
        };
        call(&mut client, "wait_for_agents", json!({}));
        let level = &place.stage.spec(&place.run(id))["setup"]["permission"]["level"];
        assert_eq!(level, &json!("safe-edit"), "{tool}");
        let words = super::argv(&place, id);
        assert!(!words.contains("--force") && !words.contains("--dangerously-skip-permissions"), "{words}");
    }
}

/// Differs from powerspawn: the environment of an agent | all of the server's | all of the server's, without Volery's own variables
#[test]
fn the_servers_environment_and_its_users_servers_reach_claude() {
    let place = Place::new(Vec::new());
    let reached = place.stage.path("reached");
    let words =
        script(&place, "claude", "2.1.0 (Claude Code)", &format!("env > '{}'; exit 3", reached.display()));
    let mut client = serve(&place, &[("AVIARY_COLOUR", "blue"), ("VOLERY_SLOTS", "3")]);
    spawn(&mut client, "spawn_claude", json!({"prompt": "Count."}));
    call(&mut client, "wait_for_agents", json!({}));
    let reached = fs::read_to_string(reached).unwrap();
    assert!(reached.lines().any(|line| line == "AVIARY_COLOUR=blue"), "{reached}");
    assert!(!reached.contains("VOLERY_SLOTS"), "{reached}");
    let words = fs::read_to_string(words).unwrap();
    assert!(!words.contains("--strict-mcp-config"), "{words}");
}
