//! Processes as a test sees them: by number, by tag, and never left behind.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::Child;

/// A child that is killed and collected when the test is done with it, however the test ends.
pub(crate) struct KillOnDrop(pub(crate) Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns whether a process exists and is not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start().chars().next();
    !matches!(state, None | Some('Z' | 'X'))
}

/// Kills a process that this test started, directly or not.
pub(crate) fn kill(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // It may be gone already.
    let _ = rustix::process::kill_process(pid, signal);
}

/// Returns the living processes that carry a run's tag in their limits or environment.
pub(crate) fn tagged(tag: u64) -> Vec<u32> {
    tagged_with_any(&HashSet::from([tag]))
}

/// Returns the living processes that carry one of these tags.
pub(crate) fn tagged_with_any(tags: &HashSet<u64>) -> Vec<u32> {
    let carries = |pid: &u32| {
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
        let line = limits.lines().find(|line| line.starts_with("Max file locks")).unwrap_or_default();
        let by_limit = line.split_whitespace().nth(3).and_then(|text| text.parse().ok());
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        let by_variable = variables.find_map(|entry| entry.strip_prefix(b"VOLERY_RUN_TAG="));
        let by_variable = by_variable.and_then(|hex| std::str::from_utf8(hex).ok());
        let by_variable = by_variable.and_then(|hex| u64::from_str_radix(hex, 16).ok());
        [by_limit, by_variable].into_iter().flatten().any(|tag| tags.contains(&tag))
    };
    super::pids().into_iter().filter(carries).filter(|pid| is_alive(*pid)).collect()
}

/// Returns the living processes with an argument that contains this text.
pub(crate) fn with_argument(text: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let carries = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    };
    pids.filter(carries).filter(|pid| is_alive(*pid)).collect()
}

/// Returns the most memory that a process has had so far, in bytes.
pub(crate) fn peak_memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Returns the control groups of runs with one of these tags.
pub(crate) fn control_groups(tags: &HashSet<u64>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = open.pop() {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let name = entry.file_name();
            let tag = name.to_str().and_then(|name| name.strip_prefix("volery-"));
            match tag.and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
                Some(tag) if tags.contains(&tag) => found.push(entry.path()),
                Some(_) | None => open.push(entry.path()),
            }
        }
    }
    found
}
