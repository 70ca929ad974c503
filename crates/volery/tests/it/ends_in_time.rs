//! Time-outs, cancels and the signals of a terminal: each ends the run as it says, and explains it.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::stage::{Guarded, PATIENCE, Stage, kill, said, tagged, wait_for};

fn outcome(frontmatter: &str, steps: &[&str]) -> (Value, Value) {
    let stage = Stage::new();
    stage.fake("slow", steps, frontmatter);
    let run = stage.volery(["run", "slow", "go", "--json"]).exits(4).json();
    assert_eq!(tagged(stage.tag(&stage.only_run())), Vec::<u32>::new());
    (run["outcome"].clone(), run["explanation"].clone())
}

#[test]
fn the_total_time_passes_without_a_word() {
    let (outcome, explanation) = outcome("timeout: 250ms", &["hang"]);
    assert_eq!(outcome, json!({"outcome": "timed_out", "limit": "total"}));
    assert_eq!(explanation, json!("timed out: the total time-out passed"));
}

#[test]
fn white_space_is_no_usable_output() {
    let (outcome, _) = outcome("timeout: 250ms", &["say:  ", "hang"]);
    assert_eq!(outcome, json!({"outcome": "timed_out", "limit": "total"}));
}

#[test]
fn what_was_said_before_the_time_passed_is_partial() {
    let (outcome, explanation) = outcome("timeout: 2s", &["say:something", "hang"]);
    assert_eq!(outcome, json!({"outcome": "partial", "cause": {"cause": "timed_out", "limit": "total"}}));
    assert_eq!(
        explanation,
        json!("partial: timed out, the total time-out passed, with usable output so far")
    );
}

#[test]
fn silence_ends_a_run_with_an_idle_time_out() {
    let (outcome, explanation) = outcome("idle_timeout: 250ms", &["hang"]);
    assert_eq!(outcome, json!({"outcome": "timed_out", "limit": "idle"}));
    assert_eq!(explanation, json!("timed out: no output for the idle time-out"));
}

#[test]
fn output_puts_the_idle_time_out_off() {
    // The pauses add up to more than the time-out and are each far below it, so that a slow machine changes nothing.
    let steps =
        ["say:1", "sleep:900", "err:2", "sleep:900", "say:3", "sleep:900", "say:4", "sleep:900", "hang"];
    let stage = Stage::new();
    stage.fake("slow", &steps, "idle_timeout: 3s");
    let run = stage.volery(["run", "slow", "go", "--json"]).exits(4).json();
    assert_eq!(run["result"], json!("1\n3\n4\n"));
    assert_eq!(run["outcome"]["cause"], json!({"cause": "timed_out", "limit": "idle"}));
    // Three pauses and the idle time-out take 5.7 s; without new output the run ends after 3 s.
    assert!(run["duration_ms"].as_u64().unwrap() >= 5_000, "{run}");
}

