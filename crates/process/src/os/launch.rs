//! The worker's side of starting an agent: forks, in a namespace or not, and waits until the agent executes its
//! program or reports why it cannot.

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit};

use super::ProcessHandle;
use super::channel::{pipe, sockets};
#[cfg(target_os = "linux")]
use super::child::ChildConfinement;
use super::child::{CgroupFds, ChildPlan, Joined, LaunchStage, ParentKind, become_agent};
use super::signals;

/// The namespaces that the agent runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamespaceMode {
    /// An ordinary child process.
    Plain,
    /// In a pid namespace of its own, which needs rights over the system.
    Namespace,
    /// In a pid namespace within a user namespace, which ordinary users may have.
    UserNamespace,
}

/// An agent to start.
pub(crate) struct Launch<'a> {
    pub(crate) program: &'a CStr,
    pub(crate) argv: &'a [CString],
    pub(crate) env: &'a [CString],
    pub(crate) directory: &'a CStr,
    /// What becomes 0, 1 and 2.
    pub(crate) stdio: [BorrowedFd<'a>; 3],
    pub(crate) tag: u64,
    pub(crate) limits: &'a [(Resource, Rlimit)],
    pub(crate) groups: CgroupFds<'a>,
    pub(crate) namespace_mode: NamespaceMode,
    #[cfg(target_os = "linux")]
    pub(crate) confinement: Option<ChildConfinement<'a>>,
}

/// An agent that executes its program.
pub(crate) struct Launched {
    pub(crate) agent: ProcessHandle,
    pub(crate) init: Option<Init>,
}

/// The first process of the agent's namespace.
#[derive(Debug)]
pub(crate) struct Init {
    pub(crate) handle: ProcessHandle,
    /// The agent's wait status, once; end of file when the namespace is gone.
    pub(crate) status: OwnedFd,
    /// Held open while the namespace must live.
    parent: OwnedFd,
}

/// Why an agent did not start.
#[derive(Debug)]
pub(crate) enum LaunchError {
    /// Before there was a process.
    Before(io::Error),
    /// No process with these namespaces could be made.
    Clone(io::Error),
    /// In the new process.
    Child { stage: LaunchStage, source: io::Error },
    /// The new process was killed before it executed its program.
    Lost,
}

impl From<io::Error> for LaunchError {
    fn from(error: io::Error) -> Self {
        Self::Before(error)
    }
}

impl From<Errno> for LaunchError {
    fn from(errno: Errno) -> Self {
        Self::Before(errno.into())
    }
}

/// Starts an agent and returns when it executes its program.
pub(crate) fn launch(launch: &Launch<'_>) -> Result<Launched, LaunchError> {
    let stdio = launch.stdio.map(above_stdio);
    let [stdin, stdout, stderr] = stdio;
    let (stdin, stdout, stderr) = (stdin?, stdout?, stderr?);
    let (report, report_child) = sockets()?;
    let (parent_child, parent) = pipe()?;
    #[cfg(target_os = "linux")]
    let (status, status_child) = pipe()?;
    let argv = pointers(launch.argv);
    let env = pointers(launch.env);
    let plan = ChildPlan {
        program: launch.program,
        argv: &argv,
        env: &env,
        directory: launch.directory,
        stdio: [stdin.as_raw_fd(), stdout.as_raw_fd(), stderr.as_raw_fd()],
        report: report_child.as_fd(),
        parent: parent_child.as_fd(),
        #[cfg(target_os = "linux")]
        status: status_child.as_fd(),
        tag: launch.tag,
        limits: launch.limits,
        groups: launch.groups,
        #[cfg(target_os = "linux")]
        confinement: launch.confinement,
    };
    #[cfg(target_os = "linux")]
    if launch.namespace_mode != NamespaceMode::Plain {
        rustix::net::sockopt::set_socket_passcred(&report, true)?;
        rustix::io::ioctl_fionbio(&status, true)?;
        let handle = clone_init(&plan, launch.namespace_mode)?;
        // This process's copies of the child's ends must be closed, or their end of file would never arrive.
        drop((report_child, parent_child, status_child));
        return namespace_started(&report, Init { handle, status, parent });
    }
    let agent = fork_agent(&plan)?;
    drop(report_child);
    plain_started(&report, agent)
    // The pipe to the child ends here: it was needed only until the parent-death signal was set.
}

/// Waits for the exec of an agent that is a child of this process: the report then ends without a message.
fn plain_started(report: &OwnedFd, agent: ProcessHandle) -> Result<Launched, LaunchError> {
    match receive(report)? {
        None => Ok(Launched { agent, init: None }),
        Some((stage, source)) => {
            agent.reap()?;
            Err(LaunchError::Child { stage, source })
        }
    }
}

#[cfg(target_os = "linux")]
fn namespace_started(report: &OwnedFd, init: Init) -> Result<Launched, LaunchError> {
    let started = namespace_agent(report).and_then(|agent| match receive(report)? {
        None => Ok(agent),
        Some((stage, source)) => Err(LaunchError::Child { stage, source }),
    });
    match started {
        Ok(agent) => {
            // From here on the init may collect the agent, since this process holds a descriptor of it.
            rustix::io::write(&init.parent, b"c")?;
            Ok(Launched { agent, init: Some(init) })
        }
        Err(error) => {
            // An init that has exited by itself cannot be signalled, only collected.
            let _ = init.handle.signal(rustix::process::Signal::KILL);
            init.handle.reap()?;
            Err(error)
        }
    }
}

