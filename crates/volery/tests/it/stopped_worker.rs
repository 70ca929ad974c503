//! A worker that is stopped cannot supervise its agent, so its keeper ends the run; a continued worker keeps running.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::test_env::{PATIENCE, TestEnv, run_processes, state_and_parent, tagged, wait_for};

/// A keeper leaves a worker alone that is stopped for less than this time.
const DOUBT: Duration = Duration::from_millis(400);

/// Starts an agent with descendants and returns its run, once they are all there.
fn start(env: &TestEnv, containment: &str) -> String {
    let (up, go) = (env.path("up"), env.path("go"));
    let steps = [format!("touch:{}", up.display()), format!("wait-file:{}", go.display())];
    let children = ["setsid-child:60000", "double-fork:60000", "clean-env-child:60000"];
    let steps = [&["say:before"], &children[..], &[&steps[0], &steps[1], "say:after"]].concat();
    env.fake("slow", &steps, &format!("containment: {containment}"));
    let id = env.start("slow", "x");
    wait_for(PATIENCE, "the agent to be up", || up.exists().then_some(()));
    let spool = env.run_dir(&id).join("stdout");
    wait_for(PATIENCE, "the first words", || fs::read(&spool).ok().filter(|bytes| !bytes.is_empty()));
    id
}

#[test]
fn is_ended_by_its_keeper_and_nothing_is_left() {
    for containment in ["auto", "plain"] {
        let env = TestEnv::new();
        let id = start(&env, containment);
        let worker = run_processes(&env.run_dir(&id)).worker.unwrap();
        worker.signal(Signal::STOP);
        let ending = env.outcome_by_itself(&id, PATIENCE);
        assert_eq!(tagged(env.tag(&id)), Vec::<u32>::new());
        let cause = json!({"cause": "interrupted", "lost": "hung_worker"});
        assert_eq!((&ending["outcome"], &ending["cause"]), (&json!("partial"), &cause));
        assert_eq!(env.json(["show", &id])["result"], json!("before\n"));
    }
}

#[test]
fn without_its_keeper_is_ended_by_the_next_query() {
    for containment in ["auto", "plain"] {
        let env = TestEnv::new();
        let id = start(&env, containment);
        let run_processes = run_processes(&env.run_dir(&id));
        // The keeper is killed first: alive, it would end the stopped worker itself.
        let (keeper, worker) = (run_processes.keeper.unwrap(), run_processes.worker.unwrap());
        keeper.signal(Signal::KILL);
        worker.signal(Signal::STOP);
        let ended = wait_for(PATIENCE, "a look to end the run", || {
            Some(env.json(["show", &id])).filter(|shown| shown["ended"] == json!(true))
        });
        let cause = json!({"cause": "interrupted", "lost": "keeper_and_worker"});
        assert_eq!((&ended["outcome"]["cause"], &ended["result"]), (&cause, &json!("before\n")), "{ended}");
        assert_eq!(tagged(env.tag(&id)), Vec::<u32>::new());
    }
}

#[test]
fn with_a_stopped_keeper_is_ended_by_the_next_query() {
    let env = TestEnv::new();
    let id = start(&env, "auto");
    let run_processes = run_processes(&env.run_dir(&id));
    // The keeper first: a running keeper would end the stopped worker itself.
    for one in [run_processes.keeper.unwrap(), run_processes.worker.unwrap()] {
        one.signal(Signal::STOP);
    }
    let ended = wait_for(PATIENCE, "a look to end the run", || {
        Some(env.json(["show", &id])).filter(|shown| shown["ended"] == json!(true))
    });
    let cause = json!({"cause": "interrupted", "lost": "keeper_and_worker"});
    assert_eq!((&ended["outcome"]["cause"], &ended["result"]), (&cause, &json!("before\n")), "{ended}");
    assert_eq!(tagged(env.tag(&id)), Vec::<u32>::new());
}

/// Starts a run and stops its worker for a moment. A busy machine may make the moment longer than the keeper waits, and
/// then nothing is known: another run is started.
fn start_and_pause() -> (TestEnv, String) {
    for _ in 0..20 {
        let env = TestEnv::new();
        let id = start(&env, "auto");
        let worker = run_processes(&env.run_dir(&id)).worker.unwrap();
        let since = Instant::now();
        worker.signal(Signal::STOP);
        wait_for(PATIENCE, "the worker to be stopped", || {
            state_and_parent(worker.pid).is_some_and(|(state, _)| state == 'T').then_some(())
        });
        worker.signal(Signal::CONT);
        if since.elapsed() < DOUBT {
            return (env, id);
        }
        fs::write(env.path("go"), "").unwrap();
        env.outcome_by_itself(&id, PATIENCE);
    }
    panic!("the machine is too busy to stop a process for less than {DOUBT:?}");
}

#[test]
fn goes_on_when_it_is_continued_at_once() {
    let (env, id) = start_and_pause();
    // Longer than the keeper's doubt: the run must survive the moment at which it looks again.
    let doubt = Instant::now() + Duration::from_millis(700);
    wait_for(PATIENCE, "the doubt to pass", || (Instant::now() > doubt).then_some(()));
    fs::write(env.path("go"), "").unwrap();
    let ending = env.outcome_by_itself(&id, PATIENCE);
    assert_eq!(
        (&ending["outcome"], &ending["result"]["inline"]),
        (&json!("succeeded"), &json!("before\nafter\n"))
    );
}
