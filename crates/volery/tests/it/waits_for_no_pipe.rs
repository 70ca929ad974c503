//! A named pipe in place of a file is refused: no command waits for a writer.

use std::path::Path;
use std::process::Stdio;

use rustix::fs::{CWD, FileType, Mode};
use serde_json::json;

use crate::test_env::{CommandOutput, PATIENCE, TestEnv, command_output};

/// Agents and settings of the project, with the files that they need.
const IN_PROJECT: [&str; 22] = [
    ".volery/agents/p.md",
    ".claude/agents/p.md",
    ".claude/agents/below/p.md",
    ".cursor/agents/p.md",
    ".gemini/agents/p.md",
    ".github/agents/p.md",
    ".opencode/agent/p.md",
    ".agents/p.md",
    ".ai/directives/p.md",
    ".codex/agents/p.toml",
    ".kiro/agents/p.json",
    ".kiro/sub-agents/prompts/k.md",
    ".kiro/sub-agents/prompts/_system.md",
    "agents/p/agent.md",
    "agents/x/memory.md",
    "agents/x/skills/a.md",
    ".claude/settings.json",
    ".gemini/settings.json",
    ".qwen/settings.json",
    "opencode.json",
    ".gemini/.env",
    ".qwen/.env",
];

fn make_pipe(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// Runs a command that must come to an end by itself.
fn ends(env: &TestEnv, words: &[&str]) -> CommandOutput {
    let mut command = env.command(words);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let before = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() && before.elapsed() < PATIENCE {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let ended = child.try_wait().unwrap().is_some();
    if !ended {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert!(ended, "{words:?} waits: {output:?}");
    command_output(output)
}

fn env() -> TestEnv {
    let env = TestEnv::new();
    env.rehearsal("fine", "- say: fine", "");
    let files = [
        ("agents/x/agent.md", "---\nname: x\ndescription: d\n---\nOwn.\n"),
        (".kiro/agents/k.json", r#"{"name": "k", "description": "sub-agent: d"}"#),
    ];
    for (file, text) in files {
        let path = env.project().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    env
}

#[test]
fn a_pipe_among_agents_and_settings_is_named_and_holds_nothing_up() {
    let mut messages = String::new();
    let env = env();
    for file in IN_PROJECT {
        let path = env.project().join(file);
        make_pipe(&path);
        let checked = ends(&env, &["agents", "check"]).stdout;
        messages += &env.masked(&checked);
        assert_eq!(ends(&env, &["run", "fine", "go"]).ok().stdout, "fine\n", "{file}");
        std::fs::remove_file(&path).unwrap();
    }
    insta::assert_snapshot!("agents_and_settings", messages);
}

#[test]
fn a_server_answers_whatever_becomes_a_pipe_meanwhile() {
    let env = env();
    let mut client = env.serve().initialize("it");
    for file in IN_PROJECT {
        make_pipe(&env.project().join(file));
    }
    let listed = client.call("list_agents", json!({"directory": env.project()}));
    let names: Vec<&str> =
        listed["agents"].as_array().unwrap().iter().map(|agent| agent["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["fine", "k", "x"], "{listed}");
    let run = json!({"directory": env.project(), "agent": "fine", "prompt": "go"});
    let answered = client.call("run_agent", run);
    assert_eq!(answered["result"], "fine\n", "{answered}");
}

#[test]
fn a_pipe_as_configuration_starts_nothing_and_says_so() {
    let env = env();
    let mut messages = String::new();
    for path in [env.project().join(".volery/config.toml"), env.path("config/config.toml")] {
        make_pipe(&path);
        let checked = ends(&env, &["agents", "check"]).exits(1).stdout;
        messages += &env.masked(&checked);
        let refused = ends(&env, &["run", "fine", "go"]).exits(2).stderr;
        messages += &env.masked(&refused);
        std::fs::remove_file(&path).unwrap();
    }
    insta::assert_snapshot!(messages, @"
    .volery/config.toml: error: could not read it: it is no regular file
    error: the configuration has errors, so nothing is started:
      [stage]/project/.volery/config.toml: error: could not read it: it is no regular file
    hint: `volery agents check` lists everything that is wrong
    [stage]/config/config.toml: error: could not read it: it is no regular file
    error: the configuration has errors, so nothing is started:
      [stage]/config/config.toml: error: could not read it: it is no regular file
    hint: `volery agents check` lists everything that is wrong
    ");
    let path = env.path("home/.claude/agents/p.md");
    make_pipe(&path);
    let checked = ends(&env, &["agents", "check"]).stdout;
    insta::assert_snapshot!(env.masked(&checked), @"~/.claude/agents/p.md: error: could not read it: it is no regular file");
}

#[test]
fn a_pipe_as_script_of_a_rehearsal_fails_its_run_alone() {
    let env = TestEnv::new();
    env.agent("scripted", "backend: rehearsal\nscript: steps.yaml");
    make_pipe(&env.project().join(".volery/agents/steps.yaml"));
    let failed = ends(&env, &["run", "scripted", "go"]).exits(1).stderr;
    insta::assert_snapshot!(env.masked(&failed), @"
    [run-id] failed: the agent reports: the script steps.yaml could not be read; `volery agents check` tells why, after [span]
    hint: volery show [run-id] tells all that is known about it
    ");
}
