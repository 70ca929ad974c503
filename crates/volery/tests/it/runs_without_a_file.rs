//! A backend that is installed is an agent by its own name, without any file.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};

use crate::test_env::{Client, CommandOutput, TestEnv, command_output, fake_agent, first_paragraph};

/// Returns a command of a test environment in which only these programs are installed.
fn command(env: &TestEnv, programs: &[&str], words: &[&str]) -> Command {
    let bin = env.path("bin");
    std::fs::create_dir_all(&bin).unwrap();
    for program in programs {
        let path = bin.join(program);
        std::fs::write(&path, "#!/bin/sh\nexit 9\n").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut command = env.command(words);
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    command
}

fn run(command: &mut Command) -> CommandOutput {
    command_output(command.stdin(std::process::Stdio::null()).output().unwrap())
}

fn names(list: &Value) -> Vec<(&str, bool)> {
    let agents = list["agents"].as_array().unwrap();
    let built_in = |agent: &Value| agent["built_in"].as_bool().unwrap_or_default();
    agents.iter().map(|agent| (agent["name"].as_str().unwrap(), built_in(agent))).collect()
}

#[test]
fn installed_programs_are_listed_last_and_marked() {
    let env = TestEnv::new();
    env.rehearsal("zoologist", "- say: Three herons.", "");
    let list = run(&mut command(&env, &["gemini", "claude"], &["agents", "--json"])).ok().json();
    assert_eq!(names(&list), [("zoologist", false), ("claude", true), ("gemini", true)], "{list}");
    assert_eq!(list["diagnostics"], json!(null), "{list}");
    let table = run(&mut command(&env, &[], &["agents"])).ok().stdout;
    insta::assert_snapshot!(env.masked(&table), @"
    AGENT      BACKEND    MODEL  FORMAT    STATE            FILE                         DESCRIPTION
    zoologist  rehearsal  -      volery    ready            .volery/agents/zoologist.md  for a test
    claude     claude     -      built in  no login         -                            General purpose: claude as it is installed here, without instructions of its own.
    gemini     gemini     -      built in  login not known  -                            General purpose: gemini as it is installed here, without instructions of its own.
    ");
    // Claude Code with the service of another vendor, once its key is there.
    let mut with_key = command(&env, &[], &["agents", "--json"]);
    let list = run(with_key.env("ZAI_API_KEY", "x")).ok().json();
    assert!(names(&list).contains(&("glm", true)), "{list}");
    let page = run(&mut command(&env, &[], &["agents", "show", "claude"])).ok().stdout;
    insta::assert_snapshot!(env.masked(first_paragraph(&page)), @r#"
    agent       claude
    description General purpose: claude as it is installed here, without instructions of its own.
    file        none: this agent is built in, since its program is installed or configured
    backend     claude
    model       the backend's default
    settings    callers: "anyone"
                containment: "auto"
                delegates: "nobody"
                on_interrupt: "end"
    warning     claude does not tell its version (asked with --version, it exits with 9); [version] to [version] is what volery fits
    "#);
    let client =
        Client::start(command(&env, &[], &["serve"])).initialize("it").call("list_agents", json!({}));
    assert_eq!(names(&client), [("zoologist", false), ("claude", true), ("gemini", true)], "{client}");
}

#[test]
fn an_agent_of_the_project_has_the_name_of_a_backend() {
    let env = TestEnv::new();
    env.rehearsal("claude", "- say: I am the project's.", "");
    let list = run(&mut command(&env, &["claude"], &["agents", "--json"])).ok().json();
    assert_eq!(names(&list), [("claude", false)], "{list}");
    assert_eq!(run(&mut command(&env, &[], &["run", "claude", "hi"])).ok().stdout, "I am the project's.\n");
    // Whoever asks for the name means the file, also when it is broken.
    env.agent("claude", "backend: [");
    let refused = run(&mut command(&env, &[], &["run", "claude", "hi"])).exits(5).stderr;
    insta::assert_snapshot!(env.masked(&refused), @r"
    error: agent claude cannot be used: .volery/agents/claude.md:3:10: not valid YAML: unclosed bracket '['
    hint: `volery agents check` lists everything that is wrong
    ");
}

#[test]
fn a_command_of_the_configuration_runs_by_its_name() {
    let env = TestEnv::new();
    env.backend("heron", &[fake_agent().to_str().unwrap(), "say:Three herons."]);
    assert_eq!(run(&mut command(&env, &[], &["run", "heron", "Count."])).ok().stdout, "Three herons.\n");
    let spec = env.spec(&env.only_run());
    assert_eq!((&spec["agent"], &spec["source"]), (&json!("heron"), &json!("(built in)")));
    let mut client = Client::start(command(&env, &[], &["serve"])).initialize("it");
    let answer = client.call("run_agent", json!({"agent": "heron", "prompt": "Count."}));
    assert_eq!(answer["result"], "Three herons.\n", "{answer}");
}

#[test]
fn a_program_that_is_not_installed_is_named() {
    let env = TestEnv::new();
    let refused = run(&mut command(&env, &[], &["run", "claude", "hi"])).exits(5).stderr;
    insta::assert_snapshot!(env.masked(&refused), @r"
    error: there is no agent claude in [stage]/project
    hint: install its program: npm install -g @anthropic-ai/claude-code; then claude is a built-in agent
    ");
    let refused = run(&mut command(&env, &["codex"], &["run", "codx", "hi"])).exits(5).stderr;
    insta::assert_snapshot!(env.masked(&refused), @"
    error: there is no agent codx in [stage]/project
    hint: did you mean codex? Available: codex
    ");
}

#[test]
fn without_any_agent_the_list_says_how_to_get_one() {
    let env = TestEnv::new();
    let mut command = command(&env, &[], &["agents"]);
    let listed = run(command.env("PATH", "/nowhere")).ok().stderr;
    insta::assert_snapshot!(env.masked(&listed), @r"
    no agents in [stage]/project
    hint: every installed agent program is an agent: volery doctor says how to install one; npm install -g @anthropic-ai/claude-code installs Claude Code
    hint: volery agents new NAME writes one; volery demo shows how agents work
    ");
}

#[test]
fn a_model_service_without_a_model_is_refused_before_anything_starts() {
    let env = TestEnv::new();
    env.agent("thinker", "backend: api-openai");
    let refused = env.volery(["run", "thinker", "hi"]).exits(2).stderr;
    insta::assert_snapshot!(env.masked(&refused), @"
    error: agent thinker needs a model, because api-openai has no default
    hint: add `model: NAME` to the agent's file, or use --model NAME; OPENAI_API_KEY holds the service's key
    ");
    assert_eq!(env.runs(), Vec::<String>::new());
}

#[test]
fn the_path_of_an_agents_file_suggests_the_agents_name() {
    let env = TestEnv::new();
    env.rehearsal("greeter", "- say: hello", "");
    for path in ["./greeter.md", ".volery/agents/greeter.md"] {
        let refused = env.volery(["run", path, "hi"]).exits(2).stderr;
        assert!(refused.ends_with("\nhint: did you mean greeter?\n"), "{refused}");
    }
}
