//! A server that is killed takes nothing with it: the run ends by itself, or, if it was only written down, is found
//! out by whoever looks next.

use std::fs;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;

use super::play::{KillCase, Victim, play};
use crate::test_env::{KillOnDrop, PATIENCE, TestEnv, kill, tagged, wait_for};

/// Every named point of an undisturbed run from the moment on at which it has a keeper.
const POINTS: [&str; 9] = [
    "door_started_keeper",
    "door_said_go",
    "keeper_started",
    "worker_claimed",
    "worker_spawned_agent",
    "worker_saw_exit",
    "worker_swept",
    "worker_wrote_ending",
    "worker_notified",
];

#[test]
fn a_run_with_a_keeper_ends_by_itself_with_its_whole_result() {
    for point in POINTS {
        play(KillCase { failpoint: point, victims: &[Victim::Server], containment: "auto" });
    }
}

#[test]
fn a_run_that_was_only_written_down_is_interrupted_at_the_next_look() {
    let env = TestEnv::new();
    env.backend("upper", &["tr", "a-z", "A-Z"]).agent("shout", "backend: upper");
    env.hold("door_wrote_spec");
    let mut client = env.serve().initialize("it");
    let arguments = json!({"agent": "shout", "prompt": "x", "directory": env.project()});
    client.send("tools/call", json!({"name": "run_agent", "arguments": arguments}));
    env.wait_until_held("door_wrote_spec");
    kill(client.pid(), Signal::KILL);
    client.exit(PATIENCE);
    env.release("door_wrote_spec");
    let id = env.wait_for_run_count(1);
    let listed = env.json(["ps", "--all"]);
    assert_eq!(listed["runs"][0]["status"], json!("interrupted"));
    let shown = env.json(["show", &id]);
    assert_eq!(shown["outcome"], json!({"outcome": "interrupted", "lost": "before_start"}));
    assert_eq!(env.times_ended(&id), 1);
}

#[test]
fn a_queued_run_keeps_its_place_and_ends_by_itself() {
    let env = TestEnv::new();
    let go = format!("wait-file:{}", env.path("go").display());
    env.fake("slow", &[&go, "say:done"], "");
    let mut first = env.command(["run", "slow", "x", "--background"]);
    assert!(first.env("VOLERY_SLOTS", "1").stdout(Stdio::null()).status().unwrap().success());
    env.hold("keeper_queued");
    let mut second = env.command(["run", "slow", "y"]);
    let second = KillOnDrop(second.env("VOLERY_SLOTS", "1").stdout(Stdio::null()).spawn().unwrap());
    env.wait_until_held("keeper_queued");
    kill(second.0.id(), Signal::KILL);
    env.release("keeper_queued");
    let id = env.wait_for_run_count(2);
    assert_eq!(env.json(["show", &id])["waiting"]["position"], json!(1));
    fs::write(env.path("go"), "").unwrap();
    let ending = env.outcome_by_itself(&id, PATIENCE);
    assert_eq!((&ending["outcome"], &ending["result"]["inline"]), (&json!("succeeded"), &json!("done\n")));
    wait_for(PATIENCE, "its processes to be gone", || tagged(env.tag(&id)).is_empty().then_some(()));
}

#[test]
fn a_queued_run_without_its_keeper_is_interrupted_at_the_next_look() {
    let env = TestEnv::new();
    let go = format!("wait-file:{}", env.path("go").display());
    env.fake("slow", &[&go], "");
    let mut first = env.command(["run", "slow", "x", "--background"]);
    assert!(first.env("VOLERY_SLOTS", "1").stdout(Stdio::null()).status().unwrap().success());
    env.hold("keeper_queued");
    let mut second = env.command(["run", "slow", "y"]);
    let second = KillOnDrop(second.env("VOLERY_SLOTS", "1").stdout(Stdio::null()).spawn().unwrap());
    let keeper = env.wait_until_held("keeper_queued");
    kill(second.0.id(), Signal::KILL);
    kill(keeper, Signal::KILL);
    env.release("keeper_queued");
    let id = env.wait_for_run_count(2);
    let shown = wait_for(PATIENCE, "the look to end it", || {
        let shown = env.json(["show", &id]);
        (shown["ended"] == json!(true)).then_some(shown)
    });
    assert_eq!(shown["status"], json!("interrupted"));
    // Its position in the queue is free again: the next one gets the slot.
    let mut third = env.command(["run", "slow", "z", "--background"]);
    assert!(third.env("VOLERY_SLOTS", "1").stdout(Stdio::null()).status().unwrap().success());
    fs::write(env.path("go"), "").unwrap();
    let third = env.wait_for_run_count(3);
    assert_eq!(env.outcome_by_itself(&third, PATIENCE)["outcome"], json!("succeeded"));
}