/// Learns the agent's process id as seen from here: the kernel translates it on the way through the socket.
#[cfg(target_os = "linux")]
fn namespace_agent(report: &OwnedFd) -> Result<ProcessHandle, LaunchError> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let mut message = [0_u8; 8];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(report, &mut [io::IoSliceMut::new(&mut message)], &mut control, RecvFlags::WAITALL)
    })?;
    if received.bytes < message.len() {
        return Err(LaunchError::Lost);
    }
    match decode(message) {
        Some((LaunchStage::Ready, _)) => {}
        Some((stage, source)) => return Err(LaunchError::Child { stage, source }),
        None => return Err(LaunchError::Lost),
    }
    let sender = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid),
        _ => None,
    });
    let sender = sender.ok_or(LaunchError::Lost)?;
    Ok(ProcessHandle::open(sender)?)
}

/// Returns the failure that the child reports, or `None` when it executes its program.
fn receive(report: &OwnedFd) -> Result<Option<(LaunchStage, io::Error)>, LaunchError> {
    let mut message = [0_u8; 8];
    let mut filled = 0;
    while let Some(rest) = message.get_mut(filled..)
        && !rest.is_empty()
    {
        match rustix::io::retry_on_intr(|| rustix::io::read(report, &mut *rest))? {
            0 if filled == 0 => return Ok(None),
            0 => return Err(LaunchError::Lost),
            count => filled += count,
        }
    }
    decode(message).map(Some).ok_or(LaunchError::Lost)
}

fn decode(message: [u8; 8]) -> Option<(LaunchStage, io::Error)> {
    let [a, b, c, d, e, f, g, h] = message;
    let stage = LaunchStage::from_number(u32::from_ne_bytes([a, b, c, d]))?;
    Some((stage, io::Error::from_raw_os_error(i32::from_ne_bytes([e, f, g, h]))))
}

#[cfg(target_os = "linux")]
fn fork_agent(plan: &ChildPlan<'_>) -> Result<ProcessHandle, LaunchError> {
    let child = |joined| become_agent(plan, ParentKind::Worker, joined);
    clone(0, plan.groups.folder, child).map_err(LaunchError::Clone)
}

#[cfg(not(target_os = "linux"))]
fn fork_agent(plan: &ChildPlan<'_>) -> Result<ProcessHandle, LaunchError> {
    let blocked = signals::block_all()?;
    // SAFETY: the child runs only code that is safe after fork until it executes the agent.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        become_agent(plan, ParentKind::Worker, Joined::None)
    }
    let error = io::Error::last_os_error();
    drop(blocked);
    let pid = Pid::from_raw(pid).ok_or(LaunchError::Clone(error))?;
    Ok(ProcessHandle::open(pid)?)
}

#[cfg(target_os = "linux")]
fn clone_init(plan: &ChildPlan<'_>, namespace_mode: NamespaceMode) -> Result<ProcessHandle, LaunchError> {
    use super::init::{UserMaps, run};
    let mut flags = libc::CLONE_NEWPID | libc::CLONE_NEWNS;
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let (user, group) = (format!("{user} {user} 1\n"), format!("{group} {group} 1\n"));
    let maps = UserMaps { user: user.as_bytes(), group: group.as_bytes() };
    let maps = match namespace_mode {
        NamespaceMode::UserNamespace => {
            flags |= libc::CLONE_NEWUSER;
            Some(&maps)
        }
        NamespaceMode::Plain | NamespaceMode::Namespace => None,
    };
    // The init stays outside the groups: it is not one of the processes that they limit.
    clone(flags, None, |_| run(plan, maps)).map_err(LaunchError::Clone)
}

/// Forks with these namespaces, into a control group if the kernel supports it, and gets the child's descriptor in
/// the same step. `child` runs in the child with all signals blocked and must be safe after fork.
#[cfg(target_os = "linux")]
fn clone(
    namespaces: libc::c_int,
    group: Option<BorrowedFd<'_>>,
    child: impl FnOnce(Joined),
) -> io::Result<ProcessHandle> {
    use std::os::fd::FromRawFd;
    let blocked = signals::block_all()?;
    let mut pidfd: libc::c_int = -1;
    let (pid, joined) = super::child::fork_into(group, namespaces | libc::CLONE_PIDFD, &raw mut pidfd);
    if pid == 0 {
        child(joined);
        super::child::exit(127)
    }
    let error = io::Error::last_os_error();
    drop(blocked);
    let Some(pid) = i32::try_from(pid).ok().filter(|pid| *pid > 0).and_then(Pid::from_raw) else {
        return Err(error);
    };
    // SAFETY: the kernel has just given us this descriptor.
    let fd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(ProcessHandle::from_parts(pid, fd))
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Returns a copy that is none of 0, 1 and 2, so that dup2 onto those cannot overwrite it.
fn above_stdio(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, 3)?)
}
