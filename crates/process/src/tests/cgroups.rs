//! Control groups: made where they are useful, gone when the run is.

use std::path::{Path, PathBuf};

use super::scenario::{DEADLINE, readable, request};
use crate::{AgentRequest, CgroupUse, ResourceLimits, kill_tree, remove_cgroup, spawn_agent};

fn folders(tag: u64) -> Vec<PathBuf> {
    let name = format!("volery-{tag:016x}");
    let mut found = Vec::new();
    let mut open = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                match entry.file_name() == name.as_str() {
                    true => found.push(entry.path()),
                    false => open.push(entry.path()),
                }
            }
        }
    }
    found
}

fn limited() -> AgentRequest {
    let limits = ResourceLimits {
        memory_bytes: Some(1 << 30),
        processes: Some(64),
        cpu_ms: Some(60_000),
        ..ResourceLimits::default()
    };
    AgentRequest { limits, cgroup: CgroupUse::WhereUseful, ..request(&["say:ready", "hang"]) }
}

#[test]
fn a_group_holds_the_agent_and_is_removed_with_it() {
    let agent_request = limited();
    let mut started = spawn_agent(&agent_request).expect("it starts");
    assert!(readable(&started.stdout, DEADLINE));
    if started.agent.containment.cgroup.is_none() {
        eprintln!("SKIPPED: {:?}", started.agent.containment.missing);
        assert!(!started.agent.containment.missing.is_empty(), "nothing says why there is no group");
        started.agent.sweep().expect("processes can be listed");
        return;
    }
    let made = folders(agent_request.tag);
    assert!(!made.is_empty());
    let pid = started.agent.pid().to_string();
    for folder in &made {
        let members = std::fs::read_to_string(folder.join("cgroup.procs")).expect("a group has members");
        assert_eq!(members.trim(), pid, "{}", folder.display());
    }
    started.agent.sweep().expect("processes can be listed");
    assert_eq!(folders(agent_request.tag), Vec::<PathBuf>::new());
}

#[test]
fn a_kill_by_tag_removes_the_group_too() {
    let agent_request = limited();
    let mut started = spawn_agent(&agent_request).expect("it starts");
    assert!(readable(&started.stdout, DEADLINE));
    let killed = kill_tree(agent_request.tag, &[]).expect("processes can be listed");
    assert_eq!((killed.count, killed.survivors.len()), (1, 0));
    assert_eq!(folders(agent_request.tag), Vec::<PathBuf>::new());
    started.agent.sweep().expect("there is nothing left to do");
}

#[test]
fn no_group_is_made_without_need() {
    let agent_request = AgentRequest { cgroup: CgroupUse::Never, ..limited() };
    let mut started = spawn_agent(&agent_request).expect("it starts");
    assert_eq!((started.agent.containment.cgroup.as_ref(), folders(agent_request.tag).len()), (None, 0));
    started.agent.sweep().expect("processes can be listed");
}

#[test]
fn a_failed_start_leaves_no_group() {
    let agent_request = AgentRequest { argv: vec!["/no/such/agent".into()], ..limited() };
    assert!(spawn_agent(&agent_request).is_err());
    assert_eq!(folders(agent_request.tag), Vec::<PathBuf>::new());
}

#[test]
fn a_stale_group_is_removed_by_its_tag() {
    let agent_request = limited();
    let mut started = spawn_agent(&agent_request).expect("it starts");
    assert!(readable(&started.stdout, DEADLINE));
    let made = folders(agent_request.tag);
    // The agent is killed, and nobody sweeps.
    started.agent.handle().signal(crate::Signal::KILL).expect("it is there");
    assert!(readable(&started.agent.exit_fd(), DEADLINE));
    started.agent.try_exit().expect("it can be asked");
    assert_eq!(made.iter().filter(|folder| folder.exists()).count(), made.len());
    remove_cgroup(agent_request.tag).expect("empty groups can be removed");
    assert!(made.iter().all(|folder: &PathBuf| !Path::exists(folder)));
    remove_cgroup(agent_request.tag).expect("nothing to remove is no error");
}
