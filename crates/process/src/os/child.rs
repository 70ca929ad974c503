//! The agent's side between fork and exec. Only calls that are safe there: nothing allocates, locks or panics, and
//! everything that can be prepared was prepared before the fork.

use std::convert::Infallible;
use std::ffi::{CStr, c_char, c_int};
use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};

use super::signals;
#[cfg(target_os = "linux")]
use super::{landlock, syscall_filter, syscall_filter::SyscallFilter};

/// The step at which the way to exec failed. Sent as a number from the child to its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum LaunchStage {
    /// Not a failure: the agent of a namespace reports its process id.
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
    Rules = 12,
    Privileges = 13,
    SyscallFilter = 14,
}

impl LaunchStage {
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
            Self::Rules,
            Self::Privileges,
            Self::SyscallFilter,
        ]
        .into_iter()
        .find(|stage| *stage as u32 == number)
    }

    pub(crate) fn as_str(self) -> &'static str {
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
            Self::Rules => "confining itself to its files",
            Self::Privileges => "giving up its privileges",
            Self::SyscallFilter => "filtering its system calls",
        }
    }
}

/// What failed in the child.
pub(super) struct StageError {
    pub(super) stage: LaunchStage,
    pub(super) errno: Errno,
}

/// Whether the process is the worker's own child, which must watch its parent, or is below an init that does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ParentKind {
    Worker,
    Init,
}

/// The control groups that the agent is to be in.
#[derive(Clone, Copy, Default)]
pub(crate) struct CgroupFds<'a> {
    /// The folder of the group of version 2, which a process can be started in.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "other systems have no control groups"))]
    pub(crate) folder: Option<BorrowedFd<'a>>,
    /// The file by which a process moves itself into the same group.
    pub(crate) procs: Option<BorrowedFd<'a>>,
    /// The files by which a thread moves itself into the groups of version 1.
    pub(crate) tasks: &'a [BorrowedFd<'a>],
}

/// What a process lays on itself before it executes its program.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy)]
pub(crate) struct ChildConfinement<'a> {
    pub(crate) ruleset: Option<BorrowedFd<'a>>,
    pub(crate) filter: Option<&'a SyscallFilter>,
}

/// The group that a new process is in from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joined {
    #[cfg(target_os = "linux")]
    Unified,
    None,
}

/// Everything the child needs, prepared before the fork.
pub(super) struct ChildPlan<'a> {
    pub(super) program: &'a CStr,
    /// Ends with a null pointer, as does `env`.
    pub(super) argv: &'a [*const c_char],
    pub(super) env: &'a [*const c_char],
    pub(super) directory: &'a CStr,
    /// What becomes 0, 1 and 2; none of them is 0, 1 or 2 yet.
    pub(super) stdio: [RawFd; 3],
    pub(super) report: BorrowedFd<'a>,
    /// Reaches its end when the worker is gone.
    pub(super) parent: BorrowedFd<'a>,
    #[cfg(target_os = "linux")]
    pub(super) status: BorrowedFd<'a>,
    /// The run's mark; set before anything else can be started.
    pub(super) tag: u64,
    pub(super) limits: &'a [(Resource, Rlimit)],
    pub(super) groups: CgroupFds<'a>,
    #[cfg(target_os = "linux")]
    pub(super) confinement: Option<ChildConfinement<'a>>,
}

/// Becomes the agent, or reports why not and exits.
pub(super) fn become_agent(plan: &ChildPlan<'_>, parent_kind: ParentKind, joined: Joined) -> ! {
    let Err(failed) = try_become_agent(plan, parent_kind, joined);
    send(plan.report, failed.stage, failed.errno.raw_os_error());
    exit(127)
}

/// Sends a stage and an error number to the parent.
pub(super) fn send(report: BorrowedFd<'_>, stage: LaunchStage, errno: i32) {
    let [a, b, c, d] = (stage as u32).to_ne_bytes();
    let [e, f, g, h] = errno.to_ne_bytes();
    // A parent that is gone cannot be informed: the failure shows as an exit.
    let _ = rustix::io::write(report, &[a, b, c, d, e, f, g, h]);
}

