//! Runs of one session come one after the other, for all callers; one that waits says so and can be cancelled. A program
//! that stores no conversations gets the history in its prompt.

use std::fs;

use serde_json::json;

use crate::test_env::{PATIENCE, TestEnv, wait_for};

/// A program that knows sessions, and holds one until it may continue.
fn vendor_env() -> TestEnv {
    let env = TestEnv::new();
    let script = "echo began $1; while [ ! -e \"$0\" ]; do sleep 0.02; done; echo ended $1";
    let go = env.path("go").display().to_string();
    env.backend("talker", &["sh", "-c", script, &go, "{session_id}"]).agent("talker", "backend: talker");
    env
}

fn start(env: &TestEnv, session: &str) -> String {
    env.volery(["run", "talker", "x", "--session", session, "--background"]).ok().stdout.trim().to_owned()
}

fn has_begun(env: &TestEnv, id: &str) {
    let spool = env.run_dir(id).join("stdout");
    wait_for(PATIENCE, "the agent's word", || fs::read(&spool).ok().filter(|bytes| !bytes.is_empty()));
}

#[test]
fn the_second_run_waits_for_the_first_and_another_session_does_not() {
    let env = vendor_env();
    let first = start(&env, "one");
    has_begun(&env, &first);
    let second = start(&env, "one");
    env.wait_for_event(&second, "session_awaited");
    let shown = env.json(["show", &second]);
    assert_eq!(shown["status"], json!("waiting"), "{shown}");
    assert_eq!(shown["waiting"], json!({"for": "session", "session": "one"}), "{shown}");
    insta::assert_snapshot!(env.masked_texts(&shown["explanation"]), @"waiting for the session one, which another run has");
    let other = start(&env, "two");
    has_begun(&env, &other);
    fs::write(env.path("go"), "").unwrap();
    for (id, session) in [(&first, "one"), (&second, "one"), (&other, "two")] {
        let expected = format!("began {session}\nended {session}\n");
        assert_eq!(env.wait_for_end(id)["result"], json!(expected));
    }
    let moment = |id: &str, kind: &str| env.wait_for_event(id, kind)["at"].as_str().unwrap().to_owned();
    assert!(moment(&first, "ended") <= moment(&second, "agent_started"), "one after the other");
}

#[test]
fn a_run_that_waits_for_its_session_can_be_cancelled() {
    let env = vendor_env();
    let first = start(&env, "one");
    has_begun(&env, &first);
    let second = start(&env, "one");
    env.wait_for_event(&second, "session_awaited");
    env.volery(["cancel", &second]).ok();
    assert_eq!(env.wait_for_end(&second)["status"], json!("cancelled"));
    assert_eq!(env.json(["show", &first])["status"], json!("running"));
    env.volery(["cancel", "--now", &first]).ok();
    env.wait_for_end(&first);
}

#[test]
fn a_copy_waits_for_the_run_that_has_the_session_and_holds_up_nobody() {
    let env = TestEnv::new();
    let (go, script) = (env.path("go"), "echo began; while [ ! -e \"$0\" ]; do sleep 0.02; done");
    env.backend("holder", &["sh", "-c", script, go.to_str().unwrap()]).agent("holder", "backend: holder");
    fs::write(&go, "").unwrap();
    let session = env.json(["run", "holder", "x"])["session"].as_str().unwrap().to_owned();
    fs::remove_file(&go).unwrap();
    let begin = |option: &str| {
        let begun = env.volery(["run", "holder", "x", option, &session, "--background"]).ok();
        begun.stdout.trim().to_owned()
    };
    let first = begin("--session");
    has_begun(&env, &first);
    let copy = begin("--fork");
    env.wait_for_event(&copy, "session_awaited");
    env.volery(["cancel", "--now", &first]).ok();
    env.wait_for_end(&first);
    has_begun(&env, &copy);
    let next = begin("--session");
    has_begun(&env, &next);
    fs::write(&go, "").unwrap();
    for id in [&copy, &next] {
        assert_eq!(env.wait_for_end(id)["status"], json!("succeeded"));
    }
}

#[test]
fn a_session_is_free_when_keeper_and_worker_were_killed() {
    let env = vendor_env();
    let first = start(&env, "one");
    has_begun(&env, &first);
    let run_processes = crate::test_env::run_processes(&env.run_dir(&first));
    for member in [run_processes.keeper, run_processes.worker] {
        member.unwrap().kill();
    }
    fs::write(env.path("go"), "").unwrap();
    let second = start(&env, "one");
    assert_eq!(env.wait_for_end(&second)["status"], json!("succeeded"));
}

/// A program that stores no conversation and repeats its prompt.
fn forgetful() -> TestEnv {
    let env = TestEnv::new();
    env.backend("parrot", &["cat"]).agent("parrot", "backend: parrot").agent("other", "backend: parrot");
    env
}

fn ask(env: &TestEnv, prompt: &str, more: &[&str]) -> serde_json::Value {
    let mut arguments = vec!["run", "parrot", prompt];
    arguments.extend(more);
    env.json(arguments)
}

