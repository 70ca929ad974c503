//! Nothing of a run survives its end, whatever its processes do to stay.

use std::time::Duration;

use serde_json::{Value, json};

use super::scenario::{DEADLINE, RunningScenario, fresh_tag, readable, request, start_scenario};
use crate::{Pid, ProcessHandle, Signal, kill_tree, own_tag, spawn_agent, tagged_processes};

/// How each hostile child is asked for, with a life that is longer than any test.
const HOSTILE: [&str; 11] = [
    "setsid-child:60000",
    "double-fork:60000",
    "grandchild:60000",
    "clean-env-child:60000",
    "overwrite-env-child:60000",
    "non-dumpable-child:60000",
    "term-ignoring-child:60000",
    "fork-chain:60000",
    "lowered-limit-child:60000",
    "leaderless-child:60000",
    "stopped-child:60000",
];

fn pids(report: &Value) -> Vec<Pid> {
    let numbers = report["pids"].as_array().expect("the report names processes").iter();
    let numbers =
        numbers.map(|pid| i32::try_from(pid.as_i64().expect("a number")).expect("a process number"));
    numbers.map(|pid| Pid::from_raw(pid).expect("not zero")).collect()
}

/// Checks the last report of a scenario: every process is gone and collected.
fn assert_swept(report: &Value, because: &str) {
    let found = json!({ "alive": report["alive"], "left": report["left"], "silent": report["silent"],
        "childless": report["childless"] });
    let expected = json!({ "alive": [], "left": 0, "silent": true, "childless": true });
    assert_eq!(found, expected, "{because}");
}

fn check_each(mode: &str, demand: &str) {
    for hostile in HOSTILE {
        let mut running = start_scenario(mode, demand, &[hostile, "say:ready", "hang"], &json!({}));
        let Some(ready) = running.ready() else { return };
        assert!(pids(&ready).len() >= 2, "{hostile} was not found beside its agent: {ready}");
        let namespace = demand == "strict";
        assert_eq!(ready["containment"]["pid_namespace"], namespace, "{hostile}");
        let report = running.next();
        assert_swept(&report, hostile);
        assert!(report["killed"].as_u64().is_some_and(|count| count >= 1), "{hostile}: {report}");
    }
}

#[test]
fn a_sweep_ends_every_hostile_child() {
    check_each("sweep", "plain");
}

#[test]
fn a_sweep_ends_every_hostile_child_in_a_namespace() {
    check_each("sweep", "strict");
}

#[test]
fn a_sweep_ends_every_hostile_child_without_a_control_group() {
    for hostile in HOSTILE {
        let mut running = start_scenario(
            "sweep",
            "plain",
            &[hostile, "say:ready", "hang"],
            &json!({ "without_cgroup": true }),
        );
        assert!(running.ready().is_some(), "{hostile}");
        assert_swept(&running.next(), hostile);
    }
}

#[test]
fn a_kill_by_tag_ends_every_hostile_child() {
    check_each("kill", "plain");
    check_each("kill", "strict");
}

#[test]
fn a_keeper_sweeps_after_its_worker_was_killed() {
    for demand in ["plain", "strict"] {
        for hostile in HOSTILE {
            let mut running = start_scenario("worker", demand, &[hostile, "say:ready", "hang"], &json!({}));
            let Some(ready) = running.ready() else { return };
            kill(&ready["worker"]);
            assert_swept(&running.next(), &format!("{hostile}, {demand}"));
        }
    }
}

#[test]
fn a_later_sweep_ends_what_keeper_and_worker_left() {
    // A process that hides its marks is found only by the keeper that adopts it, or is held by a namespace.
    for hostile in HOSTILE.into_iter().filter(|hostile| !hostile.starts_with("lowered-limit")) {
        let mut running = start_scenario("abandon", "plain", &[hostile, "say:ready", "hang"], &json!({}));
        let ready = running.ready().expect("plain is never refused");
        let tree = open_all(&ready);
        kill_keeper(&running);
        let killed = kill_tree(running.tag, &[]).expect("processes can be listed");
        assert_eq!(killed.survivors, [], "{hostile}");
        // The kernel hangs up on a stopped process whose group has lost its last parent.
        assert!(killed.count >= 1 || hostile.starts_with("stopped"), "{hostile} had gone by itself");
        assert_all_end(&tree, hostile);
    }
}

#[test]
fn a_namespace_ends_by_itself_when_its_worker_is_killed() {
    for hostile in HOSTILE {
        let mut running = start_scenario("abandon", "strict", &[hostile, "say:ready", "hang"], &json!({}));
        let Some(ready) = running.ready() else { return };
        let tree = open_all(&ready);
        kill_keeper(&running);
        assert_all_end(&tree, hostile);
        let left = tagged_processes(running.tag).expect("processes can be listed");
        assert!(left.iter().all(|process| process.dead), "{hostile}: {left:?}");
    }
}

