//! The adapters that implement ACP for vendors' agents start and answer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::sync::mpsc;

use fake_llm::AgentDirs;
use serde_json::{Value, json};
use testkit::{CliRequest, cli_launch};

use crate::isolation::{PATIENCE, offline, skip};

/// Initializes a conversation with an adapter, and stops after its answer.
#[track_caller]
fn check_answers(name: &str) {
    let offline = offline(Vec::new());
    let root = tempfile::tempdir().expect("a folder can be made");
    let folders = AgentDirs::create(root.path()).expect("folders can be made");
    let url = offline.server().url();
    let order = CliRequest { url: &url, folders: &folders, prompt: "", arguments: &[] };
    let launch = match cli_launch(name, &order) {
        Ok(launch) => launch,
        Err(error) => return skip(&format!("{name} answers"), &error.to_string()),
    };
    folders.write_home_files(&launch.files).expect("files can be written");
    let mut adapter = offline
        .command(&launch.argv)
        .envs(launch.env)
        .env("HOME", &folders.home)
        .env("TMPDIR", &folders.temp_dir)
        .current_dir(&folders.work)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the adapter can be started");
    let mut stdin = adapter.stdin.take().expect("its input is a pipe");
    let mut stdout = BufReader::new(adapter.stdout.take().expect("its output is a pipe"));
    let parameters = json!({ "protocolVersion": 1, "clientCapabilities": {} });
    let line = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": parameters });
    writeln!(stdin, "{line}").expect("the adapter reads");
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = stdout.read_line(&mut line);
        sender.send(read.map(|_| line)).expect("the test waits");
    });
    let first = receiver.recv_timeout(PATIENCE);
    // Always killed: whether it exits by itself is tested elsewhere, with the backends.
    adapter.kill().expect("the adapter is ours");
    adapter.wait().expect("the adapter is ours");
    let first = first.expect("the adapter answers in time").expect("its output can be read");
    let first: Value = serde_json::from_str(&first).unwrap_or_else(|error| panic!("{error}: {first}"));
    assert_eq!((&first["id"], &first["result"]["protocolVersion"]), (&json!(0), &json!(1)), "{first}");
}

#[test]
fn claude_agent_acp_answers() {
    check_answers("claude-agent-acp");
}

#[test]
fn codex_acp_answers() {
    check_answers("codex-acp");
}
