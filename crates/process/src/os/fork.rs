//! Fork without exec: how a keeper leaves the process that started it, and splits into keeper and worker.

use std::io;

use rustix::process::Pid;

use super::ProcessHandle;
use super::channel::pipe;
use super::child::exit;
use super::signals;

/// Which of the two processes this is after [`fork_worker`].
#[derive(Debug)]
pub enum Forked {
    /// The parent, with its child.
    Keeper(ProcessHandle),
    /// The child. All signals are unblocked and have the meaning that they have at the start of a Rust program.
    Worker,
}

/// Forks this process, which must have a single thread.
///
/// The child has no parent-death signal: a worker outlives its keeper. Signals are blocked while it happens, so that
/// none meets a handler of the parent in the child.
pub fn fork_worker() -> io::Result<Forked> {
    if !single_threaded() {
        return Err(io::Error::other("a process with several threads cannot fork a worker"));
    }
    let blocked = signals::block_all()?;
    // SAFETY: there is one thread, so no lock is held by a thread that the child lacks.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        signals::default_all();
        // An agent that ends without reading its prompt must not take the worker with it.
        signals::ignore_broken_pipes();
        signals::unblock_all();
        return Ok(Forked::Worker);
    }
    let error = io::Error::last_os_error();
    drop(blocked);
    match Pid::from_raw(pid.max(0)) {
        Some(pid) => Ok(Forked::Keeper(ProcessHandle::open(pid)?)),
        None => Err(error),
    }
}

/// Continues in a child outside the process tree of the starter, once this process, which must have a single thread,
/// is gone.
///
/// Some programs end all descendants of a server when they end the server.
pub fn leave_starter() -> io::Result<()> {
    if !single_threaded() {
        return Err(io::Error::other("a process with several threads cannot leave its starter"));
    }
    let (starter_end, starter_guard) = pipe()?;
    let blocked = signals::block_all()?;
    // SAFETY: there is one thread, so no lock is held by a thread that the child lacks.
    match unsafe { libc::fork() } {
        0 => {}
        -1 => return Err(io::Error::last_os_error()),
        _ => exit(0),
    }
    drop((blocked, starter_guard));
    // Nothing is ever written: the read ends when the process that this one replaces has ended.
    rustix::io::retry_on_intr(|| rustix::io::read(&starter_end, &mut [0_u8; 1]))?;
    rustix::process::setsid()?;
    Ok(())
}

#[cfg(target_os = "linux")]
fn single_threaded() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}

#[cfg(not(target_os = "linux"))]
fn single_threaded() -> bool {
    true
}
