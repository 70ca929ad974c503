//! A walk over `/proc` sees each process once, also one that begins while it looks.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use super::scenario::{read_all, request};
use crate::proc_fs::Proc;
use crate::spawn_agent;

/// Enough for some to start between two reads of a walk.
const AGENTS: usize = 200;

#[test]
fn a_process_that_begins_meanwhile_is_visited_once() {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..AGENTS {
                let mut started = spawn_agent(&request(&["exit:0"])).expect("it starts");
                read_all(&started.stdout);
                started.agent.sweep().expect("processes can be listed");
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let mut visited = HashSet::new();
            let mut duplicates = Vec::new();
            let walked = Proc::open().and_then(|mut proc| {
                proc.visit_all(|_, stat| {
                    if !visited.insert((stat.pid, stat.started)) {
                        duplicates.push(stat.pid);
                    }
                })
            });
            assert!(walked.is_ok() && duplicates.is_empty(), "{walked:?} {duplicates:?}");
        }
    });
}
