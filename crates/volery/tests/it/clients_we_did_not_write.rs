//! The whole surface from independent clients: `mcp` of PyPI in both generations, and the inspector of npm with its
//! strict rules. `scripts/setup-clients` installs them; without them these tests are skipped, loudly.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::test_env::{PATIENCE, TestEnv, command_output, wait_for};

fn cache() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache")
}

/// Returns the program if it was installed; else says so where skipped tests are counted.
fn installed(test: &str, program: PathBuf) -> Option<PathBuf> {
    if program.exists() {
        return Some(program);
    }
    let line = format!("{test}: {} is not installed; run scripts/setup-clients\n", program.display());
    if let Some(list) = std::env::var_os("VOLERY_TESTS_SKIPPED") {
        std::fs::OpenOptions::new().append(true).open(list).unwrap().write_all(line.as_bytes()).unwrap();
    }
    None
}

fn furnished() -> TestEnv {
    let env = TestEnv::new();
    env.people_answer();
    // The inspector hands its server few variables, so the server reads the configuration from its default path.
    let config = env.path("home/.config/volery");
    fs::create_dir_all(&config).unwrap();
    fs::copy(env.path("config/config.toml"), config.join("config.toml")).unwrap();
    env.rehearsal("greeter", "- say: good day, {prompt}", "");
    env.rehearsal("slow", "- sleep: 60s", "");
    env.rehearsal("asker", "- ask: which colour?", "");
    env
}