pub(super) fn exit(code: c_int) -> ! {
    // SAFETY: _exit runs no handlers and is allowed after fork.
    unsafe { libc::_exit(code) }
}

pub(super) trait StageContext<T> {
    /// Names the stage of a failure.
    fn at_stage(self, stage: LaunchStage) -> Result<T, StageError>;
}

impl<T> StageContext<T> for Result<T, Errno> {
    fn at_stage(self, stage: LaunchStage) -> Result<T, StageError> {
        self.map_err(|errno| StageError { stage, errno })
    }
}

fn try_become_agent(
    plan: &ChildPlan<'_>,
    parent_kind: ParentKind,
    joined: Joined,
) -> Result<Infallible, StageError> {
    signals::default_all();
    rustix::process::setpgid(None, None).at_stage(LaunchStage::Group)?;
    match parent_kind {
        ParentKind::Worker => {
            die_with_parent(plan.parent).at_stage(LaunchStage::Parent)?;
            mark(plan.tag).at_stage(LaunchStage::Limits)?;
        }
        // The init has done both, and its end is the end of the namespace.
        ParentKind::Init => send(plan.report, LaunchStage::Ready, 0),
    }
    let procs = plan.groups.procs.filter(|_| joined == Joined::None);
    for file in procs.iter().chain(plan.groups.tasks) {
        rustix::io::write(file, b"0").at_stage(LaunchStage::Cgroup)?;
    }
    for (resource, limit) in plan.limits {
        rustix::process::setrlimit(*resource, *limit).at_stage(LaunchStage::Limits)?;
    }
    rustix::process::chdir(plan.directory).at_stage(LaunchStage::Directory)?;
    for (source, target) in plan.stdio.into_iter().zip(0..) {
        // SAFETY: the sources are open and above 2, so that none is overwritten before it is used.
        if unsafe { libc::dup2(source, target) } < 0 {
            return Err(StageError { stage: LaunchStage::Descriptors, errno: last_errno() });
        }
    }
    close_from_three_on_exec().at_stage(LaunchStage::Descriptors)?;
    #[cfg(target_os = "linux")]
    if let Some(confinement) = &plan.confinement {
        confine(confinement, parent_kind)?;
    }
    signals::unblock_all();
    // SAFETY: program, argv and env are terminated as execve requires, and outlive the call.
    unsafe { libc::execve(plan.program.as_ptr(), plan.argv.as_ptr(), plan.env.as_ptr()) };
    Err(StageError { stage: LaunchStage::Exec, errno: last_errno() })
}

/// Gives up everything that a confined program does not get. Last, since it also applies to this process.
#[cfg(target_os = "linux")]
fn confine(confinement: &ChildConfinement<'_>, parent_kind: ParentKind) -> Result<(), StageError> {
    use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs};
    set_no_new_privs(true).at_stage(LaunchStage::Privileges)?;
    if let Some(ruleset) = confinement.ruleset {
        let proc = match parent_kind {
            // Shows processes of the whole system: arguments may be secrets, so only its own entry is allowed.
            ParentKind::Worker => c"/proc/self",
            ParentKind::Init => c"/proc",
        };
        // Without it, programs do not see themselves. They need that rarely.
        let _ = landlock::allow_own_proc(ruleset, proc);
        landlock::restrict_self(ruleset).at_stage(LaunchStage::Rules)?;
    }
    // Root may be root for files only, which it needs in a directory that belongs to another user. Executing a program
    // does not bring the others back, since no_new_privs is set.
    let for_files =
        CapabilitySet::CHOWN | CapabilitySet::DAC_OVERRIDE | CapabilitySet::FOWNER | CapabilitySet::FSETID;
    let own = capabilities(None).at_stage(LaunchStage::Privileges)?;
    let left = CapabilitySets {
        effective: own.effective & for_files,
        permitted: own.permitted & for_files,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, left).at_stage(LaunchStage::Privileges)?;
    match confinement.filter {
        Some(filter) => syscall_filter::install(filter).at_stage(LaunchStage::SyscallFilter),
        None => Ok(()),
    }
}

