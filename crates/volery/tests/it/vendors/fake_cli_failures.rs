//! Known failures of programs that the tests cannot install, reproduced by fake CLIs: the outcome is right whatever the exit
//! code is, and no run waits for ever.

use std::fs;
use std::process::Command;

use fake_llm::ScriptedReply;
use serde_json::{Value, json};

use super::fake_clis::{FakeCli, find_fake_cli};
use super::vendor_env::{Vendor, VendorEnv};

/// Runs an agent whose program fails in this way, and returns the run.
fn failing(backend: &'static str, how: &str) -> Value {
    let vendor = Vendor::new(backend);
    let script = vec![ScriptedReply::say("It is done.").always()];
    let mut vendor_env = VendorEnv::make(&vendor, how, script).expect("a fake CLI is always there");
    match how {
        "login" => vendor_env.forget_keys(),
        how => FakeCli::fail(&vendor_env.env.path("home"), how),
    }
    vendor_env.agent(&vendor, "timeout: 60s");
    vendor_env.run("Do it.", &[])
}

fn kind(run: &Value) -> (&str, &str) {
    (run["status"].as_str().unwrap_or_default(), run["outcome"]["kind"].as_str().unwrap_or_default())
}

#[test]
fn a_missing_login_fails_at_once_as_denied() {
    for backend in ["cursor", "kiro", "grok"] {
        let run = failing(backend, "login");
        assert_eq!(kind(&run), ("failed", "model"), "{run}");
        assert_eq!(run["outcome"]["error"], json!("denied"), "{run}");
    }
}

#[test]
fn truncated_output_fails_the_run() {
    for backend in ["cursor", "kiro", "grok"] {
        let run = failing(backend, "cut");
        assert_eq!(run["exit_code"], json!(0), "{run}");
        // The output so far is there, but the run has failed.
        assert_eq!(kind(&run), ("failed", "output"), "{run}");
        assert!(run["result"].as_str().is_some_and(|text| text.contains("It is done.")), "{run}");
    }
}

#[test]
fn an_error_with_the_exit_code_of_a_success_is_an_error() {
    for backend in ["cursor", "grok"] {
        let run = failing(backend, "exit-0-with-an-error");
        assert_eq!(kind(&run), ("failed", "agent"), "{run}");
    }
}

#[test]
fn a_program_that_stays_after_its_result_is_ended() {
    let run = failing("cursor", "stays");
    assert_eq!((kind(&run).0, &run["result"]), ("succeeded", &json!("It is done.")), "{run}");
}

#[test]
fn a_session_that_its_program_has_forgotten_is_replayed() {
    for (backend, folder) in [("cursor", ".cursor/chats"), ("grok", ".grok/sessions")] {
        let vendor = Vendor::new(backend);
        let script = vec![ScriptedReply::say("I am one."), ScriptedReply::say("I am two.").always()];
        let vendor_env = VendorEnv::make(&vendor, "forgotten", script).expect("a fake CLI is always there");
        vendor_env.agent(&vendor, "timeout: 60s");
        let first = vendor_env.run("Remember the heron.", &[]);
        let session = first["session"].as_str().unwrap_or_else(|| panic!("no session: {first}"));
        fs::remove_dir_all(vendor_env.env.path("home").join(folder)).unwrap();
        let second = vendor_env.run("What was it?", &["--session", session]);
        assert_eq!(second["result"].as_str().map(str::trim), Some("I am two."), "{second}");
        let body = vendor_env.offline.server().requests().last().unwrap().body.to_string();
        assert!(body.contains("Remember the heron."), "it was not told again: {body}");
    }
}

/// A fake CLI that accepted any option would prove nothing.
#[test]
fn an_undocumented_option_is_refused_by_the_fake_cli() {
    let dir = tempfile::tempdir().unwrap();
    for (backend, arguments, code) in [
        ("cursor", vec!["-p", "--no-such-option"], 1),
        ("kiro", vec!["chat", "--no-interactive", "--no-such-option"], 1),
        ("kiro", vec!["chat", "--no-interactive", "--trust-tools", "fs_read"], 1),
        ("grok", vec!["--no-such-option"], 2),
        ("grok", vec!["--sandbox", "somewhere"], 2),
    ] {
        let bin = dir.path().join(backend);
        fs::create_dir_all(&bin).unwrap();
        let known = find_fake_cli(backend).unwrap();
        let program = bin.join(known.program());
        if !program.exists() {
            known.install(&bin, dir.path(), "http://127.0.0.1:9");
        }
        let output = Command::new(program).args(&arguments).env("HOME", dir.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{backend} {arguments:?} {output:?}");
    }
}
