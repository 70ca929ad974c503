//! `volery doctor --live`: it distinguishes programs that fulfil their contract from others, and nothing is left.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::test_env::{Client, CommandOutput, TestEnv, command_output};

/// Puts a program on the search path and asks the doctor, with a secret in the environment.
fn examined(env: &TestEnv, name: &str, script: &str) -> CommandOutput {
    let bin = env.path("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(env.path("temporary")).unwrap();
    fs::write(bin.join(name), script).unwrap();
    fs::set_permissions(bin.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = env.command(["doctor", "--live", "--json"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).env("TMPDIR", env.path("temporary"));
    command_output(command.env("ANTHROPIC_API_KEY", "sk-of-the-user").output().unwrap())
}

fn check(report: &Value, name: &str) -> Value {
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == json!(name)).unwrap_or_else(|| panic!("{report}")).clone()
}

#[test]
fn and_tells_which_is_understood() {
    let env = TestEnv::new();
    let words = "printf '%s\\n' '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"The contract is kept.\",\"session_id\":\"s\",\"usage\":{}}'";
    let script = format!(
        "#!/bin/sh\nread line\necho \"$HOME $ANTHROPIC_API_KEY\" > '{}'\n{words}\n",
        env.path("seen").display()
    );
    let output = examined(&env, "claude", &script);
    let found = check(&output.json(), "claude");
    insta::assert_snapshot!(env.masked_texts(&found["found"]), @"of an unknown version, as [stage]/bin/claude; a login in ANTHROPIC_API_KEY; contract ok ([span])");
    let seen = fs::read_to_string(env.path("seen")).unwrap();
    assert!(
        !output.stdout.contains("sk-of-the-user") && !seen.contains("sk-of-the-user"),
        "{output:?} {seen}"
    );
    assert!(Path::new(seen.split(' ').next().unwrap()).starts_with(env.path("temporary")), "{seen}");
    assert_eq!(fs::read_dir(env.path("temporary")).unwrap().count(), 0, "something is left");
    assert_eq!(env.runs(), Vec::<String>::new(), "the try is no run of the user's");
}

#[test]
fn and_shows_the_version_that_the_user_sees_and_counts_the_runs_that_ended() {
    let env = TestEnv::new();
    let package = env.path("npm/node_modules/@aaif/goose-binary-linux-x64");
    fs::create_dir_all(package.join("bin")).unwrap();
    fs::write(package.join("package.json"), r#"{"version": "0.20.1"}"#).unwrap();
    let program = package.join("bin/goose");
    fs::write(&program, "#!/bin/sh\necho ' 1.34.0'\n").unwrap();
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    fs::create_dir_all(env.path("bin")).unwrap();
    std::os::unix::fs::symlink(&program, env.path("bin/goose")).unwrap();
    env.rehearsal("bird", "- say: x", "");
    for _ in 0..3 {
        env.volery(["run", "bird", "x"]).ok();
    }
    let mut command = env.command(["doctor", "--json"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", env.path("bin").display()));
    let report = command_output(command.output().unwrap()).json();
    let goose = check(&report, "goose")["found"].as_str().unwrap().to_owned();
    assert!(goose.starts_with("1.34.0 (package 0.20.1) as "), "{goose}");
    assert_eq!(check(&report, "index")["found"], json!("3 ended runs"));
}

#[test]
fn and_tells_what_is_wrong_with_the_others() {
    let env = TestEnv::new();
    let script = "#!/bin/sh\n[ \"$*\" = --version ] && echo 99.0.1 && exit\nread line\necho 'unknown option' >&2\nexit 0\n";
    let output = examined(&env, "claude", script);
    assert_eq!(output.code, 1, "{output:?}");
    let found = check(&output.json(), "claude");
    assert_eq!(found["grade"], json!("broken"), "{found}");
    insta::assert_snapshot!(env.masked_texts(&found["found"]), @"[version] as [stage]/bin/claude; a login in ANTHROPIC_API_KEY; contract broken: failed: the agent's output could not be used: the stream ended without its terminal event (unknown option)");
    insta::assert_snapshot!(env.masked_texts(&found["advice"]), @"runs of claude would fail like this: claude [version] is newer than [version], the newest that volery was tried with");
}

#[test]
fn a_program_without_a_package_is_run_for_its_version_once_in_an_empty_home() {
    let env = TestEnv::new();
    let (bin, version_calls) = (env.path("bin"), env.path("asked"));
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(env.path("temporary")).unwrap();
    let words = r#"{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s","usage":{}}"#;
    let script = format!(
        "#!/bin/sh\nif [ \"$*\" = --version ]; then\n\
         echo \"$HOME|$ANTHROPIC_API_KEY|$(cat)\" >> '{}'; touch \"$HOME/left\"; echo '99.0.1 (Claude Code)'; exit\nfi\n\
         read line; printf '%s\\n' '{words}'\n",
        version_calls.display()
    );
    fs::write(bin.join("claude"), script).unwrap();
    fs::set_permissions(bin.join("claude"), PermissionsExt::from_mode(0o755)).unwrap();
    env.agent("worker", "backend: claude").agent("other", "backend: claude");
    let mut command = env.command(["serve"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).env("TMPDIR", env.path("temporary"));
    command.env("ANTHROPIC_API_KEY", "sk-of-the-user");
    let mut client = Client::start(command).initialize("test");
    let mut messages = String::new();
    for agent in ["worker", "other", "worker"] {
        let run =
            client.call("run_agent", json!({"agent": agent, "prompt": "go", "directory": env.project()}));
        messages += &(env.masked_texts(&run["warnings"]) + "\n");
    }
    insta::assert_snapshot!(messages, @"
    claude [version] is newer than [version], the newest that volery was tried with
    claude [version] is newer than [version], the newest that volery was tried with
    claude [version] is newer than [version], the newest that volery was tried with
    ");
    let calls = fs::read_to_string(&version_calls).unwrap();
    assert_eq!(calls.lines().count(), 1, "{calls}");
    let (home, rest) = calls.trim_end().split_once('|').unwrap();
    assert!(Path::new(home).starts_with(env.path("temporary")) && rest == "|", "{calls}");
    assert!(!Path::new(home).exists());
    let by_shell = || {
        let mut command = env.command(["run", "worker", "go"]);
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        let output = command_output(command.stdin(Stdio::null()).output().unwrap()).ok();
        insta::allow_duplicates! {
            insta::assert_snapshot!(env.masked(&output.stderr), @"
            warning: claude [version] is newer than [version], the newest that volery was tried with
            [run-id] succeeded in [span]
            ");
        }
        fs::read_to_string(&version_calls).unwrap().lines().count()
    };
    assert_eq!((by_shell(), by_shell()), (1, 1), "another process knows the answer");
    let mut script = fs::read_to_string(bin.join("claude")).unwrap();
    script.push_str("# another version\n");
    fs::write(bin.join("claude"), script).unwrap();
    assert_eq!((by_shell(), by_shell()), (2, 2), "a program that has changed is asked again, once");
    fs::write(env.path("state").join("versions.json"), "{no json").unwrap();
    assert_eq!((by_shell(), by_shell()), (3, 3), "answers that cannot be read are asked for again");
}