#[test]
fn an_agent_dies_with_its_worker() {
    let mut running = start_scenario("abandon", "plain", &["ignore-term", "say:ready", "hang"], &json!({}));
    let ready = running.ready().expect("plain is never refused");
    let tree = open_all(&ready);
    kill_keeper(&running);
    assert_all_end(&tree, "the agent");
}

#[test]
fn many_short_lived_grandchildren_leave_nothing() {
    for demand in ["plain", "strict"] {
        let mut running =
            start_scenario("sweep", demand, &["short-lived:200", "say:ready", "hang"], &json!({}));
        if running.ready().is_none() {
            return;
        }
        assert_swept(&running.next(), demand);
    }
}

#[test]
fn five_hundred_agents_leave_no_zombie_and_no_descriptor() {
    for demand in ["plain", "strict"] {
        let one = json!({ "times": 1, "argv": ["/bin/true"] });
        let mut once = start_scenario("many", demand, &[], &one);
        let first = once.next();
        let mut running =
            start_scenario("many", demand, &[], &json!({ "times": 500, "argv": ["/bin/true"] }));
        let all = running.next();
        assert_eq!(all["children"], 0, "{demand}");
        assert_eq!(all["descriptors"], first["descriptors"], "{demand}");
    }
}

#[test]
fn a_tree_is_not_touched_by_the_sweep_of_another() {
    let mut bystander =
        spawn_agent(&request(&["setsid-child:60000", "say:ready", "hang"])).expect("it starts");
    assert!(readable(&bystander.stdout, DEADLINE));
    let mut swept = spawn_agent(&request(&["say:ready", "hang"])).expect("it starts");
    assert!(readable(&swept.stdout, DEADLINE));
    let killed = swept.agent.sweep().expect("processes can be listed");
    assert_eq!((killed.count, killed.survivors.len()), (1, 0));
    assert_eq!(bystander.agent.try_exit().expect("it can be asked"), None);
    assert_eq!(bystander.agent.sweep().expect("processes can be listed").count, 2);
}

#[test]
fn the_tags_are_seen_from_inside_and_outside() {
    assert_eq!(own_tag(), None, "the tests run inside a run");
    let agent_request = request(&["say:ready", "env", "limits"]);
    let mut started = spawn_agent(&agent_request).expect("it starts");
    let output = super::scenario::read_all(&started.stdout);
    let hexadecimal = format!("VOLERY_RUN_TAG={:016x}", agent_request.tag);
    assert!(output.contains(&hexadecimal), "{output}");
    let limit =
        output.lines().find(|line| line.starts_with("Max file locks")).expect("the kernel has the limit");
    let numbers: Vec<&str> = limit.split_whitespace().skip(3).take(2).collect();
    assert_eq!(numbers, [agent_request.tag.to_string(), agent_request.tag.to_string()]);
    started.agent.sweep().expect("processes can be listed");
}

#[test]
fn the_variable_alone_marks_a_process_and_what_is_below_it() {
    // Marked by its limit for one run, by its variable for another; its child has neither mark of the second.
    let second = fresh_tag();
    let mut agent_request = request(&["clean-env-child:60000", "say:ready", "hang"]);
    agent_request.argv.splice(0..0, ["env".into(), format!("VOLERY_RUN_TAG={second:016x}").into()]);
    let mut started = spawn_agent(&agent_request).expect("it starts");
    assert!(readable(&started.stdout, DEADLINE));
    let found = tagged_processes(second).expect("processes can be listed");
    let agent = started.agent.pid();
    let parents: Vec<Option<Pid>> = found.iter().map(|process| process.parent).collect();
    assert_eq!(parents, [Some(rustix::process::getpid()), Some(agent)]);
    let killed = kill_tree(second, &[]).expect("processes can be listed");
    assert_eq!((killed.count, killed.survivors.len()), (2, 0));
    started.agent.sweep().expect("processes can be listed");
}

fn kill(pid: &Value) {
    let pid = i32::try_from(pid.as_i64().expect("a number")).expect("a process number");
    let pid = Pid::from_raw(pid).expect("not zero");
    rustix::process::kill_process(pid, Signal::KILL).expect("it is there");
}

fn kill_keeper(running: &RunningScenario) {
    running.keeper.signal(Signal::KILL).expect("the keeper is there");
    assert!(readable(&running.keeper, DEADLINE), "the keeper does not end");
}

/// Opens the processes of a report, as far as they are still there: those of a chain come and go.
fn open_all(ready: &Value) -> Vec<ProcessHandle> {
    pids(ready).into_iter().filter_map(|pid| ProcessHandle::open(pid).ok()).collect()
}

fn assert_all_end(tree: &[ProcessHandle], because: &str) {
    for process in tree {
        assert!(readable(process, Duration::from_secs(5)), "{because}: {:?} lives on", process.pid());
    }
}
