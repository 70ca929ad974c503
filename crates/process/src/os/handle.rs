//! A process that can be waited for and signalled without the danger that its process id was reused.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};

use domain::run::Exit;

/// A process by number and descriptor. The descriptor becomes readable when the process has ended.
#[derive(Debug)]
pub struct ProcessHandle {
    pid: Pid,
    fd: OwnedFd,
}

impl ProcessHandle {
    /// Opens a process by its number.
    ///
    /// The caller must know that the number still belongs to the process it means: either the process is its own
    /// child that it has not collected, or it looks at the process again after this call.
    #[cfg(target_os = "linux")]
    pub fn open(pid: Pid) -> io::Result<Self> {
        let fd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
        Ok(Self { pid, fd })
    }

    /// Opens a process by its number.
    #[cfg(not(target_os = "linux"))]
    pub fn open(pid: Pid) -> io::Result<Self> {
        let fd = exit_queue(pid)?;
        Ok(Self { pid, fd })
    }

    #[cfg(target_os = "linux")]
    pub(super) fn from_parts(pid: Pid, fd: OwnedFd) -> Self {
        Self { pid, fd }
    }

    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Sends a signal to the process. One that has ended and was collected is an error (`ESRCH`).
    #[cfg(target_os = "linux")]
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(rustix::process::pidfd_send_signal(&self.fd, signal)?)
    }

    /// Sends a signal to the process.
    #[cfg(not(target_os = "linux"))]
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(rustix::process::kill_process(self.pid, signal)?)
    }

    /// Sends a signal to the process group that the process leads.
    pub fn signal_group(&self, signal: Signal) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        match self.signal_group_by_descriptor(signal) {
            // Kernels before 6.9 do not know the flag.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            answer => return answer,
        }
        Ok(rustix::process::kill_process_group(self.pid, signal)?)
    }

    #[cfg(target_os = "linux")]
    fn signal_group_by_descriptor(&self, signal: Signal) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        // SAFETY: the descriptor is open, and a null siginfo is allowed.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.fd.as_raw_fd(),
                signal.as_raw(),
                std::ptr::null::<libc::siginfo_t>(),
                libc::PIDFD_SIGNAL_PROCESS_GROUP,
            )
        };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns how the process ended and collects it, or `None` while it runs. Only for the caller's own children,
    /// and only once: afterwards it is an error (`ECHILD`).
    pub fn try_reap(&self) -> io::Result<Option<Exit>> {
        self.wait(WaitIdOptions::EXITED | WaitIdOptions::NOHANG)
    }

    /// Waits for the process to end and collects it. Only for the caller's own children.
    pub fn reap(&self) -> io::Result<Exit> {
        match self.wait(WaitIdOptions::EXITED)? {
            Some(exit) => Ok(exit),
            None => Err(io::Error::other("a blocking wait returned without a child")),
        }
    }

    fn wait(&self, options: WaitIdOptions) -> io::Result<Option<Exit>> {
        #[cfg(target_os = "linux")]
        let id = WaitId::PidFd(self.fd.as_fd());
        #[cfg(not(target_os = "linux"))]
        let id = WaitId::Pid(self.pid);
        let status = rustix::io::retry_on_intr(|| waitid(id.clone(), options))?;
        Ok(status.map(|status| match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Signal(libc::SIGKILL),
        }))
    }
}

impl AsFd for ProcessHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(not(target_os = "linux"))]
fn exit_queue(pid: Pid) -> io::Result<OwnedFd> {
    use std::os::fd::{AsRawFd, FromRawFd};
    // SAFETY: kqueue takes no arguments; the descriptor it returns is ours alone.
    let queue = unsafe {
        let raw = libc::kqueue();
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(raw)
    };
    rustix::io::fcntl_setfd(&queue, rustix::io::FdFlags::CLOEXEC)?;
    let number = usize::try_from(pid.as_raw_nonzero().get()).map_err(io::Error::other)?;
    let change = libc::kevent {
        ident: number,
        filter: libc::EVFILT_PROC,
        flags: libc::EV_ADD,
        fflags: libc::NOTE_EXIT,
        data: 0,
        udata: std::ptr::null_mut(),
    };
    // SAFETY: one change is passed with its length, and no room for events.
    let answer = unsafe {
        libc::kevent(queue.as_raw_fd(), &raw const change, 1, std::ptr::null_mut(), 0, std::ptr::null())
    };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(queue) }
}
