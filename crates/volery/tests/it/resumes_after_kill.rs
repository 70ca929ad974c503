//! A loop whose worker is killed goes on in a new worker: what was completed is not repeated, and an effect that is
//! in doubt happens at most once and is reported.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::stage::{PATIENCE, Stage, kill, tagged, wait_for};

const STEPS: &str = "- append: {path: log, text: \"one\\n\"}
- say: one
- append: {path: log, text: \"two\\n\"}
- say: two
- append: {path: log, text: \"three\\n\"}
- say: three";

struct Resumed {
    stage: Stage,
    shown: Value,
    log: String,
    id: String,
}

/// Kills the worker at the point, as often as asked, each time the one that takes over.
fn resume(point: &str, kills: u32) -> Resumed {
    let stage = Stage::new();
    stage.rehearsal("steps", STEPS, "on_interrupt: resume");
    stage.hold(point);
    let id = stage.start("steps", "x");
    let mut last = 0;
    for _ in 0..kills {
        let worker =
            wait_for(PATIENCE, "the next worker", || Some(stage.held(point)).filter(|pid| *pid != last));
        kill(worker, Signal::KILL);
        last = worker;
    }
    // The keeper is at work on the next one before this one may be released.
    stage.release(point);
    stage.outcome_by_itself(&id, PATIENCE);
    let shown = stage.json(["show", &id]);
    let log = fs::read_to_string(stage.project().join("log")).unwrap();
    Resumed { stage, shown, log, id }
}

impl Resumed {
    #[track_caller]
    fn check(&self, log: &str, doubts: usize) {
        assert_eq!(self.shown["outcome"], json!({"outcome": "succeeded"}));
        assert_eq!(self.shown["result"], json!("one\ntwo\nthree\n"));
        assert_eq!(self.log, log);
        let events = self.stage.events(&self.id);
        let in_doubt = events.iter().filter(|event| event["type"] == "call_in_doubt").count();
        assert_eq!(in_doubt, doubts);
        let warnings = self.shown["warnings"].as_array().map_or(0, Vec::len);
        assert_eq!(warnings, doubts, "{}", self.shown["warnings"]);
        for call in 0..6 {
            let completed =
                |event: &&Value| event["type"] == "call_completed" && event["call"] == json!(call);
            assert_eq!(events.iter().filter(completed).count(), 1, "call {call}");
        }
        assert_eq!(tagged(self.stage.tag(&self.id)), Vec::<u32>::new());
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
fn a_run_that_may_not_resume_ends_with_what_it_said() {
    let stage = Stage::new();
    stage.rehearsal("steps", "- say: one\n- append: {path: log, text: x}\n- say: two", "");
    stage.hold("worker_made_effect");
    let id = stage.start("steps", "x");
    kill(stage.held("worker_made_effect"), Signal::KILL);
    let ending = stage.outcome_by_itself(&id, PATIENCE);
    assert_eq!(ending["cause"], json!({"cause": "interrupted", "lost": "worker"}));
    assert_eq!(ending["result"]["inline"], json!("one\n"));
}
