//! Time-outs, cancels and the signals of a terminal: each ends the run as it says, and explains it.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_env::{KillOnDrop, PATIENCE, TestEnv, command_output, kill, tagged, wait_for};

fn outcome(frontmatter: &str, steps: &[&str]) -> (Value, Value) {
    let env = TestEnv::new();
    env.fake("slow", steps, frontmatter);
    let run = env.volery(["run", "slow", "go", "--json"]).exits(4).json();
    assert_eq!(tagged(env.tag(&env.only_run())), Vec::<u32>::new());
    (run["outcome"].clone(), run["explanation"].clone())
}

#[test]
fn the_total_time_passes_without_a_word() {
    let (outcome, explanation) = outcome("timeout: 250ms", &["hang"]);
    assert_eq!(outcome, json!({"outcome": "timed_out", "limit": "total"}));
    insta::assert_snapshot!(explanation, @r#""timed out: the total time-out passed""#);
}

#[test]
fn white_space_is_no_usable_output() {
    let (outcome, _) = outcome("timeout: 250ms", &["say:  ", "hang"]);
    assert_eq!(outcome, json!({"outcome": "timed_out", "limit": "total"}));
}

#[test]
fn output_before_the_timeout_is_a_partial_result() {
    let (outcome, explanation) = outcome("timeout: 2s", &["say:something", "hang"]);
    assert_eq!(outcome, json!({"outcome": "partial", "cause": {"cause": "timed_out", "limit": "total"}}));
    insta::assert_snapshot!(explanation, @r#""partial: timed out, the total time-out passed, with usable output so far""#);
}

#[test]
fn silence_ends_a_run_with_an_idle_time_out() {
    let (outcome, explanation) = outcome("idle_timeout: 250ms", &["hang"]);
    assert_eq!(outcome, json!({"outcome": "timed_out", "limit": "idle"}));
    insta::assert_snapshot!(explanation, @r#""timed out: silent for 250ms (idle_timeout)""#);
}

#[test]
fn output_puts_the_idle_time_out_off() {
    // The pauses add up to more than the time-out and are each far below it, so that a slow machine changes nothing.
    let steps =
        ["say:1", "sleep:900", "err:2", "sleep:900", "say:3", "sleep:900", "say:4", "sleep:900", "hang"];
    let env = TestEnv::new();
    env.fake("slow", &steps, "idle_timeout: 3s");
    let run = env.volery(["run", "slow", "go", "--json"]).exits(4).json();
    assert_eq!(run["result"], json!("1\n3\n4\n"));
    assert_eq!(run["outcome"]["cause"], json!({"cause": "timed_out", "limit": "idle"}));
    // Three pauses and the idle time-out take 5.7 s; without new output the run ends after 3 s.
    assert!(run["duration_ms"].as_u64().unwrap() >= 5_000, "{run}");
}

#[test]
fn an_agent_that_gets_the_stop_request_may_use_its_grace() {
    let env = TestEnv::new();
    // `sh` ends when its trap is done, well within the grace.
    let script = "trap 'echo tidied up; exit 0' TERM; echo working; while :; do sleep 0.05; done";
    env.backend("polite", &["sh", "-c", script]).agent("polite", "backend: polite\ntimeout: 2s\ngrace: 20s");
    let began = Instant::now();
    let run = env.volery(["run", "polite", "go", "--json"]).exits(4).json();
    assert_eq!(run["result"], json!("working\ntidied up\n"), "{run}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

/// Starts an agent that ignores the stop request, with a grace that no test waits for.
fn stubborn(env: &TestEnv) -> String {
    env.fake("stubborn", &["ignore-term", "say:here", "hang"], "grace: 1h");
    let id = env.start("stubborn", "go");
    let spool = env.run_dir(&id).join("stdout");
    wait_for(PATIENCE, "the agent's word", || std::fs::read(&spool).ok().filter(|text| !text.is_empty()));
    id
}

#[test]
fn a_second_cancel_kills_now() {
    let env = TestEnv::new();
    let id = stubborn(&env);
    let output = env.volery(["cancel", &id]).ok().stdout;
    insta::assert_snapshot!(env.masked(&output), @"[run-id] is asked to stop");
    env.wait_for_event(&id, "stop_asked");
    assert_eq!(env.json(["show", &id])["status"], json!("stopping"));
    env.volery(["cancel", &id, "--now"]).ok();
    let shown = env.wait_for_end(&id);
    assert_eq!(shown["outcome"]["outcome"], json!("partial"), "{shown}");
    assert_eq!(shown["outcome"]["cause"]["cause"], json!("cancelled"), "{shown}");
    assert_eq!(tagged(env.tag(&id)), Vec::<u32>::new());
    let output = env.volery(["cancel", &id]).ok().stdout;
    insta::assert_snapshot!(env.masked(&output), @"[run-id] has ended already");
}

#[test]
fn the_same_cancel_twice_changes_nothing_and_says_what_would() {
    let env = TestEnv::new();
    let id = stubborn(&env);
    env.volery(["cancel", &id]).ok();
    env.wait_for_event(&id, "stop_asked");
    let output = env.volery(["cancel", &id]).ok().stdout;
    insta::assert_snapshot!(env.masked(&output), @"[run-id] was asked to stop already; cancel --now kills it");
    assert_eq!(env.json(["show", &id])["status"], json!("stopping"));
    env.volery(["cancel", "--now", &id]).ok();
    assert_eq!(env.wait_for_end(&id)["outcome"]["cause"]["cause"], json!("cancelled"));
}

/// Starts `volery run` on a stubborn agent and returns it with the id of the run, once the agent speaks.
fn terminal(env: &TestEnv) -> (KillOnDrop, String) {
    env.fake("stubborn", &["ignore-term", "say:here", "hang"], "grace: 1h");
    let mut command = env.command(["run", "stubborn", "go"]);
    let shell = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = wait_for(PATIENCE, "the run", || env.runs().pop());
    wait_for(PATIENCE, "the agent's word", || {
        std::fs::read(env.run_dir(&id).join("stdout")).ok().filter(|text| !text.is_empty())
    });
    (KillOnDrop(shell), id)
}

fn exit_of(shell: &mut KillOnDrop) -> i32 {
    wait_for(PATIENCE, "the command to leave", || shell.0.try_wait().unwrap()).code().unwrap()
}

#[test]
fn the_first_interrupt_cancels_and_waits_and_the_second_kills() {
    let env = TestEnv::new();
    let (mut shell, id) = terminal(&env);
    kill(shell.0.id(), Signal::INT);
    env.wait_for_event(&id, "stop_asked");
    assert_eq!(shell.0.try_wait().unwrap(), None, "the command waits for the end");
    kill(shell.0.id(), Signal::INT);
    assert_eq!(exit_of(&mut shell), 130);
    let shown = env.json(["show", &id]);
    assert_eq!((&shown["ended"], &shown["result"]), (&json!(true), &json!("here\n")));
    assert_eq!(shown["outcome"]["cause"], json!({"cause": "cancelled", "by": "the terminal"}));
    assert_eq!(tagged(env.tag(&id)), Vec::<u32>::new());
}

#[test]
fn a_terminal_that_goes_away_leaves_the_run() {
    let env = TestEnv::new();
    let (mut shell, id) = terminal(&env);
    kill(shell.0.id(), Signal::HUP);
    assert_eq!(exit_of(&mut shell), 130);
    let left = env.wait_for_event(&id, "door_left");
    assert_eq!(left["policy"], json!("continue"), "{left}");
    assert_eq!(env.json(["show", &id])["status"], json!("running"));
    env.volery(["cancel", "--now", &id]).ok();
    let shown = env.wait_for_end(&id);
    assert_eq!(shown["result"], json!("here\n"));
}

#[test]
fn a_wait_that_is_interrupted_never_ends_the_run() {
    let env = TestEnv::new();
    let id = stubborn(&env);
    let mut command = env.command(["wait", &id]);
    let mut shell =
        KillOnDrop(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    // It is waiting once it listens to signals; before that the signal ends it all the same.
    kill(shell.0.id(), Signal::INT);
    wait_for(PATIENCE, "the wait to end", || shell.0.try_wait().unwrap());
    let waited = command_output(env.command(["wait", &id, "--timeout", "50ms"]).output().unwrap());
    assert_eq!(waited.code, 4, "{waited:?}");
    assert_eq!(env.json(["show", &id])["status"], json!("running"));
    env.volery(["cancel", "--now", &id]).ok();
    env.wait_for_end(&id);
}
