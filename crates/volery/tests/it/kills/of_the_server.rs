//! A server that is killed takes nothing with it: the run ends by itself, or, if it was only written down, is found
//! out by whoever looks next.

use std::fs;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;

use super::play::{Case, Victim, play};
use crate::stage::{Guarded, PATIENCE, Stage, kill, tagged, wait_for};

/// Every named point of an undisturbed run from the moment on at which it has a keeper.
const POINTS: [&str; 8] = [
    "door_started_keeper",
    "door_said_go",
    "keeper_started",
    "worker_claimed",
    "worker_spawned_agent",
    "worker_saw_exit",
    "worker_swept",
    "worker_wrote_outcome",
];

#[test]
fn a_run_with_a_keeper_ends_by_itself_with_its_whole_result() {
    for point in POINTS {
        play(Case { point, victims: &[Victim::Server], containment: "auto" });
    }
}

#[test]
fn a_run_that_was_only_written_down_is_interrupted_at_the_next_look() {
    let stage = Stage::new();
    stage.backend("upper", &["tr", "a-z", "A-Z"]).agent("shout", "backend: upper");
    stage.hold("door_wrote_spec");
    let mut client = stage.serve().initialize("it");
    let arguments = json!({"agent": "shout", "prompt": "x", "directory": stage.project()});
    client.send("tools/call", json!({"name": "run_agent", "arguments": arguments}));
    stage.held("door_wrote_spec");
    kill(client.pid(), Signal::KILL);
    client.exit(PATIENCE);
    stage.release("door_wrote_spec");
    let id = stage.newest_of(1);
    let listed = stage.json(["ps", "--all"]);
    assert_eq!(listed["runs"][0]["status"], json!("interrupted"));
    let shown = stage.json(["show", &id]);
    assert_eq!(shown["outcome"], json!({"outcome": "interrupted", "lost": "before_start"}));
    assert_eq!(stage.times_ended(&id), 1);
}

#[test]
fn a_queued_run_keeps_its_place_and_ends_by_itself() {
    let stage = Stage::new();
    let go = format!("wait-file:{}", stage.path("go").display());
    stage.fake("slow", &[&go, "say:done"], "");
    let mut first = stage.command(["run", "slow", "x", "--background"]);
    assert!(first.env("VOLERY_SLOTS", "1").stdout(Stdio::null()).status().unwrap().success());
    stage.hold("keeper_queued");
    let mut second = stage.command(["run", "slow", "y"]);
    let second = Guarded(second.env("VOLERY_SLOTS", "1").stdout(Stdio::null()).spawn().unwrap());
    stage.held("keeper_queued");
    kill(second.0.id(), Signal::KILL);
    stage.release("keeper_queued");
    let id = stage.newest_of(2);
    assert_eq!(stage.json(["show", &id])["waiting"]["position"], json!(1));
    fs::write(stage.path("go"), "").unwrap();
    let ending = stage.outcome_by_itself(&id, PATIENCE);
    assert_eq!((&ending["outcome"], &ending["result"]["inline"]), (&json!("succeeded"), &json!("done\n")));
    wait_for(PATIENCE, "its processes to be gone", || tagged(stage.tag(&id)).is_empty().then_some(()));
}

#[test]
fn a_queued_run_without_its_keeper_is_interrupted_at_the_next_look() {
    let stage = Stage::new();
    let go = format!("wait-file:{}", stage.path("go").display());
    stage.fake("slow", &[&go], "");
    let mut first = stage.command(["run", "slow", "x", "--background"]);
    assert!(first.env("VOLERY_SLOTS", "1").stdout(Stdio::null()).status().unwrap().success());
    stage.hold("keeper_queued");
    let mut second = stage.command(["run", "slow", "y"]);
    let second = Guarded(second.env("VOLERY_SLOTS", "1").stdout(Stdio::null()).spawn().unwrap());
    let keeper = stage.held("keeper_queued");
    kill(second.0.id(), Signal::KILL);
    kill(keeper, Signal::KILL);
    stage.release("keeper_queued");
    let id = stage.newest_of(2);
    let shown = wait_for(PATIENCE, "the look to end it", || {
        let shown = stage.json(["show", &id]);
        (shown["ended"] == json!(true)).then_some(shown)
    });
    assert_eq!(shown["status"], json!("interrupted"));
    // Its place in the queue is free again: the next one gets the slot.
    let mut third = stage.command(["run", "slow", "z", "--background"]);
    assert!(third.env("VOLERY_SLOTS", "1").stdout(Stdio::null()).status().unwrap().success());
    fs::write(stage.path("go"), "").unwrap();
    let third = stage.newest_of(3);
    assert_eq!(stage.outcome_by_itself(&third, PATIENCE)["outcome"], json!("succeeded"));
}
