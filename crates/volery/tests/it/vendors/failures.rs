//! Ways to fail that the programs we cannot install are known for, shown by their stand-ins: whatever the exit code
//! says, the outcome is the right one, and no run waits for ever.

use std::fs;
use std::process::Command;

use model_server::Reply;
use serde_json::{Value, json};

use super::place::{Place, Vendor};
use super::stand_ins::{StandIn, stand_in};

/// Runs an agent whose program fails in this way, and returns the run.
fn failing(backend: &'static str, how: &str) -> Value {
    let vendor = Vendor::named(backend);
    let script = vec![Reply::say("It is done.").always()];
    let mut place = Place::make(&vendor, how, script).expect("a stand-in is always there");
    match how {
        "login" => place.forget_keys(),
        how => StandIn::fail(&place.stage.path("home"), how),
    }
    place.agent(&vendor, "timeout: 60s");
    place.run("Do it.", &[])
}

fn kind(run: &Value) -> (&str, &str) {
    (run["status"].as_str().unwrap_or_default(), run["outcome"]["kind"].as_str().unwrap_or_default())
}

#[test]
fn who_is_not_logged_in_is_told_so_and_does_not_wait() {
    for backend in ["cursor", "kiro", "grok"] {
        let run = failing(backend, "login");
        assert_eq!(kind(&run), ("failed", "model"), "{run}");
        assert_eq!(run["outcome"]["error"], json!("denied"), "{run}");
    }
}

#[test]
fn output_that_ends_too_early_is_no_success() {
    for backend in ["cursor", "kiro", "grok"] {
        let run = failing(backend, "cut");
        assert_eq!(run["exit_code"], json!(0), "{run}");
        // What was said so far is there, and the run has failed all the same.
        assert_eq!(kind(&run), ("failed", "output"), "{run}");
        assert!(run["result"].as_str().is_some_and(|said| said.contains("It is done.")), "{run}");
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
fn a_session_that_its_program_has_forgotten_is_told_again() {
    for (backend, folder) in [("cursor", ".cursor/chats"), ("grok", ".grok/sessions")] {
        let vendor = Vendor::named(backend);
        let script = vec![Reply::say("I am one."), Reply::say("I am two.").always()];
        let place = Place::make(&vendor, "forgotten", script).expect("a stand-in is always there");
        place.agent(&vendor, "timeout: 60s");
        let first = place.run("Remember the heron.", &[]);
        let session = first["session"].as_str().unwrap_or_else(|| panic!("no session: {first}"));
        fs::remove_dir_all(place.stage.path("home").join(folder)).unwrap();
        let second = place.run("What was it?", &["--session", session]);
        assert_eq!(second["result"].as_str().map(str::trim), Some("I am two."), "{second}");
        let asked = place.offline.server().seen().last().unwrap().body.to_string();
        assert!(asked.contains("Remember the heron."), "it was not told again: {asked}");
    }
}

/// A stand-in that took anything would prove nothing.
#[test]
fn an_option_that_is_not_documented_is_refused_by_the_stand_in_itself() {
    let place = tempfile::tempdir().unwrap();
    for (backend, arguments, code) in [
        ("cursor", vec!["-p", "--no-such-option"], 1),
        ("kiro", vec!["chat", "--no-interactive", "--no-such-option"], 1),
        ("kiro", vec!["chat", "--no-interactive", "--trust-tools", "fs_read"], 1),
        ("grok", vec!["--no-such-option"], 2),
        ("grok", vec!["--sandbox", "somewhere"], 2),
    ] {
        let bin = place.path().join(backend);
        fs::create_dir_all(&bin).unwrap();
        let known = stand_in(backend).unwrap();
        let program = bin.join(known.program);
        if !program.exists() {
            known.furnish(&bin, place.path(), "http://127.0.0.1:9");
        }
        let output = Command::new(program).args(&arguments).env("HOME", place.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{backend} {arguments:?} {output:?}");
    }
}