#[test]
fn a_program_without_sessions_gets_the_history_in_its_prompt() {
    let env = forgetful();
    let first = ask(&env, "one", &[]);
    let session = first["session"].as_str().unwrap();
    let second = ask(&env, "two", &["--session", session]);
    let history = "Previous conversation history:\n\n# Session History: parrot\n\n## 1. User Request\n\none\n\n\
                ## 1. Agent Response\n\none\n\n---\n\nCurrent request:\ntwo";
    assert_eq!((&second["result"], &second["session"]), (&json!(history), &json!(session)), "{second}");
    insta::assert_snapshot!(env.masked_texts(&second["warnings"]), @"continued by replay: parrot was told what was said before (1 exchange)");
    let third = ask(&env, "three", &["--session", session])["result"].as_str().unwrap().to_owned();
    assert!(third.contains("## 2. User Request\n\ntwo\n"), "{third}");
    // What the second run answered has frames of its own in it, which must not pass for this one's.
    assert_eq!(third.lines().filter(|line| *line == "Current request:").count(), 1, "{third}");
    assert!(third.ends_with("\n---\n\nCurrent request:\nthree"), "{third}");
}

#[test]
fn a_session_that_nobody_knows_or_that_is_somebody_elses_is_refused() {
    let env = forgetful();
    let first = ask(&env, "one", &[]);
    let session = first["session"].as_str().unwrap();
    env.volery(["run", "parrot", "x", "--session", "00000000-0000-4000-8000-000000000000"]).exits(5);
    let others = env.volery(["run", "other", "x", "--session", session]).exits(2);
    insta::assert_snapshot!(env.masked(&others.stderr), @"error: the session [run id] belongs to agent parrot and continues only there");
    let folder = env.path("project/below");
    fs::create_dir(&folder).unwrap();
    env.volery(["run", "parrot", "x", "--session", session, "--dir", folder.to_str().unwrap()]).exits(2);
    assert_eq!(env.runs().len(), 1);
}

#[test]
fn a_fork_has_the_history_and_leaves_the_session_unchanged() {
    let env = forgetful();
    let session = ask(&env, "one", &[])["session"].as_str().unwrap().to_owned();
    let copy = ask(&env, "in the copy", &["--fork", &session]);
    let copied = copy["session"].as_str().unwrap().to_owned();
    assert_ne!(copied, session);
    assert!(copy["result"].as_str().unwrap().contains("## 1. User Request\n\none\n"), "{copy}");
    let further = ask(&env, "further", &["--session", &copied]);
    let prompt = further["result"].as_str().unwrap();
    let requests: Vec<&str> =
        prompt.split("User Request\n\n").skip(1).filter_map(|rest| rest.lines().next()).collect();
    // The answer of the copy's first run repeats its prompt, between these two.
    assert_eq!((requests.first(), requests.get(1)), (Some(&"one"), Some(&"in the copy")), "{prompt}");
    let original = ask(&env, "two", &["--session", &session])["result"].as_str().unwrap().to_owned();
    assert!(!original.contains("in the copy"), "{original}");
    env.volery(["run", "parrot", "x", "--session", &session, "--fork", &session]).exits(2);
}

#[test]
fn an_agent_that_keeps_its_session_continues_it_by_itself() {
    let env = forgetful();
    env.agent("parrot", "backend: parrot\nsession: true");
    let first = ask(&env, "one", &[]);
    let second = ask(&env, "two", &[]);
    assert_eq!(second["session"], first["session"]);
    assert!(second["result"].as_str().unwrap().contains("\n\none\n"), "{second}");
}

#[test]
fn a_history_that_was_deleted_cannot_be_replayed() {
    let env = forgetful();
    let first = ask(&env, "one", &[]);
    let session = first["session"].as_str().unwrap().to_owned();
    ask(&env, "two", &["--session", &session]);
    for dir in env.runs().iter().map(|run| env.run_dir(run)) {
        // Its keeper may still be leaving.
        wait_for(PATIENCE, "an empty folder", || {
            fs::remove_dir_all(&dir).ok().or((!dir.exists()).then_some(()))
        });
    }
    let run = ask(&env, "three", &["--session", &session]);
    assert_eq!((&run["status"], &run["outcome"]["kind"]), (&json!("failed"), &json!("session")), "{run}");
    insta::assert_snapshot!(env.masked_texts(&run["explanation"]), @"failed: the session cannot be continued: nothing of what was said in it is on record any more");
}

#[test]
fn a_rehearsal_gets_the_history_too() {
    let env = TestEnv::new();
    env.rehearsal("actor", "- say: \"{prompt}!\"", "");
    let first = env.json(["run", "actor", "one"]);
    let session = first["session"].as_str().unwrap();
    let second = env.json(["run", "actor", "two", "--session", session]);
    assert!(second["result"].as_str().unwrap().contains("one!\n\n---\n\nCurrent request:\ntwo!"), "{second}");
}
