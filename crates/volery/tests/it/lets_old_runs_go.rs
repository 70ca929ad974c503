//! Retention: what is old goes, in tiers, never a run that has not ended; and a key goes with its run.

use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::test_env::{PATIENCE, TestEnv, wait_for, with_argument};

fn vendor_env() -> TestEnv {
    let env = TestEnv::new();
    env.fake("echo", &["read-stdin"], "");
    env.fake("sleeper", &["say:awake", "hang"], "grace: 0s");
    env.volery(["ps"]).ok();
    // Somebody has just swept, so that nothing goes by itself before the test wants it to.
    std::fs::write(env.path("state").join("sweep.stamp"), "").unwrap();
    env
}

/// Runs an agent, and returns when its keeper has released the run; until then it is not removed.
fn run_and_leave(env: &TestEnv, agent: &str, prompt: &str) -> String {
    env.volery(["run", agent, prompt]).ok();
    let id = env.runs().pop().unwrap();
    left(&id);
    id
}

/// Waits until the keeper of a run is gone.
fn left(id: &str) {
    wait_for(PATIENCE, "the keeper to leave", || with_argument(id).is_empty().then_some(()));
}

#[test]
fn a_dry_run_tells_and_touches_nothing() {
    let env = vendor_env();
    let ended = run_and_leave(&env, "echo", "one");
    let going = env.start("sleeper", "go");
    env.wait_for_event(&going, "agent_started");
    let report = env.json(["clean", "--older-than", "1ms", "--dry-run"]);
    assert_eq!(
        (&report["dry_run"], &report["deleted"], &report["runs"]),
        (&json!(true), &json!(1), &json!([ended]))
    );
    assert_eq!(env.runs().len(), 2);
    assert_eq!(env.json(["show", &ended])["result"], json!("one"));

    let report = env.json(["clean", "--older-than", "7d"]);
    assert_eq!(report["deleted"], json!(0), "nothing is that old: {report}");
    let report = env.json(["clean", "--older-than", "1ms"]);
    assert_eq!((&report["deleted"], &report["runs"]), (&json!(1), &json!([ended])), "{report}");
    assert_eq!(env.runs(), std::slice::from_ref(&going), "a run that has not ended is never removed");
    env.volery(["show", &ended]).exits(5);
    assert_eq!(env.json(["ps", "--all"])["runs"].as_array().unwrap().len(), 1);
    env.volery(["cancel", "--now", &going]).ok();
    assert_eq!(env.wait_for_end(&going)["result"], json!("awake\n"));
}

#[test]
fn output_goes_first_and_the_record_later() {
    let env = vendor_env();
    env.fake("chatty", &["flood:200000:stdout", "err:a word", "say:end"], "");
    let id = run_and_leave(&env, "chatty", "go");
    // Only now: the command sweeps when it is done, and its own run may be the first to go.
    env.configure("[retention]\noutput = \"1ms\"\nrecord = \"7d\"");
    let report = env.json(["clean"]);
    assert_eq!((&report["deleted"], &report["outputs_dropped"]), (&json!(0), &json!(1)), "{report}");
    assert!(report["bytes"].is_u64());
    let dir = env.run_dir(&id);
    assert!(!dir.join("stdout").exists() && !dir.join("stderr").exists());
    let shown = env.json(["show", &id]);
    assert_eq!((&shown["status"], &shown["result_bytes"]), (&json!("succeeded"), &json!(200_004)), "{shown}");
    assert!(env.volery(["wait", &id]).ok().stdout.ends_with("end\n"), "the result outlives the output");
    env.volery(["logs", &id]).ok();
    let report = env.json(["clean"]);
    assert_eq!(report["outputs_dropped"], json!(0), "once is enough: {report}");
}

#[test]
fn a_key_is_free_when_its_run_is_gone() {
    let env = vendor_env();
    let ask = |prompt: &str| env.volery(["run", "echo", prompt, "--idempotency-key", "k"]);
    ask("one").ok();
    let first = env.only_run();
    left(&first);
    ask("two").exits(2);
    env.volery(["clean", "--older-than", "1ms"]).ok();
    let keys = std::fs::read_dir(env.path("state").join("keys")).unwrap().filter_map(Result::ok);
    let keys: Vec<_> = keys.map(|entry| entry.file_name()).filter(|name| name != ".release").collect();
    assert!(keys.is_empty(), "{keys:?}");
    assert_eq!(ask("two").ok().stdout, "two");
    assert_ne!(env.only_run(), first);
}

#[test]
fn a_sweep_happens_by_itself() {
    let env = vendor_env();
    let first = run_and_leave(&env, "echo", "one");
    env.configure("[retention]\noutput = \"1ms\"\nrecord = \"1ms\"");
    let stamp = env.path("state").join("sweep.stamp");
    let hours_ago = SystemTime::now() - Duration::from_secs(2 * 3600);
    std::fs::File::options().write(true).open(stamp).unwrap().set_modified(hours_ago).unwrap();
    env.volery(["run", "echo", "two"]).ok();
    assert!(!env.runs().contains(&first), "{:?}", env.runs());
}
