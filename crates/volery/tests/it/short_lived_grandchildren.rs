//! An agent that makes thousands of grandchildren which end at once: their adopter collects them, so that no
//! entries of dead processes pile up, while it runs or afterwards.

use std::fs;

use serde_json::json;

use crate::test_env::{PATIENCE, TestEnv, pids, run_processes, state_and_parent, tagged, wait_for};

/// So many may be dead and not yet collected at any moment: a keeper that does not get a processor falls behind for
/// a moment, but half of all means that it does not collect at all.
const ZOMBIES_MAX: usize = 2_000;

fn check(containment: &str) {
    let env = TestEnv::new();
    let (up, go) = (env.path("up"), env.path("go"));
    let steps = [format!("touch:{}", up.display()), format!("wait-file:{}", go.display())];
    env.fake(
        "busy",
        &["short-lived:4000", &steps[0], &steps[1], "say:done"],
        &format!("containment: {containment}"),
    );
    let id = env.start("busy", "x");
    let dir = env.run_dir(&id);
    let run_processes = wait_for(PATIENCE, "the crew", || {
        Some(run_processes(&dir)).filter(|run_processes| run_processes.worker.is_some())
    });
    let keeper = run_processes.keeper.unwrap().pid;
    let mut most = 0;
    wait_for(PATIENCE, "all grandchildren to have been made", || {
        most = most.max(zombies_of(keeper));
        up.exists().then_some(())
    });
    assert!(most <= ZOMBIES_MAX, "{most} dead children were not collected");
    wait_for(PATIENCE, "the last ones to be collected", || (zombies_of(keeper) == 0).then_some(()));
    fs::write(go, "").unwrap();
    let ending = env.outcome_by_itself(&id, PATIENCE);
    assert_eq!((&ending["outcome"], &ending["result"]["inline"]), (&json!("succeeded"), &json!("done\n")));
    assert_eq!(tagged(env.tag(&id)), Vec::<u32>::new());
    wait_for(PATIENCE, "the keeper to leave", || {
        state_and_parent(keeper).is_none_or(|(state, _)| state == 'Z').then_some(())
    });
}

fn zombies_of(parent: u32) -> usize {
    let dead = |pid: &u32| state_and_parent(*pid) == Some(('Z', parent));
    let listed = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    match listed {
        Ok(children) => children.split_whitespace().filter_map(|pid| pid.parse().ok()).filter(dead).count(),
        Err(_) => pids().iter().filter(|pid| dead(pid)).count(),
    }
}

#[test]
fn leave_no_zombies_with_the_keeper() {
    check("plain");
}

#[test]
fn leave_no_zombies_in_a_namespace() {
    check("auto");
}
