//! The dialect of `codex mcp-server`, as far as no Codex is needed for it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::test_env::{Client, TestEnv};

/// Starts a server with a program named `codex` that fails at once.
fn serve(env: &TestEnv) -> Client {
    let bin = env.path("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::write(
        bin.join("codex"),
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 'codex-cli 0.166.0' && exit\nexit 9\n",
    )
    .unwrap();
    fs::set_permissions(bin.join("codex"), PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = env.command(["serve", "--dialect", "codex"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    Client::start(command).initialize("test")
}

fn call(client: &mut Client, arguments: Value) -> String {
    let result = client.request("tools/call", json!({"name": "codex", "arguments": arguments}));
    assert_eq!(result["isError"], json!(true), "{result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Differs from codex-mcp-server: the user's home or `/` as `cwd` | Codex edits there within its sandbox | refused unless the sandbox is
///    `read-only` or `danger-full-access`: it cannot be held to leave Volery's own files alone
#[test]
fn codex_may_not_edit_around_volerys_own_folders() {
    let env = TestEnv::new();
    let home = env.path("state").parent().unwrap().to_owned();
    let mut client = serve(&env);
    let refused = [home.as_path(), Path::new("/")].map(|directory| {
        call(&mut client, json!({"prompt": "x", "cwd": directory, "sandbox": "workspace-write"}))
    });
    insta::assert_snapshot!(env.masked(&refused.join("\n")), @"
    [stage] holds [stage]/state, where Volery keeps its own files: no agent may edit those
    hint: choose another directory, such as a project's; codex cannot be held to leave these files alone, and these can: claude, glm, claude-kimi; an agent that may only read works here too
    / holds [stage]/state, where Volery keeps its own files: no agent may edit those
    hint: choose another directory, such as a project's; codex cannot be held to leave these files alone, and these can: claude, glm, claude-kimi; an agent that may only read works here too
    ");
    assert_eq!(env.runs(), Vec::<String>::new());
    let started = call(&mut client, json!({"prompt": "x", "cwd": home, "sandbox": "read-only"}));
    assert!(!started.contains("own files"), "{started}");
    assert_eq!(env.runs().len(), 1);
}

/// Differs from codex-mcp-server: a `cwd` that does not exist | Codex fails when it starts | refused before anything starts, with the
///    path
/// Differs from codex-mcp-server: Codex that is not installed | is the server itself | an error that says what is missing
#[test]
fn a_call_that_cannot_run_is_refused_with_its_reason() {
    let env = TestEnv::new();
    let mut client = serve(&env);
    let refused = call(&mut client, json!({"prompt": "x", "cwd": "/does/not/exist"}));
    insta::assert_snapshot!(env.masked(&refused), @r#"
    the directory "/does/not/exist" does not exist
    hint: give the absolute path of an existing directory
    "#);
    fs::remove_file(env.path("bin/codex")).unwrap();
    let refused = call(&mut client, json!({"prompt": "x"}));
    insta::assert_snapshot!(env.masked(&refused), @r"
    agent codex needs codex, which is not on the PATH
    hint: install it: npm install -g @openai/codex; or give the agent another backend
    ");
    assert_eq!(env.runs(), Vec::<String>::new());
}
