//! A loop whose worker is killed continues in a new worker: what was completed is not repeated, and an effect that is
//! in doubt happens at most once and is reported.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_env::{PATIENCE, TestEnv, kill, tagged, wait_for};

const STEPS: &str = "- append: {path: log, text: \"one\\n\"}
- say: one
- append: {path: log, text: \"two\\n\"}
- say: two
- append: {path: log, text: \"three\\n\"}
- say: three";

struct ResumedRun {
    env: TestEnv,
    shown: Value,
    log: String,
    id: String,
}

/// Kills the worker at the point `kills` times, each time the one that took over.
fn resume(point: &str, kills: u32) -> ResumedRun {
    let env = TestEnv::new();
    env.rehearsal("steps", STEPS, "on_interrupt: resume");
    env.hold(point);
    let id = env.start("steps", "x");
    let mut last = 0;
    for _ in 0..kills {
        let worker = wait_for(PATIENCE, "the next worker", || {
            Some(env.wait_until_held(point)).filter(|pid| *pid != last)
        });
        kill(worker, Signal::KILL);
        last = worker;
    }
    // The keeper is at work on the next one before this one may be released.
    env.release(point);
    env.outcome_by_itself(&id, PATIENCE);
    let shown = env.json(["show", &id]);
    let log = fs::read_to_string(env.project().join("log")).unwrap();
    ResumedRun { env, shown, log, id }
}

impl ResumedRun {
    #[track_caller]
    fn check(&self, log: &str, doubts: usize) {
        assert_eq!(self.shown["outcome"], json!({"outcome": "succeeded"}));
        assert_eq!(self.shown["result"], json!("one\ntwo\nthree\n"));
        assert_eq!(self.log, log);
        let events = self.env.events(&self.id);
        let in_doubt = events.iter().filter(|event| event["type"] == "call_in_doubt").count();
        assert_eq!(in_doubt, doubts);
        let warnings = self.shown["warnings"].as_array().map_or(0, Vec::len);
        assert_eq!(warnings, doubts, "{}", self.shown["warnings"]);
        for call in 0..6 {
            let completed =
                |event: &&Value| event["type"] == "call_completed" && event["call"] == json!(call);
            assert_eq!(events.iter().filter(completed).count(), 1, "call {call}");
        }
        assert_eq!(tagged(self.env.tag(&self.id)), Vec::<u32>::new());
    }
}

#[test]
fn before_an_effect_it_is_in_doubt_and_not_made() {
    resume("worker_requested_call", 1).check("two\nthree\n", 1);
}

#[test]
fn after_an_effect_it_is_in_doubt_and_not_made_again() {
    resume("worker_made_effect", 1).check("one\ntwo\nthree\n", 1);
}

#[test]
fn after_a_completed_call_it_goes_on_with_the_next() {
    resume("worker_completed_call", 1).check("one\ntwo\nthree\n", 0);
}

#[test]
fn again_and_again_each_worker_goes_on_where_the_last_one_was() {
    resume("worker_completed_call", 4).check("one\ntwo\nthree\n", 0);
}

#[test]
fn a_run_that_may_not_resume_ends_with_its_partial_output() {
    let env = TestEnv::new();
    env.rehearsal("steps", "- say: one\n- append: {path: log, text: x}\n- say: two", "");
    env.hold("worker_made_effect");
    let id = env.start("steps", "x");
    kill(env.wait_until_held("worker_made_effect"), Signal::KILL);
    let ending = env.outcome_by_itself(&id, PATIENCE);
    assert_eq!(ending["cause"], json!({"cause": "interrupted", "lost": "worker"}));
    assert_eq!(ending["result"]["inline"], json!("one\n"));
}
