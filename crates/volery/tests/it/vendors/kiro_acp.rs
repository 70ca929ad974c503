//! Kiro by ACP, and any other agent of a configuration: a stand-in that follows the documented interface, with the
//! failures that its users report. It cannot be installed from a registry.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::stage::{PATIENCE, Said, Stage, said, tagged, wait_for};

/// Answers as `kiro-cli acp` does: loading an unknown session never ends, a word to stop is not heard, and the end of
/// its input neither.
const KIRO: &str = include_str!("kiro-cli.sh");

fn place() -> Stage {
    let stage = Stage::new();
    let program = stage.path("bin/kiro-cli");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::write(&program, KIRO).unwrap();
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    stage
}

fn volery(stage: &Stage, arguments: &[&str]) -> Said {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let bin = stage.path("bin");
    let path = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path))).unwrap();
    let mut command = stage.command(arguments);
    said(
        command
            .env("PATH", path)
            .env("BIRD_TOKEN", "a-secret-of-birds")
            .stdin(Stdio::null())
            .output()
            .unwrap(),
    )
}

fn heard(stage: &Stage, method: &str) -> Vec<Value> {
    let text = fs::read_to_string(stage.project().join("heard.jsonl")).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|message| message["method"] == method).collect()
}

#[test]
fn a_turn_with_its_own_server_a_model_and_a_denied_tool() {
    let stage = place();
    let servers = "mcp_servers:\n  aviary:\n    command: birds\n    env: {TOKEN: \"${BIRD_TOKEN}\"}";
    stage.agent(
        "bird",
        &format!("backend: acp-kiro\nmodel: large\npermission: read-only\ntimeout: 60s\n{servers}"),
    );
    assert_eq!(volery(&stage, &["trust", "--yes"]).code, 0);
    let run = volery(&stage, &["run", "bird", "Fly.", "--json"]).json();
    assert_eq!((&run["status"], &run["result"]), (&json!("succeeded"), &json!("It was no.")), "{run}");
    assert_eq!((&run["session"], &run["model"]), (&json!("k-1"), &json!("large")), "{run}");
    let server = &heard(&stage, "session/new")[0]["params"]["mcpServers"][0];
    assert_eq!(
        server["env"],
        json!([{"name": "TOKEN", "value": "a-secret-of-birds"}]),
        "the value is filled in"
    );
    let id = run["run_id"].as_str().unwrap();
    let record = fs::read_to_string(stage.run_dir(id).join("events.jsonl")).unwrap();
    assert!(!record.contains("a-secret-of-birds"), "{record}");
    let denied = "the level read-only does not allow it, set by the agent's definition";
    let warnings = run["warnings"].to_string();
    assert!(warnings.contains("denied: execute") && warnings.contains(denied), "{run}");
    assert_eq!(tagged(stage.tag(id)), Vec::<u32>::new(), "it does not leave by itself");
}

#[test]
fn a_variable_that_is_not_set_ends_the_run_before_its_turn() {
    let stage = place();
    let servers = "mcp_servers:\n  aviary:\n    command: birds\n    env: {TOKEN: \"${NO_SUCH_BIRD}\"}";
    stage.agent("bird", &format!("backend: acp-kiro\ntimeout: 60s\n{servers}"));
    assert_eq!(volery(&stage, &["trust", "--yes"]).code, 0);
    let run = volery(&stage, &["run", "bird", "Fly.", "--json"]).json();
    assert_eq!(run["status"], json!("failed"), "{run}");
    assert!(run["warnings"].to_string().contains("NO_SUCH_BIRD"), "{run}");
    assert_eq!(heard(&stage, "session/prompt"), Vec::<Value>::new());
}

#[test]
fn a_word_that_is_not_heard_is_followed_by_the_end() {
    let stage = place();
    stage.agent("bird", "backend: acp-kiro\ntimeout: 60s\ngrace: 1s");
    let id = volery(&stage, &["run", "bird", "Wait.", "--background"]).ok().stdout.trim().to_owned();
    wait_for(PATIENCE, "the turn", || heard(&stage, "session/prompt").pop());
    assert_eq!(volery(&stage, &["cancel", &id]).code, 0);
    assert_eq!(stage.ended(&id)["status"], json!("cancelled"));
    assert_eq!(heard(&stage, "session/cancel").len(), 1);
    assert_eq!(tagged(stage.tag(&id)), Vec::<u32>::new());
}

#[test]
fn a_session_that_is_never_loaded_ends_in_time() {
    let stage = place();
    stage.agent("bird", "backend: acp-kiro\npermission: yolo\ntimeout: 60s");
    volery(&stage, &["run", "bird", "Fly.", "--json"]).ok();
    let more = ["run", "bird", "Again.", "--session", "k-1", "--timeout", "1s", "--json"];
    let run = volery(&stage, &more).json();
    assert_eq!(run["status"], json!("timed_out"), "{run}");
    assert_eq!(heard(&stage, "session/load").len(), 1);
    let prompts = heard(&stage, "session/prompt").len();
    assert_eq!(prompts, 1, "no turn of another session is begun instead");
}

#[test]
fn any_command_of_the_configuration_may_speak_acp_and_its_level_is_not_taken_for_granted() {
    let stage = place();
    let program = stage.path("bin/kiro-cli").display().to_string();
    stage.configure(&format!("[backends.mine]\nprotocol = \"acp\"\ncommand = [{program:?}, \"acp\"]\n"));
    stage.agent("bird", "backend: mine\npermission: read-only\ntimeout: 60s");
    let refused = volery(&stage, &["run", "bird", "Fly."]);
    assert!(refused.code == 3 && refused.stderr.contains("the level read-only"), "{refused:?}");
    stage.agent("bird", "backend: mine\npermission: read-only\nunenforceable: warn\ntimeout: 60s");
    let run = volery(&stage, &["run", "bird", "Fly.", "--json"]).json();
    assert_eq!((&run["status"], &run["result"]), (&json!("succeeded"), &json!("It was no.")), "{run}");
}
