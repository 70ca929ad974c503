//! A walk over `/proc` sees each process once, also one that begins while it looks.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use super::playing::{read_all, request};
use crate::process::spawn_agent;
use crate::process::walk::Proc;

/// As many as it takes for some to begin between two looks of a walk.
const AGENTS: usize = 200;

#[test]
fn a_process_that_begins_meanwhile_is_seen_once() {
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
            let mut seen = HashSet::new();
            let mut twice = Vec::new();
            let walked = Proc::open().and_then(|mut proc| {
                proc.visit_all(|_, stat| {
                    if !seen.insert((stat.pid, stat.started)) {
                        twice.push(stat.pid);
                    }
                })
            });
            assert!(walked.is_ok() && twice.is_empty(), "{walked:?} {twice:?}");
        }
    });
}
