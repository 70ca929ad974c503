//! A worker that is stopped cannot do its duty, so its keeper ends the run; one that is continued goes on.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::stage::{PATIENCE, Stage, crew, state_and_parent, tagged, wait_for};

/// A stopped worker is ended after this time: half a second of doubt, and the sweep.
const SOON: Duration = Duration::from_millis(1_200);

/// Starts an agent with descendants and returns its run, once they are all there.
fn start(stage: &Stage, containment: &str) -> String {
    let (up, go) = (stage.path("up"), stage.path("go"));
    let steps = [format!("touch:{}", up.display()), format!("wait-file:{}", go.display())];
    let children = ["setsid-child:60000", "double-fork:60000", "clean-env-child:60000"];
    let steps = [&["say:before"], &children[..], &[&steps[0], &steps[1], "say:after"]].concat();
    stage.fake("slow", &steps, &format!("containment: {containment}"));
    let id = stage.start("slow", "x");
    wait_for(PATIENCE, "the agent to be up", || up.exists().then_some(()));
    let spool = stage.run_dir(&id).join("stdout");
    wait_for(PATIENCE, "the first words", || fs::read(&spool).ok().filter(|said| !said.is_empty()));
    id
}

#[test]
fn is_ended_by_its_keeper_and_nothing_is_left() {
    for containment in ["auto", "plain"] {
        let stage = Stage::new();
        let id = start(&stage, containment);
        let worker = crew(&stage.run_dir(&id)).worker.unwrap();
        worker.signal(Signal::STOP);
        let since = Instant::now();
        let ending = stage.outcome_by_itself(&id, PATIENCE);
        let took = since.elapsed();
        assert_eq!(tagged(stage.tag(&id)), Vec::<u32>::new());
        let cause = json!({"cause": "interrupted", "lost": "hung_worker"});
        assert_eq!((&ending["outcome"], &ending["cause"]), (&json!("partial"), &cause));
        assert_eq!(stage.json(["show", &id])["result"], json!("before\n"));
        assert!(took <= SOON, "{containment}: it took {took:?}");
    }
}

#[test]
fn without_its_keeper_is_ended_by_whoever_looks() {
    for containment in ["auto", "plain"] {
        let stage = Stage::new();
        let id = start(&stage, containment);
        let crew = crew(&stage.run_dir(&id));
        // The keeper is killed first: alive, it would end the stopped worker itself.
        let (keeper, worker) = (crew.keeper.unwrap(), crew.worker.unwrap());
        keeper.signal(Signal::KILL);
        worker.signal(Signal::STOP);
        let ended = wait_for(PATIENCE, "a look to end the run", || {
            Some(stage.json(["show", &id])).filter(|shown| shown["ended"] == json!(true))
        });
        let cause = json!({"cause": "interrupted", "lost": "keeper_and_worker"});
        assert_eq!((&ended["outcome"]["cause"], &ended["result"]), (&cause, &json!("before\n")), "{ended}");
        assert_eq!(tagged(stage.tag(&id)), Vec::<u32>::new());
    }
}

#[test]
fn with_a_stopped_keeper_is_ended_by_whoever_looks() {
    let stage = Stage::new();
    let id = start(&stage, "auto");
    let crew = crew(&stage.run_dir(&id));
    // The keeper first: one that goes on would end the stopped worker itself.
    for one in [crew.keeper.unwrap(), crew.worker.unwrap()] {
        one.signal(Signal::STOP);
    }
    let ended = wait_for(PATIENCE, "a look to end the run", || {
        Some(stage.json(["show", &id])).filter(|shown| shown["ended"] == json!(true))
    });
    let cause = json!({"cause": "interrupted", "lost": "keeper_and_worker"});
    assert_eq!((&ended["outcome"]["cause"], &ended["result"]), (&cause, &json!("before\n")), "{ended}");
    assert_eq!(tagged(stage.tag(&id)), Vec::<u32>::new());
}

#[test]
fn goes_on_when_it_is_continued_at_once() {
    let stage = Stage::new();
    let id = start(&stage, "auto");
    let worker = crew(&stage.run_dir(&id)).worker.unwrap();
    worker.signal(Signal::STOP);
    wait_for(PATIENCE, "the worker to be stopped", || {
        state_and_parent(worker.pid).is_some_and(|(state, _)| state == 'T').then_some(())
    });
    worker.signal(Signal::CONT);
    // Longer than the keeper's doubt: the run must survive the moment at which it looks again.
    let doubt = Instant::now() + Duration::from_millis(700);
    wait_for(PATIENCE, "the doubt to pass", || (Instant::now() > doubt).then_some(()));
    fs::write(stage.path("go"), "").unwrap();
    let ending = stage.outcome_by_itself(&id, PATIENCE);
    assert_eq!(
        (&ending["outcome"], &ending["result"]["inline"]),
        (&json!("succeeded"), &json!("before\nafter\n"))
    );
}
