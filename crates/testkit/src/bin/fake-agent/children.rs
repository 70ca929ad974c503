//! Children that are hard to kill. Each writes nothing, keeps the agent's streams open, and sleeps.

use std::ffi::{CString, c_char};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};

/// How long each process of a chain lives.
const LINK_LIFETIME: Duration = Duration::from_millis(3);

/// A kind of child. The step's name is the one in [`ChildKind::from_name`], followed by the child's lifetime in
/// milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChildKind {
    /// In its own session.
    Setsid,
    /// In its own session, after its parent exited.
    DoubleFork,
    /// After its parent exited.
    Grandchild,
    /// Re-executed with an empty environment.
    CleanEnvironment,
    /// Has overwritten the memory of its environment.
    OverwrittenEnvironment,
    /// Not dumpable: other processes cannot read its memory.
    NonDumpable,
    IgnoresTerm,
    /// A chain of processes, each of which forks the next and exits after some milliseconds.
    ForkChain,
    /// With a lowered limit on file locks and an empty environment, after its parent exited.
    LoweredLimit,
    /// Its first thread has ended and another one lives, so that it looks like a dead process.
    Leaderless,
    Stopped,
}

impl ChildKind {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "setsid-child" => Self::Setsid,
            "double-fork" => Self::DoubleFork,
            "grandchild" => Self::Grandchild,
            "clean-env-child" => Self::CleanEnvironment,
            "overwrite-env-child" => Self::OverwrittenEnvironment,
            "non-dumpable-child" => Self::NonDumpable,
            "term-ignoring-child" => Self::IgnoresTerm,
            "fork-chain" => Self::ForkChain,
            "lowered-limit-child" => Self::LoweredLimit,
            "leaderless-child" => Self::Leaderless,
            "stopped-child" => Self::Stopped,
            _ => return None,
        })
    }
}

/// Starts a child, and returns when it has reached its final form.
pub(crate) fn spawn_child(kind: ChildKind, lifetime: Duration) -> io::Result<()> {
    // The child closes its end of the pipe when it is ready; an exec closes it automatically.
    let (ready_reader, ready_writer) = pipe_with(PipeFlags::CLOEXEC)?;
    if !fork()? {
        drop(ready_writer);
        rustix::io::read(&ready_reader, &mut [0_u8])?;
        return Ok(());
    }
    drop(ready_reader);
    run_child(kind, lifetime, ready_writer)
}

/// Starts a grandchild that exits at once.
pub(crate) fn spawn_short_lived() -> io::Result<()> {
    if fork()? {
        // This process exits whether the second fork succeeds or not.
        let _ = fork();
        quit();
    }
    Ok(())
}

fn run_child(kind: ChildKind, lifetime: Duration, ready_writer: OwnedFd) -> ! {
    match kind {
        ChildKind::Setsid => new_session(),
        ChildKind::DoubleFork => {
            new_session();
            leave_parent();
        }
        ChildKind::Grandchild => leave_parent(),
        ChildKind::CleanEnvironment => exec_sleep(lifetime),
        ChildKind::OverwrittenEnvironment => overwrite_environment(),
        ChildKind::NonDumpable => {
            // SAFETY: the call takes numbers only.
            unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
        }
        ChildKind::IgnoresTerm => {
            // SAFETY: SIG_IGN is a valid disposition.
            unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
        }
        ChildKind::ForkChain => {
            drop(ready_writer);
            run_chain(lifetime);
        }
        ChildKind::LoweredLimit => {
            leave_parent();
            lower_limit();
            exec_sleep(lifetime);
        }
        ChildKind::Leaderless => run_leaderless(lifetime, ready_writer),
        ChildKind::Stopped => {
            drop(ready_writer);
            // SAFETY: raising a signal has no preconditions.
            unsafe { libc::raise(libc::SIGSTOP) };
            sleep(lifetime);
            quit()
        }
    }
    drop(ready_writer);
    sleep(lifetime);
    quit()
}

/// Forks, and returns whether this is the child.
fn fork() -> io::Result<bool> {
    // SAFETY: this process has a single thread.
    match unsafe { libc::fork() } {
        0 => Ok(true),
        pid if pid > 0 => Ok(false),
        _ => Err(io::Error::last_os_error()),
    }
}

fn quit() -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(0) }
}

fn new_session() {
    // A new child leads no process group, so this cannot fail.
    let _ = rustix::process::setsid();
}

fn leave_parent() {
    if let Ok(false) = fork() {
        quit();
    }
}

fn sleep(lifetime: Duration) {
    std::thread::sleep(lifetime);
}

fn run_chain(lifetime: Duration) -> ! {
    let end = Instant::now() + lifetime;
    while Instant::now() < end {
        sleep(LINK_LIFETIME);
        leave_parent();
    }
    quit()
}

fn exec_sleep(lifetime: Duration) -> ! {
    let program =
        std::env::current_exe().ok().and_then(|path| CString::new(path.as_os_str().as_bytes()).ok());
    let step = CString::new(format!("sleep:{}", lifetime.as_millis())).ok();
    if let (Some(program), Some(step)) = (program, step) {
        let argv = [program.as_ptr(), step.as_ptr(), std::ptr::null()];
        let env: [*const c_char; 1] = [std::ptr::null()];
        // SAFETY: all strings are terminated, and both lists end with a null pointer.
        unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    }
    quit()
}

fn overwrite_environment() {
    unsafe extern "C" {
        static environ: *const *mut c_char;
    }
    // SAFETY: the list ends with a null pointer, its strings are terminated and writable, and no other thread reads
    // them.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let length = libc::strlen(*entry);
            std::ptr::write_bytes(*entry, b'x', length);
            entry = entry.add(1);
        }
    }
}

fn lower_limit() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let current = getrlimit(Resource::Locks).current.unwrap_or(u64::MAX - 1);
        let lower = Some(current / 2);
        // Lowering a limit is always allowed.
        let _ = setrlimit(Resource::Locks, Rlimit { current: lower, maximum: lower });
    }
}

fn run_leaderless(lifetime: Duration, ready_writer: OwnedFd) -> ! {
    std::thread::spawn(move || {
        // The first thread is gone when its entry in `/proc` shows a zombie.
        let stat = format!("/proc/self/task/{}/stat", std::process::id());
        while !std::fs::read_to_string(&stat).is_ok_and(|text| text.contains(") Z ")) {
            std::thread::yield_now();
        }
        // SAFETY: the pipe is open, and only this thread is left; forgetting the owner prevents a second close.
        unsafe { libc::close(ready_writer.as_raw_fd()) };
        std::mem::forget(ready_writer);
        sleep(lifetime);
        quit();
    });
    // SAFETY: ends this thread only; nothing on its stack is used by the other.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    quit()
}
