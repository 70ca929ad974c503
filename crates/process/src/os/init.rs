//! The first process of a pid namespace: starts the agent, collects dead processes, reports how the agent ended, and
//! stays until it is killed or the worker is gone. Its end is the end of every process in the namespace.
//!
//! It is a fork of the worker that never executes a program, so all its code must be safe after fork.

use std::ffi::{CStr, c_int};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::child::{
    ChildPlan, LaunchStage, ParentKind, StageContext, StageError, become_agent, die_with_parent, exit,
    fork_into, last_errno, mark, send,
};
use super::signals;

/// The maps of a user namespace in which user and group keep their ids.
pub(super) struct UserMaps<'a> {
    pub(super) user: &'a [u8],
    pub(super) group: &'a [u8],
}

/// Runs the namespace. Called in its first process, with all signals blocked.
pub(super) fn run(plan: &ChildPlan<'_>, maps: Option<&UserMaps<'_>>) -> ! {
    if let Err(failed) = set_up(plan, maps) {
        send(plan.report, failed.stage, failed.errno.raw_os_error());
        exit(127)
    }
    let (agent, joined) = fork_into(plan.groups.folder, 0, std::ptr::null_mut());
    match agent {
        // The child runs only code that is safe after fork until it executes the agent.
        0 => become_agent(plan, ParentKind::Init, joined),
        agent if agent > 0 => run_loop(plan, agent),
        _ => {
            send(plan.report, LaunchStage::Fork, last_errno().raw_os_error());
            exit(127)
        }
    }
}

fn set_up(plan: &ChildPlan<'_>, maps: Option<&UserMaps<'_>>) -> Result<(), StageError> {
    signals::default_all();
    die_with_parent(plan.parent).at_stage(LaunchStage::Parent)?;
    if let Some(maps) = maps {
        // Without rights in the parent's namespace a group map is accepted only once setgroups is off.
        write_file(c"/proc/self/setgroups", b"deny").at_stage(LaunchStage::UserMap)?;
        write_file(c"/proc/self/uid_map", maps.user).at_stage(LaunchStage::UserMap)?;
        write_file(c"/proc/self/gid_map", maps.group).at_stage(LaunchStage::UserMap)?;
    }
    mark(plan.tag).at_stage(LaunchStage::Limits)?;
    // Slave, not private: what is mounted outside still shows up here, what is mounted here stays here.
    mount(c"none", c"/", c"", libc::MS_REC | libc::MS_SLAVE).at_stage(LaunchStage::Mounts)?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount(c"proc", c"/proc", c"proc", flags).at_stage(LaunchStage::Proc)?;
    // This process has the worker's environment in its memory, which the agent could read as that of process 1.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .at_stage(LaunchStage::Proc)
}

/// Collects dead processes until the end.
fn run_loop(plan: &ChildPlan<'_>, agent: libc::c_long) -> ! {
    // Comm only helps people who read a process list.
    let _ = rustix::thread::set_name(c"volery-init");
    close_all_but(plan.parent.as_raw_fd(), plan.status.as_raw_fd());
    let _ = rustix::process::chdir(c"/");
    let Some(child_exits) = child_exit_fd() else { exit(1) };
    let mut collecting = false;
    loop {
        let mut polled = [
            PollFd::new(&plan.parent, PollFlags::IN),
            PollFd::from_borrowed_fd(as_borrowed(&child_exits), PollFlags::IN),
        ];
        if poll(&mut polled, None).is_err() {
            continue;
        }
        let [parent, child_exited] = polled.map(|fd| !fd.revents().is_empty());
        if parent {
            // One byte: the worker has a descriptor of the agent, so its process id may be reused. End of file: the
            // worker is gone.
            match rustix::io::read(plan.parent, &mut [0_u8]) {
                Ok(0) => exit(0),
                Ok(_) => collecting = true,
                Err(_) => {}
            }
        }
        if child_exited {
            let _ = rustix::io::read(&child_exits, &mut [0_u8; 128]);
        }
        if collecting {
            collect(plan.status, agent);
        }
    }
}

fn collect(status: BorrowedFd<'_>, agent: libc::c_long) {
    loop {
        let mut status_code: c_int = 0;
        // SAFETY: the pointer is to a local of the right type.
        let pid = unsafe { libc::waitpid(-1, &raw mut status_code, libc::WNOHANG) };
        if pid <= 0 {
            return;
        }
        if libc::c_long::from(pid) == agent {
            // Without a reader the worker is gone, and this process will be in a moment.
            let _ = rustix::io::write(status, &status_code.to_ne_bytes());
        }
    }
}

/// SIGCHLD as a descriptor; it is blocked already.
fn child_exit_fd() -> Option<OwnedFd> {
    let mut set = signals::empty();
    // SAFETY: the set is initialised; the descriptor that signalfd returns is ours alone.
    unsafe {
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        let raw = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        (raw >= 0).then(|| OwnedFd::from_raw_fd(raw))
    }
}

fn as_borrowed(fd: &OwnedFd) -> BorrowedFd<'_> {
    std::os::fd::AsFd::as_fd(fd)
}

/// Closes every descriptor but two: the agent's streams must end with the agent, the run's lock with the worker.
fn close_all_but(one: c_int, other: c_int) {
    let (low, high) = (one.min(other), one.max(other));
    for (first, last) in [(0, low - 1), (low + 1, high - 1), (high + 1, c_int::MAX)] {
        if first > last {
            continue;
        }
        // SAFETY: none of these descriptors is used in this process again.
        if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } != 0 {
            for fd in first..=last.min(4096) {
                // SAFETY: as above.
                unsafe { libc::close(fd) };
            }
        }
    }
}

fn mount(source: &CStr, target: &CStr, kind: &CStr, flags: libc::c_ulong) -> Result<(), Errno> {
    // SAFETY: the strings are terminated and live through the call; there is no further text.
    let answer = unsafe {
        libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null::<libc::c_void>())
    };
    if answer == 0 { Ok(()) } else { Err(last_errno()) }
}

fn write_file(path: &CStr, text: &[u8]) -> Result<(), Errno> {
    use rustix::fs::{Mode, OFlags};
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(file, text).map(|_| ())
}
