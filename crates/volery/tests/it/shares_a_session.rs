//! Runs of one session come one after the other, whoever asks; one that waits says so and can be cancelled. A program
//! that keeps no conversations is told what was said.

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
fn a_copy_waits_for_the_run_that_has_the_session_and_holds_up_nobody() {
    let stage = Stage::new();
    let (go, script) = (stage.path("go"), "echo began; while [ ! -e \"$0\" ]; do sleep 0.02; done");
    stage.backend("holder", &["sh", "-c", script, go.to_str().unwrap()]).agent("holder", "backend: holder");
    fs::write(&go, "").unwrap();
    let session = stage.json(["run", "holder", "x"])["session"].as_str().unwrap().to_owned();
    fs::remove_file(&go).unwrap();
    let begin = |option: &str| {
        let begun = stage.volery(["run", "holder", "x", option, &session, "--background"]).ok();
        begun.stdout.trim().to_owned()
    };
    let first = begin("--session");
    has_begun(&stage, &first);
    let copy = begin("--fork");
    stage.event(&copy, "session_awaited");
    stage.volery(["cancel", "--now", &first]).ok();
    stage.ended(&first);
    has_begun(&stage, &copy);
    let next = begin("--session");
    has_begun(&stage, &next);
    fs::write(&go, "").unwrap();
    for id in [&copy, &next] {
        assert_eq!(stage.ended(id)["status"], json!("succeeded"));
    }
}

#[test]
fn a_session_is_free_when_keeper_and_worker_were_killed() {
    let stage = place();
    let first = start(&stage, "one");
    has_begun(&stage, &first);
    let crew = crate::stage::crew(&stage.run_dir(&first));
    for member in [crew.keeper, crew.worker] {
        member.unwrap().kill();
    }
    fs::write(stage.path("go"), "").unwrap();
    let second = start(&stage, "one");
    assert_eq!(stage.ended(&second)["status"], json!("succeeded"));
}

/// A program that keeps no conversation and repeats what it is told.
fn forgetful() -> Stage {
    let stage = Stage::new();
    stage.backend("parrot", &["cat"]).agent("parrot", "backend: parrot").agent("other", "backend: parrot");
    stage
}

fn ask(stage: &Stage, prompt: &str, more: &[&str]) -> serde_json::Value {
    let mut arguments = vec!["run", "parrot", prompt];
    arguments.extend(more);
    stage.json(arguments)
}

#[test]
fn a_program_without_sessions_is_told_what_was_said() {
    let stage = forgetful();
    let first = ask(&stage, "one", &[]);
    let session = first["session"].as_str().unwrap();
    let second = ask(&stage, "two", &["--session", session]);
    let told = "Previous conversation history:\n\n# Session History: parrot\n\n## 1. User Request\n\none\n\n\
                ## 1. Agent Response\n\none\n\n---\n\nCurrent request:\ntwo";
    assert_eq!((&second["result"], &second["session"]), (&json!(told), &json!(session)), "{second}");
    let label = "continued by replay: parrot was told what was said before (1 exchange)";
    assert!(second["warnings"].to_string().contains(label), "{second}");
    let third = ask(&stage, "three", &["--session", session])["result"].as_str().unwrap().to_owned();
    assert!(third.contains("## 2. User Request\n\ntwo\n"), "{third}");
    // What the second run answered has frames of its own in it, which must not pass for this one's.
    assert_eq!(third.lines().filter(|line| *line == "Current request:").count(), 1, "{third}");
    assert!(third.ends_with("\n---\n\nCurrent request:\nthree"), "{third}");
}

#[test]
fn a_session_that_nobody_knows_or_that_is_somebody_elses_is_refused() {
    let stage = forgetful();
    let first = ask(&stage, "one", &[]);
    let session = first["session"].as_str().unwrap();
    stage.volery(["run", "parrot", "x", "--session", "00000000-0000-4000-8000-000000000000"]).exits(5);
    let others = stage.volery(["run", "other", "x", "--session", session]).exits(2);
    assert!(others.stderr.contains("belongs to agent parrot and continues only there"), "{others:?}");
    let folder = stage.path("project/below");
    fs::create_dir(&folder).unwrap();
    stage.volery(["run", "parrot", "x", "--session", session, "--dir", folder.to_str().unwrap()]).exits(2);
    assert_eq!(stage.runs().len(), 1);
}

#[test]
fn a_copy_knows_what_was_said_and_leaves_the_session_as_it_is() {
    let stage = forgetful();
    let session = ask(&stage, "one", &[])["session"].as_str().unwrap().to_owned();
    let copy = ask(&stage, "in the copy", &["--fork", &session]);
    let copied = copy["session"].as_str().unwrap().to_owned();
    assert_ne!(copied, session);
    assert!(copy["result"].as_str().unwrap().contains("## 1. User Request\n\none\n"), "{copy}");
    let further = ask(&stage, "further", &["--session", &copied]);
    let told = further["result"].as_str().unwrap();
    let requests: Vec<&str> =
        told.split("User Request\n\n").skip(1).filter_map(|rest| rest.lines().next()).collect();
    // The answer of the copy's first run repeats what it was told, between these two.
    assert_eq!((requests.first(), requests.get(1)), (Some(&"one"), Some(&"in the copy")), "{told}");
    let original = ask(&stage, "two", &["--session", &session])["result"].as_str().unwrap().to_owned();
    assert!(!original.contains("in the copy"), "{original}");
    stage.volery(["run", "parrot", "x", "--session", &session, "--fork", &session]).exits(2);
}

#[test]
fn an_agent_that_keeps_its_session_continues_it_by_itself() {
    let stage = forgetful();
    stage.agent("parrot", "backend: parrot\nsession: true");
    let first = ask(&stage, "one", &[]);
    let second = ask(&stage, "two", &[]);
    assert_eq!(second["session"], first["session"]);
    assert!(second["result"].as_str().unwrap().contains("\n\none\n"), "{second}");
}

#[test]
fn what_is_not_on_record_any_more_cannot_be_told() {
    let stage = forgetful();
    let first = ask(&stage, "one", &[]);
    let session = first["session"].as_str().unwrap().to_owned();
    ask(&stage, "two", &["--session", &session]);
    for dir in stage.runs().iter().map(|run| stage.run_dir(run)) {
        // Its keeper may still be leaving.
        wait_for(PATIENCE, "an empty folder", || {
            fs::remove_dir_all(&dir).ok().or((!dir.exists()).then_some(()))
        });
    }
    let run = ask(&stage, "three", &["--session", &session]);
    assert_eq!((&run["status"], &run["outcome"]["kind"]), (&json!("failed"), &json!("session")), "{run}");
    assert!(run["explanation"].as_str().unwrap().contains("on record any more"), "{run}");
}

#[test]
fn a_rehearsal_is_told_what_was_said_too() {
    let stage = Stage::new();
    stage.rehearsal("actor", "- say: \"{prompt}!\"", "");
    let first = stage.json(["run", "actor", "one"]);
    let session = first["session"].as_str().unwrap();
    let second = stage.json(["run", "actor", "two", "--session", session]);
    assert!(second["result"].as_str().unwrap().contains("one!\n\n---\n\nCurrent request:\ntwo!"), "{second}");
}
