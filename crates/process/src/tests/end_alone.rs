//! Several programs of one run at once: one is ended, with everything that it started, and the others are not touched.

use std::time::{Duration, Instant};

use domain::run::{ContainmentDemand, Exit};

use super::scenario::{DEADLINE, read_all, readable, request};
use crate::{
    AgentRequest, CgroupUse, ResourceLimits, StartedAgent, kill_tree, spawn_agent, tagged_processes,
};

const DEMANDS: [ContainmentDemand; 2] = [ContainmentDemand::Plain, ContainmentDemand::Auto];

/// Starts another program with the marks of the run.
fn start(tag: u64, demand: ContainmentDemand, steps: &[&str]) -> StartedAgent {
    let agent_request = AgentRequest { tag, demand, ..request(steps) };
    let started = spawn_agent(&agent_request).expect("it starts");
    assert!(readable(&started.stdout, DEADLINE), "it is not ready");
    started
}

fn living(tag: u64) -> usize {
    tagged_processes(tag).expect("processes can be listed").iter().filter(|process| !process.dead).count()
}

/// Waits until only so many processes of the run live: those that lost their parent are collected by another process.
fn await_living(tag: u64, expected: usize, because: &str) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while living(tag) != expected {
        assert!(Instant::now() < deadline, "{because}: {} live", living(tag));
        std::thread::yield_now();
    }
}

#[test]
fn ending_one_program_leaves_the_others_of_its_run() {
    for demand in DEMANDS {
        for hostile in [
            "grandchild:60000",
            "setsid-child:60000",
            "term-ignoring-child:60000",
            "clean-env-child:60000",
            "stopped-child:60000",
            "non-dumpable-child:60000",
        ] {
            let tag = request(&[]).tag;
            let mut other = start(tag, demand, &["setsid-child:60000", "say:ready", "hang"]);
            let others = living(tag);
            let mut ended = start(tag, demand, &["ignore-term", hostile, "say:ready", "hang"]);
            assert!(living(tag) >= others + 2, "{hostile} was not started");
            let killed = ended.agent.end_alone().expect("processes can be listed");
            assert!(killed.count >= 2 && killed.survivors.is_empty(), "{demand:?} {hostile}: {killed:?}");
            assert_eq!(ended.agent.try_exit().expect("it can be asked"), Some(Exit::Signal(libc::SIGKILL)));
            await_living(tag, others, hostile);
            assert_eq!(other.agent.try_exit().expect("it can be asked"), None, "{demand:?} {hostile}");
            assert_eq!(ended.agent.end_alone().expect("a second end finds nothing").count, 0);
            assert!(other.agent.end_alone().expect("processes can be listed").count >= 2);
            await_living(tag, 0, hostile);
        }
    }
}

#[test]
fn what_a_program_leaves_behind_is_ended_after_it() {
    for demand in DEMANDS {
        let tag = request(&[]).tag;
        let mut other = start(tag, demand, &["say:ready", "hang"]);
        let mut ended = start(tag, demand, &["term-ignoring-child:60000", "say:ready", "exit:3"]);
        assert!(readable(&ended.agent.exit_fd(), DEADLINE), "it does not end");
        assert_eq!(ended.agent.try_exit().expect("it can be asked"), Some(Exit::Code(3)));
        let killed = ended.agent.end_alone().expect("processes can be listed");
        assert!(killed.survivors.is_empty(), "{killed:?}");
        // Its child has the output open, so this also shows that the child is gone.
        assert_eq!(read_all(&ended.stdout), "ready\n");
        assert_eq!(other.agent.try_exit().expect("it can be asked"), None, "{demand:?}");
        other.agent.end_alone().expect("processes can be listed");
        await_living(tag, 0, "the others");
    }
}

#[test]
fn a_process_that_left_its_group_and_its_parent_is_ended_with_the_run() {
    let tag = request(&[]).tag;
    let mut other = start(tag, ContainmentDemand::Plain, &["say:ready", "hang"]);
    let mut ended = start(tag, ContainmentDemand::Plain, &["double-fork:60000", "say:ready", "hang"]);
    ended.agent.end_alone().expect("processes can be listed");
    assert_eq!(other.agent.try_exit().expect("it can be asked"), None);
    assert_eq!(kill_tree(tag, &[other.agent.pid()]).expect("processes can be listed").survivors, []);
    await_living(tag, 0, "the run");
    other.agent.sweep().expect("processes can be listed");
}

#[test]
fn a_program_that_starts_others_without_end_is_ended() {
    for demand in DEMANDS {
        for steps in [["fork-chain:60000", "say:ready", "hang"], ["short-lived:2000", "say:ready", "hang"]] {
            let tag = request(&[]).tag;
            let mut other = start(tag, demand, &["say:ready", "hang"]);
            let mut ended = start(tag, demand, &steps);
            let killed = ended.agent.end_alone().expect("processes can be listed");
            assert!(killed.count >= 1 && killed.survivors.is_empty(), "{demand:?} {steps:?}: {killed:?}");
            assert_eq!(other.agent.try_exit().expect("it can be asked"), None, "{demand:?} {steps:?}");
            other.agent.sweep().expect("processes can be listed");
        }
    }
}

#[test]
fn programs_without_a_group_do_not_touch_the_group_of_the_run() {
    let tag = request(&[]).tag;
    let limits = ResourceLimits { memory_bytes: Some(1 << 30), ..ResourceLimits::default() };
    let with_group =
        AgentRequest { tag, limits, cgroup: CgroupUse::WhereUseful, ..request(&["say:ready", "hang"]) };
    let mut agent = spawn_agent(&with_group).expect("it starts");
    assert!(readable(&agent.stdout, DEADLINE));
    for demand in DEMANDS {
        let mut call = start(tag, demand, &["say:ready", "hang"]);
        assert_eq!(call.agent.containment.cgroup, None);
        assert_eq!(call.agent.end_alone().expect("processes can be listed").count, 1);
        assert_eq!(agent.agent.try_exit().expect("it can be asked"), None, "{demand:?}");
    }
    agent.agent.sweep().expect("processes can be listed");
}
