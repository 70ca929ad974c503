//! The dialect of `codex mcp-server`, as far as no Codex is needed for it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::stage::{Client, Stage};

/// A place with a program that is called like Codex and fails at once.
fn serve(stage: &Stage) -> Client {
    let bin = stage.path("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::write(
        bin.join("codex"),
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 'codex-cli 0.166.0' && exit\nexit 9\n",
    )
    .unwrap();
    fs::set_permissions(bin.join("codex"), PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = stage.command(["serve", "--dialect", "codex"]);
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
fn codex_is_not_let_edit_around_volerys_own_folders() {
    let stage = Stage::new();
    let home = stage.path("state").parent().unwrap().to_owned();
    let mut client = serve(&stage);
    for place in [home.as_path(), Path::new("/")] {
        let refused = call(&mut client, json!({"prompt": "x", "cwd": place, "sandbox": "workspace-write"}));
        assert!(refused.contains("where Volery keeps its own files"), "{refused}");
        assert!(refused.contains("codex cannot be held to leave these files alone"), "{refused}");
    }
    assert_eq!(stage.runs(), Vec::<String>::new());
    let started = call(&mut client, json!({"prompt": "x", "cwd": home, "sandbox": "read-only"}));
    assert!(!started.contains("own files"), "{started}");
    assert_eq!(stage.runs().len(), 1);
}

/// Differs from codex-mcp-server: a `cwd` that does not exist | Codex fails when it starts | refused before anything starts, with the
///    path
/// Differs from codex-mcp-server: Codex that is not installed | is the server itself | an error that says what is missing
#[test]
fn what_cannot_be_run_is_refused_with_its_reason() {
    let stage = Stage::new();
    let mut client = serve(&stage);
    let refused = call(&mut client, json!({"prompt": "x", "cwd": "/does/not/exist"}));
    assert!(refused.contains("/does/not/exist"), "{refused}");
    fs::remove_file(stage.path("bin/codex")).unwrap();
    let refused = call(&mut client, json!({"prompt": "x"}));
    assert!(refused.contains("needs codex, which is not on the PATH"), "{refused}");
    assert_eq!(stage.runs(), Vec::<String>::new());
}
