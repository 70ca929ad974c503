//! Programs that a call starts: their arguments and their ends.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use fake_llm::ScriptedReply;
use serde_json::json;

use super::{PowerspawnEnv, call, install_fake_cli, newest_result, spawn};
use crate::test_env::{Client, tagged};

/// Installs a script under the name of a vendor's program and returns the file that gets its arguments.
fn script(powerspawn: &PowerspawnEnv, name: &str, version: &str, body: &str) -> PathBuf {
    let bin = powerspawn.env.path("bin");
    fs::create_dir_all(&bin).unwrap();
    let record = powerspawn.env.path(&format!("{name}.words"));
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo '{version}'; exit 0; }}\nRECORD='{}'\n\
         for word in \"$@\"; do printf '%s\\n' \"$word\" >> \"$RECORD\"; done\n{body}\n",
        record.display()
    );
    fs::write(bin.join(name), text).unwrap();
    fs::set_permissions(bin.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    record
}

fn serve(powerspawn: &PowerspawnEnv, variables: &[(&str, &str)]) -> Client {
    let mut command = powerspawn.command();
    command.env("PATH", format!("{}:/usr/bin:/bin", powerspawn.env.path("bin").display()));
    command.envs(variables.iter().copied());
    Client::start(command).initialize("t")
}

#[test]
fn a_time_out_kills_a_program_that_ignores_signals_and_not_the_server() {
    let powerspawn = PowerspawnEnv::new(Vec::new());
    let stubborn = "trap '' TERM INT HUP\n\
        setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' &\n\
        while :; do sleep 1; done";
    script(&powerspawn, "claude", "2.1.0 (Claude Code)", stubborn);
    let mut client = serve(&powerspawn, &[]);
    let id = spawn(&mut client, "spawn_claude", json!({"prompt": "Count.", "timeout": 2}));
    let waited = call(&mut client, "wait_for_agents", json!({"timeout": 60}));
    let result = newest_result(&waited);
    assert_eq!((&result["agent_id"], &result["success"]), (&json!(id), &json!(false)), "{waited}");
    assert!(result["error"].as_str().unwrap().starts_with("timed out"), "{result}");
    assert_eq!(tagged(powerspawn.env.tag(&powerspawn.run(&id))), Vec::<u32>::new(), "nothing is left");
    assert!(powerspawn.iac().contains("❌ **Failed**: timed out"), "{}", powerspawn.iac());
    assert_eq!(call(&mut client, "list", json!({}))["completed_ids"], json!([id]), "the server lives");
}

#[test]
fn a_failure_is_reported_once() {
    let powerspawn = PowerspawnEnv::new(Vec::new());
    script(&powerspawn, "claude", "2.1.0 (Claude Code)", "exit 3");
    let mut client = serve(&powerspawn, &[]);
    spawn(&mut client, "spawn_claude", json!({"prompt": "Count."}));
    let waited = call(&mut client, "wait_for_agents", json!({}));
    let error = newest_result(&waited)["error"].as_str().unwrap();
    assert!(!error.starts_with("failed"), "{error}");
    assert!(powerspawn.iac().contains(&format!("❌ **Failed**: {error} (")), "{}", powerspawn.iac());
}