fn python(test: &str, mode: &str) {
    let Some(python) = installed(test, cache().join("py/bin/python")) else { return };
    let env = furnished();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients/whole_surface.py");
    let mut command = Command::new(python);
    command.arg(script).args([mode, env!("CARGO_BIN_EXE_volery")]).arg(env.project());
    command.envs(env.command(["serve"]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    let seen = command_output(command.output().unwrap()).ok().json();
    let expected = json!({
        "progress": true,
        "tools": ["answer_run", "cancel_run", "get_run", "health", "list_agents", "list_runs", "run_agent",
            "run_agents", "wait_runs"],
        "agents": ["asker", "greeter", "slow"],
        "result": "good day, world\n",
        "many": ["good day, a\n", "good day, b\n"],
        "handle_status": "running",
        "cancelled": "cancelled",
        "asked": "waiting",
        "answered": "blue\n",
        "events": "claimed",
        "listed": 5,
        "health": ["asker", "greeter", "slow"],
        "wrong": [true, true],
        "resources": ["volery://agents", "volery://agents/asker", "volery://agents/greeter", "volery://agents/slow"],
        "read": "succeeded",
        "templates": ["volery://agents/{name}", "volery://runs/{id}", "volery://runs/{id}/events{?from}", "volery://runs/{id}/result{?offset}"],
    });
    assert_eq!(seen, expected);
}

#[test]
fn the_python_client_of_the_older_generation_completes_every_step() {
    python("python legacy", "legacy");
}

#[test]
fn the_python_client_of_the_newer_generation_completes_every_step() {
    python("python 2026-07-28", "2026-07-28");
}

#[test]
fn a_client_without_a_name_of_its_own_that_waits_five_seconds_gets_its_handle() {
    let Some(python) = installed("python five seconds", cache().join("py/bin/python")) else { return };
    let env = furnished();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients/five_seconds.py");
    let mut command = Command::new(python);
    command.arg(script).arg(env!("CARGO_BIN_EXE_volery")).arg(env.project());
    command.envs(env.command(["serve"]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    let seen = command_output(command.output().unwrap()).ok().json();
    let in_time = json!(["running", true]);
    assert_eq!(seen, json!({"answers": [in_time, in_time, in_time]}));
    let spec = env.spec(&env.runs()[0]);
    assert_eq!(spec["caller"]["name"], json!("mcp"), "{spec}");
}

fn inspector(env: &TestEnv, arguments: &[&str]) -> Option<Value> {
    let node = installed("inspector", cache().join("node/bin/node"))?;
    let mut command = Command::new(node);
    command.arg(cache().join("node/bin/inspector")).args(["--cli", env!("CARGO_BIN_EXE_volery"), "serve"]);
    command.args(arguments).args(["--format", "json"]).current_dir(env.project());
    command.envs(env.command(["serve"]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command_output(command.output().unwrap());
    Some(output.ok().json())
}

/// Calls a tool through the inspector and returns its structured content.
fn inspect_call(env: &TestEnv, era: &str, tool: &str, arguments: &[String]) -> Value {
    let mut all = vec!["--protocol-era", era, "--method", "tools/call", "--tool-name", tool];
    for argument in arguments {
        all.extend(["--tool-arg", argument]);
    }
    let called = inspector(env, &all).expect("it was there before");
    assert_eq!(called["result"]["isError"].as_bool(), Some(false), "{tool}: {called}");
    called["result"]["structuredContent"].clone()
}

fn inspect_everything(era: &str) {
    let env = furnished();
    let method = |arguments: &[&str]| {
        let all = [&["--protocol-era", era, "--method"], arguments].concat();
        inspector(&env, &all)
    };
    let Some(listed) = method(&["tools/list", "--strict"]) else { return };
    assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(9));
    let resources = method(&["resources/list"]).unwrap();
    assert_eq!(resources["result"]["resources"].as_array().map(Vec::len), Some(4), "{resources}");
    let templates = method(&["resources/templates/list"]).unwrap();
    assert_eq!(templates["result"]["resourceTemplates"].as_array().map(Vec::len), Some(4), "{templates}");
    let read = method(&["resources/read", "--uri", "volery://agents/greeter"]).unwrap();
    assert!(read["result"]["contents"][0]["text"].as_str().unwrap().contains("greeter"), "{read}");

    let directory = format!("directory={}", env.project().display());
    let call = |tool: &str, arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        inspect_call(&env, era, tool, &arguments)
    };
    let agents = call("list_agents", &[&directory]);
    assert_eq!(agents["agents"].as_array().map(Vec::len), Some(3), "{agents}");
    let run = call("run_agent", &["agent=greeter", "prompt=world", &directory]);
    assert_eq!(run["result"], json!("good day, world\n"), "{run}");
    let one = |agent: &str| json!({"agent": agent, "prompt": "x", "directory": env.project()});
    let both = format!("runs={}", json!([one("greeter"), one("asker")]));
    let group = call("run_agents", &[&both, "wait_s=0"]);
    let ids: Vec<&str> =
        group["runs"].as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2, "{group}");
    let asker = format!("run_id={}", ids[1]);
    // The inspector hands its server few variables, so the state is at the default path below the test's home.
    wait_for(PATIENCE, "the question", || (call("get_run", &[&asker])["status"] == "waiting").then_some(()));
    let answered = call("answer_run", &[&asker, "text=blue"]);
    assert_eq!(answered["run_id"], json!(ids[1]));
    let waited = call("wait_runs", &[&format!("run_ids={}", json!(ids))]);
    assert_eq!(waited["runs"][1]["result"], json!("blue\n"), "{waited}");
    let slow = call("run_agent", &["agent=slow", "prompt=x", &directory, "wait_s=0"]);
    let slow = format!("run_id={}", slow["run_id"].as_str().unwrap());
    call("cancel_run", &[&slow]);
    let got = call("get_run", &[&slow]);
    assert_eq!(got["agent"], json!("slow"), "{got}");
    assert_eq!(call("list_runs", &[&directory])["runs"].as_array().map(Vec::len), Some(4));
    assert!(call("health", &[&directory])["agents"].is_array());
}

#[test]
fn the_inspector_completes_every_step_in_the_older_generation_and_finds_nothing_to_complain_about() {
    inspect_everything("legacy");
}

#[test]
fn the_inspector_completes_every_step_in_the_newer_generation_and_finds_nothing_to_complain_about() {
    inspect_everything("modern");
}
