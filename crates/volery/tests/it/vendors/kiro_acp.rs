//! Kiro by ACP, and any other configured ACP agent. No registry offers Kiro, so a fake `kiro-cli` follows the documented
//! interface and fails as its users report.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::test_env::{CommandOutput, PATIENCE, TestEnv, command_output, tagged, wait_for};

/// Answers as `kiro-cli acp` does: it never finishes loading an unknown session, and ignores both a cancel and the end
/// of its input.
const KIRO: &str = include_str!("kiro-cli.sh");

fn env_with_kiro() -> TestEnv {
    let env = TestEnv::new();
    let program = env.path("bin/kiro-cli");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::write(&program, KIRO).unwrap();
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    env
}

fn volery(env: &TestEnv, arguments: &[&str]) -> CommandOutput {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let bin = env.path("bin");
    let path = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path))).unwrap();
    let mut command = env.command(arguments);
    command_output(
        command
            .env("PATH", path)
            .env("BIRD_TOKEN", "a-secret-of-birds")
            .stdin(Stdio::null())
            .output()
            .unwrap(),
    )
}

fn received_messages(env: &TestEnv, method: &str) -> Vec<Value> {
    let text = fs::read_to_string(env.project().join("heard.jsonl")).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|message| message["method"] == method).collect()
}

#[test]
fn a_turn_with_its_own_server_a_model_and_a_denied_tool() {
    let env = env_with_kiro();
    let servers = "mcp_servers:\n  aviary:\n    command: birds\n    env: {TOKEN: \"${BIRD_TOKEN}\"}";
    env.agent(
        "bird",
        &format!("backend: acp-kiro\nmodel: large\npermission: read-only\ntimeout: 60s\n{servers}"),
    );
    assert_eq!(volery(&env, &["trust", "--yes"]).code, 0);
    let run = volery(&env, &["run", "bird", "Fly.", "--json"]).json();
    assert_eq!((&run["status"], &run["result"]), (&json!("succeeded"), &json!("It was no.")), "{run}");
    assert_eq!((&run["session"], &run["model"]), (&json!("k-1"), &json!("large")), "{run}");
    let server = &received_messages(&env, "session/new")[0]["params"]["mcpServers"][0];
    assert_eq!(
        server["env"],
        json!([{"name": "TOKEN", "value": "a-secret-of-birds"}]),
        "the value is filled in"
    );
    let id = run["run_id"].as_str().unwrap();
    let record = fs::read_to_string(env.run_dir(id).join("events.jsonl")).unwrap();
    assert!(!record.contains("a-secret-of-birds"), "{record}");
    insta::assert_snapshot!(env.masked_texts(&run["warnings"]), @"
    no tool of the MCP server aviary may be used: the level read-only does not allow it
    acp-kiro also starts the MCP servers of its own settings, if there are any
    ");
    assert_eq!(tagged(env.tag(id)), Vec::<u32>::new(), "it does not leave by itself");
}

#[test]
fn a_variable_that_is_not_set_ends_the_run_before_its_turn() {
    let env = env_with_kiro();
    let servers = "mcp_servers:\n  aviary:\n    command: birds\n    env: {TOKEN: \"${NO_SUCH_BIRD}\"}";
    env.agent("bird", &format!("backend: acp-kiro\ntimeout: 60s\n{servers}"));
    assert_eq!(volery(&env, &["trust", "--yes"]).code, 0);
    let run = volery(&env, &["run", "bird", "Fly.", "--json"]).json();
    assert_eq!(run["status"], json!("failed"), "{run}");
    insta::assert_snapshot!(env.masked_texts(&run["warnings"]), @"
    acp-kiro also starts the MCP servers of its own settings, if there are any
    these variables are needed and not set: NO_SUCH_BIRD
    ");
    assert_eq!(received_messages(&env, "session/prompt"), Vec::<Value>::new());
}

#[test]
fn an_agent_that_ignores_a_cancel_is_killed() {
    let env = env_with_kiro();
    env.agent("bird", "backend: acp-kiro\ntimeout: 60s\ngrace: 1s");
    let id = volery(&env, &["run", "bird", "Wait.", "--background"]).ok().stdout.trim().to_owned();
    wait_for(PATIENCE, "the turn", || received_messages(&env, "session/prompt").pop());
    assert_eq!(volery(&env, &["cancel", &id]).code, 0);
    assert_eq!(env.wait_for_end(&id)["status"], json!("cancelled"));
    assert_eq!(received_messages(&env, "session/cancel").len(), 1);
    assert_eq!(tagged(env.tag(&id)), Vec::<u32>::new());
}

#[test]
fn a_session_that_is_never_loaded_ends_in_time() {
    let env = env_with_kiro();
    env.agent("bird", "backend: acp-kiro\npermission: yolo\ntimeout: 60s");
    volery(&env, &["run", "bird", "Fly.", "--json"]).ok();
    let more = ["run", "bird", "Again.", "--session", "k-1", "--timeout", "1s", "--json"];
    let run = volery(&env, &more).json();
    assert_eq!(run["status"], json!("timed_out"), "{run}");
    assert_eq!(received_messages(&env, "session/load").len(), 1);
    let prompts = received_messages(&env, "session/prompt").len();
    assert_eq!(prompts, 1, "no turn of another session is begun instead");
}

#[test]
fn any_configured_command_may_use_acp_and_its_level_is_not_assumed_to_be_enforced() {
    let env = env_with_kiro();
    let program = env.path("bin/kiro-cli").display().to_string();
    env.configure(&format!("[backends.mine]\nprotocol = \"acp\"\ncommand = [{program:?}, \"acp\"]\n"));
    env.agent("bird", "backend: mine\npermission: read-only\ntimeout: 60s");
    let refused = volery(&env, &["run", "bird", "Fly."]);
    assert_eq!(refused.code, 3, "{refused:?}");
    insta::assert_snapshot!(env.masked(&refused.stderr), @"
    error: agent bird: the backend mine cannot enforce the level read-only
    hint: choose another backend, or write unenforceable: warn into the agent's file
    ");
    env.agent("bird", "backend: mine\npermission: read-only\nunenforceable: warn\ntimeout: 60s");
    env.volery(["trust", "--yes"]).ok();
    let run = volery(&env, &["run", "bird", "Fly.", "--json"]).json();
    assert_eq!((&run["status"], &run["result"]), (&json!("succeeded"), &json!("It was no.")), "{run}");
}
