//! The whole surface from independent clients: `mcp` of PyPI in both generations, and the inspector of npm with its
//! strict rules. `scripts/setup-clients` installs them; without them these tests are skipped, loudly.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::stage::{Stage, said};

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

fn furnished() -> Stage {
    let stage = Stage::new();
    stage.rehearsal("greeter", "- say: good day, {prompt}", "");
    stage.rehearsal("slow", "- sleep: 60s", "");
    stage.rehearsal("asker", "- ask: which colour?", "");
    stage
}

fn python(test: &str, mode: &str) {
    let Some(python) = installed(test, cache().join("py/bin/python")) else { return };
    let stage = furnished();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients/whole_surface.py");
    let mut command = Command::new(python);
    command.arg(script).args([mode, env!("CARGO_BIN_EXE_volery")]).arg(stage.project());
    command.envs(stage.command(["serve"]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    let seen = said(command.output().unwrap()).ok().json();
    let wanted = json!({
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
        "templates": ["volery://agents/{name}", "volery://runs/{id}", "volery://runs/{id}/events{?from}"],
    });
    assert_eq!(seen, wanted);
}

#[test]
fn the_python_client_of_the_older_generation_drives_everything() {
    python("python legacy", "legacy");
}

#[test]
fn the_python_client_of_the_newer_generation_drives_everything() {
    python("python 2026-07-28", "2026-07-28");
}

fn inspector(stage: &Stage, arguments: &[&str]) -> Option<Value> {
    let node = installed("inspector", cache().join("node/bin/node"))?;
    let mut command = Command::new(node);
    command.arg(cache().join("node/bin/inspector")).args(["--cli", env!("CARGO_BIN_EXE_volery"), "serve"]);
    command.args(arguments).args(["--format", "json"]).current_dir(stage.project());
    command.envs(stage.command(["serve"]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = said(command.output().unwrap());
    Some(output.ok().json())
}

#[test]
fn the_inspector_finds_nothing_to_complain_about_in_either_generation() {
    let stage = furnished();
    for era in ["legacy", "modern"] {
        let listed = inspector(&stage, &["--protocol-era", era, "--method", "tools/list", "--strict"]);
        let Some(listed) = listed else { return };
        assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(9));
        let directory = format!("directory={}", stage.project().display());
        let call = [
            "--protocol-era",
            era,
            "--method",
            "tools/call",
            "--tool-name",
            "run_agent",
            "--tool-arg",
            "agent=greeter",
            "--tool-arg",
            "prompt=world",
            "--tool-arg",
            &directory,
        ];
        let called = inspector(&stage, &call).unwrap();
        assert_eq!(called["result"]["structuredContent"]["result"], json!("good day, world\n"), "{called}");
    }
}
