//! SIGKILL of server, keeper and worker in every combination, at each named point of a run. With a keeper left, the
//! run has its outcome and nobody needs to look; without, whoever looks next finds it out. Nothing
//! is ever left behind, with a pid namespace or without.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use super::play::{COMBINATIONS, KillCase, RUNNING, Victim, WITHOUT_WORKER, play};
use crate::test_env::{PATIENCE, TestEnv, kill, run_processes, tagged, wait_for};

fn play_all(point: &'static str, combinations: &[&'static [Victim]]) {
    for victims in combinations {
        for containment in ["auto", "plain"] {
            play(KillCase { failpoint: point, victims, containment });
        }
    }
}

#[test]
fn while_the_door_makes_the_record_durable() {
    play_all("door_started_keeper", &WITHOUT_WORKER);
}

#[test]
fn when_the_door_has_sent_go() {
    play_all("door_said_go", &COMBINATIONS);
}

#[test]
fn when_the_keeper_has_started() {
    play_all("keeper_started", &WITHOUT_WORKER);
}

#[test]
fn when_the_worker_has_claimed_the_run() {
    play_all("worker_claimed", &COMBINATIONS);
}

#[test]
fn when_the_agent_was_started() {
    play_all("worker_spawned_agent", &COMBINATIONS);
}

#[test]
fn while_the_agent_works() {
    play_all(RUNNING, &COMBINATIONS);
}

#[test]
fn when_the_agent_has_ended() {
    play_all("worker_saw_exit", &COMBINATIONS);
}

#[test]
fn when_nothing_is_left_of_the_agent() {
    play_all("worker_swept", &COMBINATIONS);
}

#[test]
fn when_the_ending_was_written() {
    play_all("worker_wrote_ending", &COMBINATIONS);
}

#[test]
fn when_the_client_was_notified_of_the_end() {
    play_all("worker_notified", &COMBINATIONS);
}

#[test]
fn a_keeper_that_has_just_found_its_worker_dead_is_killed_too() {
    let env = TestEnv::new();
    env.fake("slow", &["say:before", "setsid-child:60000", "sleep:60000"], "containment: plain");
    env.hold("keeper_found_worker_dead");
    let id = env.start("slow", "x");
    let spool = env.run_dir(&id).join("stdout");
    wait_for(PATIENCE, "the first words", || fs::read(&spool).ok().filter(|bytes| !bytes.is_empty()));
    run_processes(&env.run_dir(&id)).worker.unwrap().signal(Signal::KILL);
    kill(env.wait_until_held("keeper_found_worker_dead"), Signal::KILL);
    let shown = wait_for(PATIENCE, "a look to end the run", || {
        Some(env.json(["show", &id])).filter(|shown| shown["ended"] == json!(true))
    });
    let cause = json!({"cause": "interrupted", "lost": "keeper_and_worker"});
    assert_eq!(shown["outcome"], json!({"outcome": "partial", "cause": cause}));
    assert_eq!((&shown["result"], env.times_ended(&id)), (&json!("before\n"), 1));
    assert_eq!(tagged(env.tag(&id)), Vec::<u32>::new());
}