/// The arguments of clone3, in the shape of the first kernel that starts processes in a group.
#[cfg(target_os = "linux")]
#[repr(C, align(8))]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Forks, into a control group of version 2 where the kernel can: moving a process there afterwards takes 10 ms and
/// more. Where it cannot, the child has to move itself. `pidfd` is written if the flags ask for it.
///
/// Nothing allocates, so this is safe after fork.
#[cfg(target_os = "linux")]
pub(super) fn fork_into(
    group: Option<BorrowedFd<'_>>,
    flags: c_int,
    pidfd: *mut c_int,
) -> (libc::c_long, Joined) {
    use std::os::fd::AsRawFd;
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    if let Some(group) = group {
        let arguments = CloneArguments {
            flags: u64::from(flags.cast_unsigned()) | CLONE_INTO_CGROUP,
            pidfd: pidfd.addr() as u64,
            exit_signal: u64::from(libc::SIGCHLD.cast_unsigned()),
            cgroup: u64::from(group.as_raw_fd().cast_unsigned()),
            ..CloneArguments::default()
        };
        // SAFETY: without a stack of its own and without sharing memory this is a fork; the kernel writes the
        // descriptor to the given place in the parent, if the flags ask for it.
        let pid =
            unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<CloneArguments>()) };
        if pid >= 0 {
            return (pid, Joined::Unified);
        }
        // Kernels before 5.7 do not know the flag or the call, filters of system calls refuse it, and we may not be
        // allowed to enter the group: the ordinary fork works or reports why not.
    }
    let flags = libc::c_long::from(flags | libc::SIGCHLD);
    // SAFETY: as above.
    (unsafe { libc::syscall(libc::SYS_clone, flags, 0, pidfd, 0, 0) }, Joined::None)
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::cgroup::{CgroupNeeds, create};

    /// Forks a child that ends at once; returns whether it was started in the group.
    fn fork_and_collect(group: BorrowedFd<'_>, inspect: impl FnOnce(i32)) -> Joined {
        let (pid, joined) = fork_into(Some(group), 0, std::ptr::null_mut());
        if pid == 0 {
            exit(0)
        }
        assert!(pid > 0, "{}", last_errno());
        let pid = i32::try_from(pid).expect("a pid is small");
        inspect(pid);
        let pid = rustix::process::Pid::from_raw(pid).expect("it is above 0");
        let ended = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        ended.expect("a child can be awaited");
        joined
    }

    #[test]
    fn a_process_begins_in_its_group() {
        let tag = u64::from(std::process::id()) << 20 | 0x5eed;
        let (group, missing) = create(tag, CgroupNeeds { kill: true, ..CgroupNeeds::default() });
        let Some(group) = group else {
            // A machine without version 2, or one on which this process cannot make a group.
            assert!(!missing.is_empty() || !std::path::Path::new("/sys/fs/cgroup/cgroup.procs").exists());
            return;
        };
        let join_fds = group.join_fds().unwrap();
        let unified_fds = join_fds.unified.as_ref().unwrap();
        let joined = fork_and_collect(unified_fds.folder.as_fd(), |pid| {
            // A process that has ended is still listed with its group.
            let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
            let unified = groups.lines().find(|line| line.starts_with("0::")).unwrap();
            assert!(unified.contains("/volery-"), "{groups}");
        });
        assert_eq!(joined, Joined::Unified);
        group.remove().unwrap();
    }

    #[test]
    fn a_process_is_forked_where_the_group_cannot_be_entered() {
        let no_group = std::fs::File::open("/").unwrap();
        assert_eq!(fork_and_collect(no_group.as_fd(), |_| {}), Joined::None);
    }
}
