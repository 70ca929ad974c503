//! Retention: what is old goes, in tiers, never a run that has not ended; and a key goes with its run.

use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::stage::{PATIENCE, Stage, wait_for, with_argument};

fn place() -> Stage {
    let stage = Stage::new();
    stage.fake("echo", &["read-stdin"], "");
    stage.fake("sleeper", &["say:awake", "hang"], "grace: 0s");
    stage.volery(["ps"]).ok();
    // Somebody has just swept, so that nothing goes by itself before the test wants it to.
    std::fs::write(stage.path("state").join("sweep.stamp"), "").unwrap();
    stage
}

/// Runs an agent, and returns when its keeper has let go of the run, which nobody removes before.
fn run_and_leave(stage: &Stage, agent: &str, prompt: &str) -> String {
    stage.volery(["run", agent, prompt]).ok();
    let id = stage.runs().pop().unwrap();
    left(&id);
    id
}

/// Waits until the keeper of a run is gone.
fn left(id: &str) {
    wait_for(PATIENCE, "the keeper to leave", || with_argument(id).is_empty().then_some(()));
}

#[test]
fn a_dry_run_tells_and_touches_nothing() {
    let stage = place();
    let ended = run_and_leave(&stage, "echo", "one");
    let going = stage.start("sleeper", "go");
    stage.event(&going, "agent_started");
    let told = stage.json(["clean", "--older-than", "1ms", "--dry-run"]);
    assert_eq!(
        (&told["dry_run"], &told["deleted"], &told["runs"]),
        (&json!(true), &json!(1), &json!([ended]))
    );
    assert_eq!(stage.runs().len(), 2);
    assert_eq!(stage.json(["show", &ended])["result"], json!("one"));

    let told = stage.json(["clean", "--older-than", "7d"]);
    assert_eq!(told["deleted"], json!(0), "nothing is that old: {told}");
    let told = stage.json(["clean", "--older-than", "1ms"]);
    assert_eq!((&told["deleted"], &told["runs"]), (&json!(1), &json!([ended])), "{told}");
    assert_eq!(stage.runs(), std::slice::from_ref(&going), "a run that has not ended is never removed");
    stage.volery(["show", &ended]).exits(5);
    assert_eq!(stage.json(["ps", "--all"])["runs"].as_array().unwrap().len(), 1);
    stage.volery(["cancel", "--now", &going]).ok();
    assert_eq!(stage.ended(&going)["result"], json!("awake\n"));
}

#[test]
fn output_goes_first_and_the_record_later() {
    let stage = place();
    stage.fake("chatty", &["flood:200000:stdout", "err:a word", "say:end"], "");
    let id = run_and_leave(&stage, "chatty", "go");
    // Only now: the command sweeps when it is done, and its own run may be the first to go.
    stage.configure("[retention]\noutput = \"1ms\"\nrecord = \"7d\"");
    let told = stage.json(["clean"]);
    assert_eq!((&told["deleted"], &told["outputs_dropped"]), (&json!(0), &json!(1)), "{told}");
    assert!(told["bytes"].is_u64());
    let dir = stage.run_dir(&id);
    assert!(!dir.join("stdout").exists() && !dir.join("stderr").exists());
    let shown = stage.json(["show", &id]);
    assert_eq!((&shown["status"], &shown["result_bytes"]), (&json!("succeeded"), &json!(200_004)), "{shown}");
    assert!(stage.volery(["wait", &id]).ok().stdout.ends_with("end\n"), "the result outlives the output");
    stage.volery(["logs", &id]).ok();
    let told = stage.json(["clean"]);
    assert_eq!(told["outputs_dropped"], json!(0), "once is enough: {told}");
}

#[test]
fn a_key_is_free_when_its_run_is_gone() {
    let stage = place();
    let ask = |prompt: &str| stage.volery(["run", "echo", prompt, "--idempotency-key", "k"]);
    ask("one").ok();
    let first = stage.only_run();
    left(&first);
    ask("two").exits(2);
    stage.volery(["clean", "--older-than", "1ms"]).ok();
    let keys = std::fs::read_dir(stage.path("state").join("keys")).unwrap().filter_map(Result::ok);
    let keys: Vec<_> = keys.map(|entry| entry.file_name()).filter(|name| name != ".release").collect();
    assert!(keys.is_empty(), "{keys:?}");
    assert_eq!(ask("two").ok().stdout, "two");
    assert_ne!(stage.only_run(), first);
}

#[test]
fn a_sweep_happens_by_itself() {
    let stage = place();
    let first = run_and_leave(&stage, "echo", "one");
    stage.configure("[retention]\noutput = \"1ms\"\nrecord = \"1ms\"");
    let stamp = stage.path("state").join("sweep.stamp");
    let hours_ago = SystemTime::now() - Duration::from_secs(2 * 3600);
    std::fs::File::options().write(true).open(stamp).unwrap().set_modified(hours_ago).unwrap();
    stage.volery(["run", "echo", "two"]).ok();
    assert!(!stage.runs().contains(&first), "{:?}", stage.runs());
}
