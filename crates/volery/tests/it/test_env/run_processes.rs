//! The processes that carry out a run: found by their command line, and killed by descriptors that mean exactly them.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Keeper or worker of a run.
#[derive(Debug)]
pub(crate) struct RunProcess {
    pub(crate) pid: u32,
    handle: OwnedFd,
}

impl RunProcess {
    /// Sends a signal; one who is gone already does not mind.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        pidfd_send_signal(&self.handle, signal).is_ok()
    }

    /// Kills it and waits until it is gone, and with it what it held: a lock is free only then.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
        let mut gone = [PollFd::new(&self.handle, PollFlags::IN)];
        let patience = Timespec::try_from(super::PATIENCE).unwrap();
        assert_eq!(poll(&mut gone, Some(&patience)), Ok(1), "{} does not die", self.pid);
    }
}

/// Keeper and worker of a run, as far as they exist at the moment of the look.
#[derive(Debug, Default)]
pub(crate) struct RunProcesses {
    pub(crate) keeper: Option<RunProcess>,
    pub(crate) worker: Option<RunProcess>,
}

/// Returns keeper and worker of a run while its keeper lives.
pub(crate) fn run_processes(run_dir: &Path) -> RunProcesses {
    let name = run_dir.file_name().unwrap().to_str().unwrap();
    all_run_processes(run_dir.ancestors().nth(3).unwrap()).remove(name).unwrap_or_default()
}

/// Returns keepers and workers of all runs of a state directory, by the run's id.
///
/// A worker is a fork of its keeper, and so is the first process of a pid namespace a fork of the worker: they are
/// distinguished by their parents.
pub(crate) fn all_run_processes(state: &Path) -> HashMap<String, RunProcesses> {
    let runs = state.join("runs");
    let found = pids().into_iter().filter_map(|pid| Some((pid, run_of(pid, &runs)?)));
    let found: HashMap<u32, String> = found.collect();
    let mut all_run_processes: HashMap<String, RunProcesses> = HashMap::new();
    for (pid, run) in &found {
        let above = parent(*pid).filter(|above| found.get(above) == Some(run));
        let member = || {
            let raw = Pid::from_raw(i32::try_from(*pid).unwrap()).unwrap();
            let handle = pidfd_open(raw, PidfdFlags::empty()).ok()?;
            // Only now is it certain that the number still means this process.
            (run_of(*pid, &runs).as_ref() == Some(run)).then_some(RunProcess { pid: *pid, handle })
        };
        let run_processes = all_run_processes.entry(run.clone()).or_default();
        match above {
            None => run_processes.keeper = member(),
            Some(above) if parent(above).is_none_or(|top| found.get(&top) != Some(run)) => {
                run_processes.worker = member();
            }
            Some(_) => {}
        }
    }
    all_run_processes
}

/// Returns the numbers of all processes.
pub(crate) fn pids() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the state letter and the parent of a process.
pub(crate) fn state_and_parent(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn parent(pid: u32) -> Option<u32> {
    state_and_parent(pid).map(|(_, parent)| parent)
}

fn run_of(pid: u32, runs: &Path) -> Option<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<&str> =
        line.split(|byte| *byte == 0).map(|word| std::str::from_utf8(word).unwrap_or_default()).collect();
    let (Some(&"__keeper"), Some(directory)) = (words.get(1), words.get(2)) else { return None };
    let directory = Path::new(directory);
    directory.starts_with(runs).then(|| directory.file_name()?.to_str().map(ToOwned::to_owned)).flatten()
}