/// Differs from powerspawn: the user's MCP servers and settings for Copilot | Copilot loads them | withheld: `notes` in the answer says so
#[test]
fn the_answer_of_copilot_names_what_its_user_has_and_it_has_not() {
    let powerspawn = PowerspawnEnv::new(Vec::new());
    script(&powerspawn, "copilot", "1.0.102", "exit 3");
    let mut client = serve(&powerspawn, &[]);
    spawn(&mut client, "spawn_copilot", json!({"prompt": "Count the herons."}));
    let waited = call(&mut client, "wait_for_agents", json!({}));
    insta::assert_snapshot!(powerspawn.env.masked_texts(&newest_result(&waited)["notes"]), @"
    withheld: the user's MCP servers: copilot runs with what its agent's definition gives it
    withheld: the user's settings and allow rules: copilot runs with what its agent's definition gives it
    ");
}

#[test]
fn copilot_and_claude_get_the_documented_arguments() {
    let powerspawn = PowerspawnEnv::new(Vec::new());
    let copilot = script(&powerspawn, "copilot", "1.0.102", "echo done");
    let claude = script(&powerspawn, "claude", "2.1.0 (Claude Code)", "exit 3");
    let mut client = serve(&powerspawn, &[]);
    spawn(&mut client, "spawn_copilot", json!({"prompt": "Count the herons."}));
    spawn(&mut client, "spawn_claude", json!({"prompt": "Count the herons.", "model": "opus"}));
    call(&mut client, "wait_for_agents", json!({}));
    let read_arguments = |record: &PathBuf| -> Vec<String> {
        fs::read_to_string(record).unwrap().lines().map(ToOwned::to_owned).collect()
    };
    let copilot = read_arguments(&copilot);
    let has = |arguments: &[String], argument: &str| arguments.iter().any(|known| known == argument);
    assert!(has(&copilot, "--model=gpt-5.1") && has(&copilot, "--allow-all"), "{copilot:?}");
    let claude = read_arguments(&claude);
    assert!(has(&claude, "-p") && has(&claude, "--model=opus"), "{claude:?}");
    assert!(has(&claude, "--tools=Bash,Read,Write,Edit,Glob,Grep"), "{claude:?}");
}

#[test]
fn seconds_are_seconds_in_every_time_zone() {
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::hang()]);
    let mut client = serve(&powerspawn, &[("TZ", "Asia/Tokyo")]);
    let id = spawn(&mut client, "spawn_mistral", json!({"prompt": "Count."}));
    let seconds = call(&mut client, "list", json!({}))["running"][0]["sec"].as_i64().unwrap();
    assert!((0..60).contains(&seconds), "{seconds}");
    let going = call(&mut client, "result", json!({"agent_id": id}));
    assert!((0..60).contains(&going["elapsed_seconds"].as_i64().unwrap()), "{going}");
    powerspawn.env.volery(["cancel", &id]).ok();
    call(&mut client, "wait_for_agents", json!({}));
    let result = call(&mut client, "result", json!({"agent_id": id}));
    assert!(result["started_at"].as_str().unwrap().ends_with('Z'), "{result}");
}

/// Differs from powerspawn: a limit on what all programs may do | none | `[serve] powerspawn_permission`
#[test]
fn the_configured_level_limits_every_call() {
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::say("ok").always()]);
    let cursor = install_fake_cli(&powerspawn, "cursor-agent");
    powerspawn.env.configure("[serve]\npowerspawn_permission = \"safe-edit\"\n");
    script(&powerspawn, "claude", "2.1.0 (Claude Code)", "exit 3");
    let mut client = serve(&powerspawn, &[("CURSOR_AGENT_BIN", &cursor), ("CURSOR_API_KEY", "dummy")]);
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
        let level = &powerspawn.env.spec(&powerspawn.run(id))["setup"]["permission"]["level"];
        assert_eq!(level, &json!("safe-edit"), "{tool}");
        let command_line = super::argv(&powerspawn, id);
        assert!(
            !command_line.contains("--force") && !command_line.contains("--dangerously-skip-permissions"),
            "{command_line}"
        );
    }
}

/// Differs from powerspawn: the environment of an agent | all of the server's | all of the server's, without Volery's own variables
#[test]
fn the_servers_environment_and_its_users_servers_reach_claude() {
    let powerspawn = PowerspawnEnv::new(Vec::new());
    let reached = powerspawn.env.path("reached");
    let record = script(
        &powerspawn,
        "claude",
        "2.1.0 (Claude Code)",
        &format!("env > '{}'; exit 3", reached.display()),
    );
    let mut client = serve(&powerspawn, &[("AVIARY_COLOUR", "blue"), ("VOLERY_SLOTS", "3")]);
    spawn(&mut client, "spawn_claude", json!({"prompt": "Count."}));
    call(&mut client, "wait_for_agents", json!({}));
    let reached = fs::read_to_string(reached).unwrap();
    assert!(reached.lines().any(|line| line == "AVIARY_COLOUR=blue"), "{reached}");
    assert!(!reached.contains("VOLERY_SLOTS"), "{reached}");
    let arguments = fs::read_to_string(record).unwrap();
    assert!(!arguments.contains("--strict-mcp-config"), "{arguments}");
}
