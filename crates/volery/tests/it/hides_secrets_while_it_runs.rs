//! The output shown for a live run contains no secrets either.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::test_env::{PATIENCE, TestEnv, command_output, wait_for};

#[test]
fn a_watcher_sees_masks_instead_of_secrets() {
    let env = TestEnv::new();
    let go = env.path("go");
    env.fake("teller", &["env", &format!("wait-file:{}", go.display())], "env: [TELLER_TOKEN]");
    let _trusted = env.volery(["trust", "--yes"]).ok();
    let mut command = env.command(["run", "teller", "tell", "--background"]);
    let id = command_output(command.env("TELLER_TOKEN", "rather-secret").output().unwrap()).ok().stdout;
    let id = id.trim();

    let socket = env.path("state").join(format!("sockets/{:x}", env.tag(id)));
    let mut stream = wait_for(PATIENCE, "the run's socket", || UnixStream::connect(&socket).ok());
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"{\"word\":\"watch\"}\n").unwrap();
    let seen = BufReader::new(stream).lines().map(Result::unwrap).find(|line| line.contains("TELLER_TOKEN="));
    let seen: Value = serde_json::from_str(&seen.unwrap()).unwrap();
    std::fs::write(&go, "").unwrap();

    let shown = seen["progress"]["text_tail"].as_str().unwrap();
    assert!(shown.contains("TELLER_TOKEN=[redacted]") && !shown.contains("rather-secret"), "{shown}");
    let result = env.volery(["wait", id]).ok().stdout;
    assert!(result.contains("TELLER_TOKEN=[redacted]") && !result.contains("rather-secret"), "{result}");
}

#[test]
fn what_an_agents_servers_are_handed_is_masked_too() {
    let env = TestEnv::new();
    let servers = "mcp_servers: {s: {command: x, args: [--token=said-in-an-argument], env: {S_TOKEN: '${HANDED}', \
                   T_KEY: written-in-the-file}}}\nunenforceable: warn";
    env.fake("teller", &["say:one hand-over-value and written-in-the-file, said-in-an-argument"], servers);
    let _trusted = env.volery(["trust", "--yes"]).ok();
    let mut command = env.command(["run", "teller", "tell"]);
    let stdout = command_output(command.env("HANDED", "hand-over-value").output().unwrap()).ok().stdout;
    assert_eq!(stdout.trim(), "one [redacted] and [redacted], [redacted]");
}

/// Returns the files below a folder that hold a text.
fn files_with(text: &str, folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files_with(text, &entry.path())),
            false => {
                let holds = String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).contains(text);
                found.extend(holds.then(|| entry.path()));
            }
        }
    }
    found
}

#[test]
fn nothing_that_a_server_was_handed_stays_after_the_run() {
    let env = TestEnv::new();
    let bin = env.path("bin");
    std::fs::create_dir(&bin).unwrap();
    let seen = env.path("seen");
    let words = r#"{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s","usage":{}}"#;
    let script = format!(
        "#!/bin/sh\n[ \"$*\" = --version ] && echo 2.1.325 && exit\nread line\n\
         for word in \"$@\"; do case $word in *mcp.json) cat \"${{word#--mcp-config=}}\" > '{}' ;; esac; done\n\
         printf '%s\\n' '{words}'\n",
        seen.display()
    );
    std::fs::write(bin.join("claude"), script).unwrap();
    std::fs::set_permissions(bin.join("claude"), PermissionsExt::from_mode(0o755)).unwrap();
    let servers = "backend: claude\nmcp_servers: {s: {command: x, args: [--api-key, key-in-the-file, \"--t=${HANDED}\"], \
                   env: {ANY: written-in-the-file}}, w: {url: 'http://u:pass-in-the-file@h.example/'}}";
    env.agent("worker", servers);
    let _trusted = env.volery(["trust", "--yes"]).ok();
    let mut command = env.command(["run", "worker", "go"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).env("HANDED", "value-by-name");
    let _ran = command_output(command.output().unwrap()).ok();
    let seen = std::fs::read_to_string(seen).unwrap();
    let dir = env.run_dir(&env.only_run());
    for secret in ["written-in-the-file", "key-in-the-file", "pass-in-the-file", "value-by-name"] {
        assert!(seen.contains(secret), "the agent had {secret}: {seen}");
        assert_eq!(files_with(secret, &dir), Vec::<PathBuf>::new());
    }
    let spec = dir.join("spec.json");
    let text = std::fs::read_to_string(&spec).unwrap();
    assert!(text.contains("[redacted]"), "{text}");
    // A worker that was killed before it came to that is followed by the next process that lists runs.
    std::fs::write(&spec, text.replace("[redacted]", "left-by-the-worker")).unwrap();
    std::fs::write(env.path("state/open").join(env.only_run()), "").unwrap();
    let _listed = env.volery(["ps"]).ok();
    assert_eq!(files_with("left-by-the-worker", &dir), Vec::<PathBuf>::new());
}
