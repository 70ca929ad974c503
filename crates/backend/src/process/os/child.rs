//! The agent's side between fork and exec. Only calls that are safe there: nothing allocates, locks or panics, and
//! everything that can be prepared was prepared before the fork.

use std::convert::Infallible;
use std::ffi::{CStr, c_char, c_int};
use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};

use super::signals;

/// Where the way to exec ended. Sent as a number from the child to its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(in crate::process) enum Stage {
    /// Not a failure: the agent of a namespace tells its number.
    Ready = 0,
    Parent = 1,
    UserMap = 2,
    Mounts = 3,
    Proc = 4,
    Fork = 5,
    Group = 6,
    Limits = 7,
    Cgroup = 8,
    Directory = 9,
    Descriptors = 10,
    Exec = 11,
}

impl Stage {
    pub(super) fn from_number(number: u32) -> Option<Self> {
        [
            Self::Ready,
            Self::Parent,
            Self::UserMap,
            Self::Mounts,
            Self::Proc,
            Self::Fork,
            Self::Group,
            Self::Limits,
            Self::Cgroup,
            Self::Directory,
            Self::Descriptors,
            Self::Exec,
        ]
        .into_iter()
        .find(|stage| *stage as u32 == number)
    }

    pub(in crate::process) fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "telling its number",
            Self::Parent => "watching its parent",
            Self::UserMap => "mapping its user",
            Self::Mounts => "separating its mounts",
            Self::Proc => "mounting its /proc",
            Self::Fork => "forking",
            Self::Group => "making its process group",
            Self::Limits => "setting its resource limits",
            Self::Cgroup => "joining its control group",
            Self::Directory => "entering its directory",
            Self::Descriptors => "arranging its descriptors",
            Self::Exec => "executing its program",
        }
    }
}

/// What failed in the child.
pub(super) struct Failed {
    pub(super) stage: Stage,
    pub(super) errno: Errno,
}

/// Whether the process is the worker's own child, which must watch its parent, or lives below an init that does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Above {
    Worker,
    Init,
}

/// Everything the child needs, prepared before the fork.
pub(super) struct Plan<'a> {
    pub(super) program: &'a CStr,
    /// Ends with a null pointer, as does `env`.
    pub(super) argv: &'a [*const c_char],
    pub(super) env: &'a [*const c_char],
    pub(super) directory: &'a CStr,
    /// What becomes 0, 1 and 2; none of them is 0, 1 or 2 yet.
    pub(super) stdio: [RawFd; 3],
    pub(super) report: BorrowedFd<'a>,
    /// Readable, at its end, when the worker is gone.
    pub(super) parent: BorrowedFd<'a>,
    #[cfg(target_os = "linux")]
    pub(super) status: BorrowedFd<'a>,
    /// The run's mark; set before anything else can be started.
    pub(super) tag: u64,
    pub(super) limits: &'a [(Resource, Rlimit)],
    pub(super) cgroups: &'a [BorrowedFd<'a>],
}

/// Becomes the agent, or reports why not and exits.
pub(super) fn become_agent(plan: &Plan<'_>, above: Above) -> ! {
    let Err(failed) = try_become_agent(plan, above);
    send(plan.report, failed.stage, failed.errno.raw_os_error());
    exit(127)
}

/// Sends a stage and an error number to the parent.
pub(super) fn send(report: BorrowedFd<'_>, stage: Stage, errno: i32) {
    let [a, b, c, d] = (stage as u32).to_ne_bytes();
    let [e, f, g, h] = errno.to_ne_bytes();
    // A parent that is gone has nobody to tell: the failure shows as an exit.
    let _ = rustix::io::write(report, &[a, b, c, d, e, f, g, h]);
}

pub(super) fn exit(code: c_int) -> ! {
    // SAFETY: _exit runs no handlers and is allowed after fork.
    unsafe { libc::_exit(code) }
}

pub(super) trait At<T> {
    /// Names the stage of a failure.
    fn at(self, stage: Stage) -> Result<T, Failed>;
}

impl<T> At<T> for Result<T, Errno> {
    fn at(self, stage: Stage) -> Result<T, Failed> {
        self.map_err(|errno| Failed { stage, errno })
    }
}

fn try_become_agent(plan: &Plan<'_>, above: Above) -> Result<Infallible, Failed> {
    signals::default_all();
    rustix::process::setpgid(None, None).at(Stage::Group)?;
    match above {
        Above::Worker => {
            die_with_parent(plan.parent).at(Stage::Parent)?;
            mark(plan.tag).at(Stage::Limits)?;
        }
        // The init has done both, and its end is the end of the namespace.
        Above::Init => send(plan.report, Stage::Ready, 0),
    }
    for group in plan.cgroups {
        rustix::io::write(group, b"0").at(Stage::Cgroup)?;
    }
    for (resource, limit) in plan.limits {
        rustix::process::setrlimit(*resource, *limit).at(Stage::Limits)?;
    }
    rustix::process::chdir(plan.directory).at(Stage::Directory)?;
    for (source, target) in plan.stdio.into_iter().zip(0..) {
        // SAFETY: the sources are open and above 2, so that none is overwritten before it is used.
        if unsafe { libc::dup2(source, target) } < 0 {
            return Err(Failed { stage: Stage::Descriptors, errno: last_errno() });
        }
    }
    close_from_three_on_exec().at(Stage::Descriptors)?;
    signals::unblock_all();
    // SAFETY: program, argv and env are terminated as execve requires, and outlive the call.
    unsafe { libc::execve(plan.program.as_ptr(), plan.argv.as_ptr(), plan.env.as_ptr()) };
    Err(Failed { stage: Stage::Exec, errno: last_errno() })
}

/// Gives this process the run's mark. It cannot be raised again without rights over resources.
#[cfg(target_os = "linux")]
pub(super) fn mark(tag: u64) -> Result<(), Errno> {
    rustix::process::setrlimit(Resource::Locks, Rlimit { current: Some(tag), maximum: Some(tag) })
}

#[cfg(not(target_os = "linux"))]
fn mark(_tag: u64) -> Result<(), Errno> {
    Ok(())
}

/// Asks for SIGKILL when the parent dies, and makes sure that it had not died before.
pub(super) fn die_with_parent(parent: BorrowedFd<'_>) -> Result<(), Errno> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let mut polled = [rustix::event::PollFd::new(&parent, rustix::event::PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    match rustix::event::poll(&mut polled, Some(&now))? {
        0 => Ok(()),
        _ => Err(Errno::PIPE),
    }
}

pub(super) fn last_errno() -> Errno {
    // The error's number is held in the value itself: nothing is allocated.
    let number = std::io::Error::last_os_error().raw_os_error();
    Errno::from_raw_os_error(number.unwrap_or(libc::EINVAL))
}

#[cfg(target_os = "linux")]
fn close_from_three_on_exec() -> Result<(), Errno> {
    // SAFETY: marking descriptors for closing at exec invalidates none of them here.
    let answer = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if answer == 0 {
        return Ok(());
    }
    mark_each_from_three();
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn close_from_three_on_exec() -> Result<(), Errno> {
    mark_each_from_three();
    Ok(())
}

/// For systems without a call for a range: one by one, up to a number that a worker does not reach.
fn mark_each_from_three() {
    for fd in 3..4096 {
        // SAFETY: F_SETFD on a number that is not open is refused and changes nothing.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}
