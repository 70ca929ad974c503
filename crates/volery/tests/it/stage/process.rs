//! Processes as a test sees them: by number, by tag, and never left behind.

use std::process::Child;

/// A child that is killed and collected when the test is done with it, however the test ends.
pub(crate) struct Guarded(pub(crate) Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Tells whether a process exists and is not merely an entry that nobody has collected.
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
    let variable = format!("VOLERY_RUN_TAG={tag:016x}");
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let carries = |pid: &u32| {
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
        let line = limits.lines().find(|line| line.starts_with("Max file locks")).unwrap_or_default();
        let by_limit = line.split_whitespace().nth(3) == Some(tag.to_string().as_str());
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        by_limit || environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
    };
    pids.filter(carries).filter(|pid| is_alive(*pid)).collect()
}
