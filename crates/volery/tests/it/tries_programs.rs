//! `volery doctor --live`: a program that keeps its contract is told from one that does not, and nothing is left.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::stage::{Client, Said, Stage, said};

/// Puts a program on the search path and asks the doctor, with a secret in the environment.
fn examined(stage: &Stage, name: &str, script: &str) -> Said {
    let bin = stage.path("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(stage.path("temporary")).unwrap();
    fs::write(bin.join(name), script).unwrap();
    fs::set_permissions(bin.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = stage.command(["doctor", "--live", "--json"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).env("TMPDIR", stage.path("temporary"));
    said(command.env("ANTHROPIC_API_KEY", "sk-of-the-user").output().unwrap())
}

fn check(report: &Value, name: &str) -> Value {
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == json!(name)).unwrap_or_else(|| panic!("{report}")).clone()
}

#[test]
fn and_tells_which_is_understood() {
    let stage = Stage::new();
    let words = "printf '%s\\n' '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"The contract is kept.\",\"session_id\":\"s\",\"usage\":{}}'";
    let kept = format!(
        "#!/bin/sh\nread line\necho \"$HOME $ANTHROPIC_API_KEY\" > '{}'\n{words}\n",
        stage.path("seen").display()
    );
    let told = examined(&stage, "claude", &kept);
    let found = check(&told.json(), "claude");
    assert!(found["found"].as_str().unwrap().contains("contract ok ("), "{found}");
    assert!(found["found"].as_str().unwrap().contains("a login in ANTHROPIC_API_KEY"), "{found}");
    let seen = fs::read_to_string(stage.path("seen")).unwrap();
    assert!(!told.stdout.contains("sk-of-the-user") && !seen.contains("sk-of-the-user"), "{told:?} {seen}");
    assert!(Path::new(seen.split(' ').next().unwrap()).starts_with(stage.path("temporary")), "{seen}");
    assert_eq!(fs::read_dir(stage.path("temporary")).unwrap().count(), 0, "something is left");
    assert_eq!(stage.runs(), Vec::<String>::new(), "the try is no run of the user's");
}

#[test]
fn and_shows_the_version_that_the_user_sees_and_counts_the_runs_that_ended() {
    let stage = Stage::new();
    let package = stage.path("npm/node_modules/@aaif/goose-binary-linux-x64");
    fs::create_dir_all(package.join("bin")).unwrap();
    fs::write(package.join("package.json"), r#"{"version": "0.20.1"}"#).unwrap();
    let program = package.join("bin/goose");
    fs::write(&program, "#!/bin/sh\necho ' 1.34.0'\n").unwrap();
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    fs::create_dir_all(stage.path("bin")).unwrap();
    std::os::unix::fs::symlink(&program, stage.path("bin/goose")).unwrap();
    stage.rehearsal("bird", "- say: x", "");
    for _ in 0..3 {
        stage.volery(["run", "bird", "x"]).ok();
    }
    let mut command = stage.command(["doctor", "--json"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", stage.path("bin").display()));
    let report = said(command.output().unwrap()).json();
    let goose = check(&report, "goose")["found"].as_str().unwrap().to_owned();
    assert!(goose.starts_with("1.34.0 (package 0.20.1) as "), "{goose}");
    assert_eq!(check(&report, "index")["found"], json!("3 ended runs"));
}

#[test]
fn and_tells_what_is_wrong_with_the_others() {
    let stage = Stage::new();
    let script = "#!/bin/sh\n[ \"$*\" = --version ] && echo 99.0.1 && exit\nread line\necho 'unknown option' >&2\nexit 0\n";
    let told = examined(&stage, "claude", script);
    assert_eq!(told.code, 1, "{told:?}");
    let found = check(&told.json(), "claude");
    assert_eq!(found["grade"], json!("broken"), "{found}");
    assert!(found["found"].as_str().unwrap().contains("contract broken: "), "{found}");
    assert!(found["found"].as_str().unwrap().contains("unknown option"), "{found}");
    let advice = found["advice"].as_str().unwrap();
    let doubt = "runs of claude would fail like this: claude 99.0.1 is newer than 2.1.325";
    assert!(advice.starts_with(doubt), "{found}");
}

#[test]
fn a_program_without_a_package_is_asked_for_its_version_once_in_an_empty_home() {
    let stage = Stage::new();
    let (bin, asked) = (stage.path("bin"), stage.path("asked"));
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(stage.path("temporary")).unwrap();
    let words = r#"{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s","usage":{}}"#;
    let script = format!(
        "#!/bin/sh\nif [ \"$*\" = --version ]; then\n\
         echo \"$HOME|$ANTHROPIC_API_KEY|$(cat)\" >> '{}'; touch \"$HOME/left\"; echo '99.0.1 (Claude Code)'; exit\nfi\n\
         read line; printf '%s\\n' '{words}'\n",
        asked.display()
    );
    fs::write(bin.join("claude"), script).unwrap();
    fs::set_permissions(bin.join("claude"), PermissionsExt::from_mode(0o755)).unwrap();
    stage.agent("worker", "backend: claude").agent("other", "backend: claude");
    let mut command = stage.command(["serve"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).env("TMPDIR", stage.path("temporary"));
    command.env("ANTHROPIC_API_KEY", "sk-of-the-user");
    let mut client = Client::start(command).initialize("test");
    for agent in ["worker", "other", "worker"] {
        let run =
            client.call("run_agent", json!({"agent": agent, "prompt": "go", "directory": stage.project()}));
        let warnings = run["warnings"].to_string();
        assert!(warnings.contains("claude 99.0.1 is newer than 2.1.325"), "{run}");
    }
    let told = fs::read_to_string(&asked).unwrap();
    assert_eq!(told.lines().count(), 1, "{told}");
    let (home, rest) = told.trim_end().split_once('|').unwrap();
    assert!(Path::new(home).starts_with(stage.path("temporary")) && rest == "|", "{told}");
    assert!(!Path::new(home).exists());
    let by_shell = || {
        let mut command = stage.command(["run", "worker", "go"]);
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        let said = said(command.stdin(Stdio::null()).output().unwrap()).ok();
        assert!(said.stderr.contains("claude 99.0.1 is newer than 2.1.325"), "{said:?}");
        fs::read_to_string(&asked).unwrap().lines().count()
    };
    assert_eq!((by_shell(), by_shell()), (1, 1), "another process knows the answer");
    let mut script = fs::read_to_string(bin.join("claude")).unwrap();
    script.push_str("# another version\n");
    fs::write(bin.join("claude"), script).unwrap();
    assert_eq!((by_shell(), by_shell()), (2, 2), "a program that has changed is asked again, once");
    fs::write(stage.path("state").join("versions.json"), "{no json").unwrap();
    assert_eq!((by_shell(), by_shell()), (3, 3), "answers that cannot be read are asked for again");
}
