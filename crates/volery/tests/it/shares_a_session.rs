//! Runs of one session come one after the other, whoever asks; one that waits says so and can be cancelled.

use std::fs;

use serde_json::json;

use crate::stage::{PATIENCE, Stage, wait_for};

/// A program that knows sessions, and holds one until it is told to go on.
fn place() -> Stage {
    let stage = Stage::new();
    let script = "echo began $1; while [ ! -e \"$0\" ]; do sleep 0.02; done; echo ended $1";
    let go = stage.path("go").display().to_string();
    stage.backend("talker", &["sh", "-c", script, &go, "{session_id}"]).agent("talker", "backend: talker");
    stage
}

fn start(stage: &Stage, session: &str) -> String {
    stage.volery(["run", "talker", "x", "--session", session, "--background"]).ok().stdout.trim().to_owned()
}

fn has_begun(stage: &Stage, id: &str) {
    let spool = stage.run_dir(id).join("stdout");
    wait_for(PATIENCE, "the agent's word", || fs::read(&spool).ok().filter(|said| !said.is_empty()));
}

#[test]
fn the_second_run_waits_for_the_first_and_another_session_does_not() {
    let stage = place();
    let first = start(&stage, "one");
    has_begun(&stage, &first);
    let second = start(&stage, "one");
    stage.event(&second, "session_awaited");
    let shown = stage.json(["show", &second]);
    assert_eq!(shown["status"], json!("waiting"), "{shown}");
    assert_eq!(shown["waiting"], json!({"for": "session", "session": "one"}), "{shown}");
    assert_eq!(shown["explanation"], json!("waiting for the session one, which another run has"));
    let other = start(&stage, "two");
    has_begun(&stage, &other);
    fs::write(stage.path("go"), "").unwrap();
    for (id, session) in [(&first, "one"), (&second, "one"), (&other, "two")] {
        let said = format!("began {session}\nended {session}\n");
        assert_eq!(stage.ended(id)["result"], json!(said));
    }
    let moment = |id: &str, kind: &str| stage.event(id, kind)["at"].as_str().unwrap().to_owned();
    assert!(moment(&first, "ended") <= moment(&second, "agent_started"), "one after the other");
}

#[test]
fn a_run_that_waits_for_its_session_can_be_cancelled() {
    let stage = place();
    let first = start(&stage, "one");
    has_begun(&stage, &first);
    let second = start(&stage, "one");
    stage.event(&second, "session_awaited");
    stage.volery(["cancel", &second]).ok();
    assert_eq!(stage.ended(&second)["status"], json!("cancelled"));
    assert_eq!(stage.json(["show", &first])["status"], json!("running"));
    stage.volery(["cancel", "--now", &first]).ok();
    stage.ended(&first);
}

#[test]
fn a_session_is_free_when_keeper_and_worker_were_killed() {
    let stage = place();
    let first = start(&stage, "one");
    has_begun(&stage, &first);
    let crew = crate::stage::crew(&stage.run_dir(&first));
    for member in [crew.keeper, crew.worker] {
        member.unwrap().signal(rustix::process::Signal::KILL);
    }
    fs::write(stage.path("go"), "").unwrap();
    let second = start(&stage, "one");
    assert_eq!(stage.ended(&second)["status"], json!("succeeded"));
}