#[test]
fn an_agent_that_is_asked_to_stop_may_use_its_grace() {
    let stage = Stage::new();
    // `sh` ends when its trap is done, well within the grace.
    let script = "trap 'echo tidied up; exit 0' TERM; echo working; while :; do sleep 0.05; done";
    stage
        .backend("polite", &["sh", "-c", script])
        .agent("polite", "backend: polite\ntimeout: 2s\ngrace: 20s");
    let began = Instant::now();
    let run = stage.volery(["run", "polite", "go", "--json"]).exits(4).json();
    assert_eq!(run["result"], json!("working\ntidied up\n"), "{run}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

/// Starts an agent that does not care about being asked, with a grace that no test waits for.
fn stubborn(stage: &Stage) -> String {
    stage.fake("stubborn", &["ignore-term", "say:here", "hang"], "grace: 1h");
    let id = stage.start("stubborn", "go");
    let spool = stage.run_dir(&id).join("stdout");
    wait_for(PATIENCE, "the agent's word", || std::fs::read(&spool).ok().filter(|text| !text.is_empty()));
    id
}

#[test]
fn a_second_cancel_kills_now() {
    let stage = Stage::new();
    let id = stubborn(&stage);
    let said = stage.volery(["cancel", &id]).ok().stdout;
    assert!(said.ends_with("is asked to stop\n"), "{said}");
    stage.event(&id, "stop_asked");
    assert_eq!(stage.json(["show", &id])["status"], json!("stopping"));
    stage.volery(["cancel", &id, "--now"]).ok();
    let shown = stage.ended(&id);
    assert_eq!(shown["outcome"]["outcome"], json!("partial"), "{shown}");
    assert_eq!(shown["outcome"]["cause"]["cause"], json!("cancelled"), "{shown}");
    assert_eq!(tagged(stage.tag(&id)), Vec::<u32>::new());
    let said = stage.volery(["cancel", &id]).ok().stdout;
    assert!(said.ends_with("has ended already\n"), "{said}");
}

#[test]
fn the_same_cancel_twice_changes_nothing_and_says_what_would() {
    let stage = Stage::new();
    let id = stubborn(&stage);
    stage.volery(["cancel", &id]).ok();
    stage.event(&id, "stop_asked");
    let said = stage.volery(["cancel", &id]).ok().stdout;
    assert!(said.ends_with("was asked to stop already; cancel --now kills it\n"), "{said}");
    assert_eq!(stage.json(["show", &id])["status"], json!("stopping"));
    stage.volery(["cancel", "--now", &id]).ok();
    assert_eq!(stage.ended(&id)["outcome"]["cause"]["cause"], json!("cancelled"));
}

/// Starts `volery run` on a stubborn agent and returns it with the id of the run, once the agent speaks.
fn terminal(stage: &Stage) -> (Guarded, String) {
    stage.fake("stubborn", &["ignore-term", "say:here", "hang"], "grace: 1h");
    let mut command = stage.command(["run", "stubborn", "go"]);
    let shell = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = wait_for(PATIENCE, "the run", || stage.runs().pop());
    wait_for(PATIENCE, "the agent's word", || {
        std::fs::read(stage.run_dir(&id).join("stdout")).ok().filter(|text| !text.is_empty())
    });
    (Guarded(shell), id)
}

fn exit_of(shell: &mut Guarded) -> i32 {
    wait_for(PATIENCE, "the command to leave", || shell.0.try_wait().unwrap()).code().unwrap()
}

#[test]
fn the_first_interrupt_cancels_and_waits_and_the_second_kills() {
    let stage = Stage::new();
    let (mut shell, id) = terminal(&stage);
    kill(shell.0.id(), Signal::INT);
    stage.event(&id, "stop_asked");
    assert_eq!(shell.0.try_wait().unwrap(), None, "the command waits for the end");
    kill(shell.0.id(), Signal::INT);
    assert_eq!(exit_of(&mut shell), 130);
    let shown = stage.json(["show", &id]);
    assert_eq!((&shown["ended"], &shown["result"]), (&json!(true), &json!("here\n")));
    assert_eq!(shown["outcome"]["cause"], json!({"cause": "cancelled", "by": "the terminal"}));
    assert_eq!(tagged(stage.tag(&id)), Vec::<u32>::new());
}

#[test]
fn a_terminal_that_goes_away_leaves_the_run() {
    let stage = Stage::new();
    let (mut shell, id) = terminal(&stage);
    kill(shell.0.id(), Signal::HUP);
    assert_eq!(exit_of(&mut shell), 130);
    let left = stage.event(&id, "door_left");
    assert_eq!(left["policy"], json!("continue"), "{left}");
    assert_eq!(stage.json(["show", &id])["status"], json!("running"));
    stage.volery(["cancel", "--now", &id]).ok();
    let shown = stage.ended(&id);
    assert_eq!(shown["result"], json!("here\n"));
}

#[test]
fn a_wait_that_is_interrupted_never_ends_the_run() {
    let stage = Stage::new();
    let id = stubborn(&stage);
    let mut command = stage.command(["wait", &id]);
    let mut shell =
        Guarded(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    // It is waiting once it listens to signals; before that the signal ends it all the same.
    kill(shell.0.id(), Signal::INT);
    wait_for(PATIENCE, "the wait to end", || shell.0.try_wait().unwrap());
    let waited = said(stage.command(["wait", &id, "--timeout", "50ms"]).output().unwrap());
    assert_eq!(waited.code, 4, "{waited:?}");
    assert_eq!(stage.json(["show", &id])["status"], json!("running"));
    stage.volery(["cancel", "--now", &id]).ok();
    stage.ended(&id);
}
