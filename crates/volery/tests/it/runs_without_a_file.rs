//! A backend that is installed is an agent by its own name, without any file.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};

use crate::stage::{Client, Said, Stage, fake_agent, said};

/// Returns a command of a place in which only these programs are installed.
fn command(stage: &Stage, programs: &[&str], words: &[&str]) -> Command {
    let bin = stage.path("bin");
    std::fs::create_dir_all(&bin).unwrap();
    for program in programs {
        let path = bin.join(program);
        std::fs::write(&path, "#!/bin/sh\nexit 9\n").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut command = stage.command(words);
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    command
}

fn run(command: &mut Command) -> Said {
    said(command.stdin(std::process::Stdio::null()).output().unwrap())
}

fn names(list: &Value) -> Vec<(&str, bool)> {
    let agents = list["agents"].as_array().unwrap();
    let built_in = |agent: &Value| agent["built_in"].as_bool().unwrap_or_default();
    agents.iter().map(|agent| (agent["name"].as_str().unwrap(), built_in(agent))).collect()
}

#[test]
fn installed_programs_are_listed_last_and_marked() {
    let stage = Stage::new();
    stage.rehearsal("zoologist", "- say: Three herons.", "");
    let list = run(&mut command(&stage, &["gemini", "claude"], &["agents", "--json"])).ok().json();
    assert_eq!(names(&list), [("zoologist", false), ("claude", true), ("gemini", true)], "{list}");
    assert_eq!(list["diagnostics"], json!(null), "{list}");
    let table = run(&mut command(&stage, &[], &["agents"])).ok().stdout;
    assert!(table.lines().any(|line| line.starts_with("claude") && line.contains("built in")), "{table}");
    // Claude Code with the service of another vendor, once its key is there.
    let mut with_key = command(&stage, &[], &["agents", "--json"]);
    let list = run(with_key.env("ZAI_API_KEY", "x")).ok().json();
    assert!(names(&list).contains(&("glm", true)), "{list}");
    let page = run(&mut command(&stage, &[], &["agents", "show", "claude"])).ok().stdout;
    assert!(page.contains("this agent is built in"), "{page}");
    let client =
        Client::start(command(&stage, &[], &["serve"])).initialize("it").call("list_agents", json!({}));
    assert_eq!(names(&client), [("zoologist", false), ("claude", true), ("gemini", true)], "{client}");
}

#[test]
fn an_agent_of_the_project_has_the_name_of_a_backend() {
    let stage = Stage::new();
    stage.rehearsal("claude", "- say: I am the project's.", "");
    let list = run(&mut command(&stage, &["claude"], &["agents", "--json"])).ok().json();
    assert_eq!(names(&list), [("claude", false)], "{list}");
    assert_eq!(run(&mut command(&stage, &[], &["run", "claude", "hi"])).ok().stdout, "I am the project's.\n");
    // Whoever asks for the name means the file, also when it is broken.
    stage.agent("claude", "backend: [");
    let refused = run(&mut command(&stage, &[], &["run", "claude", "hi"])).exits(5).stderr;
    assert!(refused.contains("its file has a problem"), "{refused}");
}

#[test]
fn a_command_of_the_configuration_runs_by_its_name() {
    let stage = Stage::new();
    stage.backend("heron", &[fake_agent().to_str().unwrap(), "say:Three herons."]);
    assert_eq!(run(&mut command(&stage, &[], &["run", "heron", "Count."])).ok().stdout, "Three herons.\n");
    let spec = stage.spec(&stage.only_run());
    assert_eq!((&spec["agent"], &spec["source"]), (&json!("heron"), &json!("(built in)")));
    let mut client = Client::start(command(&stage, &[], &["serve"])).initialize("it");
    let answer = client.call("run_agent", json!({"agent": "heron", "prompt": "Count."}));
    assert_eq!(answer["result"], "Three herons.\n", "{answer}");
}

#[test]
fn a_program_that_is_not_installed_is_named() {
    let stage = Stage::new();
    let refused = run(&mut command(&stage, &[], &["run", "claude", "hi"])).exits(5).stderr;
    assert!(refused.contains("install claude and put it on the PATH"), "{refused}");
    let refused = run(&mut command(&stage, &["codex"], &["run", "codx", "hi"])).exits(5).stderr;
    assert!(refused.contains("did you mean codex?"), "{refused}");
}
