//! For the keeper: adopts the orphans of its descendants, collects the dead, and takes signals as a descriptor.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::{Pid, Signal, WaitOptions};

use super::os::{ProcessHandle, SignalFd};
use domain::run::Exit;

/// The id of the process that became a subreaper here. A forked worker learns from it that its parent adopts orphans,
/// as long as that is its parent: a process that inherits the worker of a dead keeper has children of all kinds.
static ADOPTER: AtomicI32 = AtomicI32::new(0);

/// The state of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildStatus {
    /// Ended, and is collected.
    Ended(Exit),
    /// Stopped by this signal, and still there.
    Stopped(i32),
}

/// Makes this process the parent of its descendants' orphans.
pub fn become_subreaper() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        ADOPTER.store(rustix::process::getpid().as_raw_nonzero().get(), Ordering::Relaxed);
    }
    Ok(())
}

/// Returns the process that adopts orphans of this one's children, if it is this one or its parent.
pub(super) fn adopter() -> Option<Pid> {
    if is_subreaper() {
        return Some(rustix::process::getpid());
    }
    let adopter = Pid::from_raw(ADOPTER.load(Ordering::Relaxed));
    adopter.filter(|adopter| rustix::process::getppid() == Some(*adopter))
}

#[cfg(target_os = "linux")]
pub(super) fn is_subreaper() -> bool {
    rustix::process::child_subreaper().is_ok_and(|adopts| adopts.is_some())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_subreaper() -> bool {
    false
}

/// Collects every child that has ended and notes every one that was stopped, without waiting.
pub fn reap_all() -> Vec<(Pid, ChildStatus)> {
    let mut statuses = Vec::new();
    // The loop ordinarily ends with an error, because no child is left.
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
        let status = match (status.exit_status(), status.terminating_signal(), status.stopping_signal()) {
            (Some(code), _, _) => ChildStatus::Ended(Exit::Code(code)),
            (_, Some(signal), _) => ChildStatus::Ended(Exit::Signal(signal)),
            (_, _, Some(signal)) => ChildStatus::Stopped(signal),
            (None, None, None) => continue,
        };
        statuses.push((pid, status));
    }
    statuses
}

/// Returns whether there is any child, ended or not.
pub fn has_children() -> bool {
    let options = rustix::process::WaitIdOptions::EXITED
        | rustix::process::WaitIdOptions::NOHANG
        | rustix::process::WaitIdOptions::NOWAIT;
    rustix::process::waitid(rustix::process::WaitId::All, options).is_ok()
}

/// Returns whether a process is stopped by a signal at this moment.
pub fn is_stopped(pid: Pid) -> bool {
    let stat = super::proc_fs::Proc::open().ok().and_then(|mut proc| proc.stat(pid));
    stat.is_some_and(|stat| stat.state == 'T')
}

/// Finds a process by its id, if it is one of this program's with this argument on its command line.
///
/// Another process that has the same id by chance has another command line.
pub fn find_own_process(pid: Pid, argument: &std::ffi::OsStr) -> Option<ProcessHandle> {
    let handle = ProcessHandle::open(pid).ok()?;
    let mut proc = super::proc_fs::Proc::open().ok()?;
    // Checked after it was opened: the id refers to this process until the handle is dropped.
    let found = proc.stat(pid).filter(|stat| !stat.is_dead()).is_some()
        && proc.has_argument(pid, argument.as_encoded_bytes());
    found.then_some(handle)
}

/// Blocks these signals and returns a descriptor that is readable when one has arrived.
///
/// For a process with a single thread. A worker forked by [`super::fork_worker`] starts with all signals unblocked.
pub fn signal_fd(signals: &[Signal]) -> io::Result<SignalFd> {
    SignalFd::new(signals)
}
