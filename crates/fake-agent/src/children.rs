//! Children that are hard to get rid of. Each writes nothing, keeps the agent's streams open, and sleeps.

use std::ffi::{CString, c_char};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};

/// How long each process of a chain lives.
const LINK: Duration = Duration::from_millis(3);

/// A kind of child. The step is called as in [`Kind::from_name`], with the milliseconds that the child lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In a session of its own.
    Setsid,
    /// In a session of its own, its parent gone.
    DoubleFork,
    /// Its parent gone.
    Grandchild,
    /// Started anew with an empty environment.
    CleanEnvironment,
    /// Has overwritten the memory of its environment.
    OverwrittenEnvironment,
    /// Not to be looked into by others.
    NonDumpable,
    IgnoresTerm,
    /// A chain of processes, each of which forks the next and exits after some milliseconds.
    ForkChain,
    /// Has lowered its limit on file locks, has an empty environment, and its parent is gone.
    LoweredLimit,
    /// Its first thread has ended, another lives: it looks like a dead process.
    Leaderless,
    /// Stopped.
    Stopped,
}

impl Kind {
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

/// Forms a child, and returns when it is what it shall be.
pub(crate) fn form(kind: Kind, life: Duration) -> io::Result<()> {
    // The child closes its end when it is ready; an exec does so by itself.
    let (ready, forming) = pipe_with(PipeFlags::CLOEXEC)?;
    if !fork()? {
        drop(forming);
        rustix::io::read(&ready, &mut [0_u8])?;
        return Ok(());
    }
    drop(ready);
    live(kind, life, forming)
}

/// Makes a grandchild that exits at once.
pub(crate) fn form_short_lived() -> io::Result<()> {
    if fork()? {
        // Whether there is a second process or not, this one ends.
        let _ = fork();
        quit();
    }
    Ok(())
}

fn live(kind: Kind, life: Duration, forming: OwnedFd) -> ! {
    match kind {
        Kind::Setsid => new_session(),
        Kind::DoubleFork => {
            new_session();
            leave_parent();
        }
        Kind::Grandchild => leave_parent(),
        Kind::CleanEnvironment => exec_sleep(life),
        Kind::OverwrittenEnvironment => overwrite_environment(),
        Kind::NonDumpable => {
            // SAFETY: the call takes numbers only.
            unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
        }
        Kind::IgnoresTerm => {
            // SAFETY: SIG_IGN is a valid disposition.
            unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
        }
        Kind::ForkChain => {
            drop(forming);
            chain(life);
        }
        Kind::LoweredLimit => {
            leave_parent();
            lower_limit();
            exec_sleep(life);
        }
        Kind::Leaderless => leaderless(life, forming),
        Kind::Stopped => {
            drop(forming);
            // SAFETY: raising a signal has no preconditions.
            unsafe { libc::raise(libc::SIGSTOP) };
            sleep(life);
            quit()
        }
    }
    drop(forming);
    sleep(life);
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
    // A child just forked leads no group, so this cannot fail.
    let _ = rustix::process::setsid();
}

fn leave_parent() {
    if let Ok(false) = fork() {
        quit();
    }
}

fn sleep(life: Duration) {
    std::thread::sleep(life);
}

fn chain(life: Duration) -> ! {
    let end = Instant::now() + life;
    while Instant::now() < end {
        sleep(LINK);
        leave_parent();
    }
    quit()
}

fn exec_sleep(life: Duration) -> ! {
    let program =
        std::env::current_exe().ok().and_then(|path| CString::new(path.as_os_str().as_bytes()).ok());
    let step = CString::new(format!("sleep:{}", life.as_millis())).ok();
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
        // Lowering is always allowed.
        let _ = setrlimit(Resource::Locks, Rlimit { current: lower, maximum: lower });
    }
}

fn leaderless(life: Duration, forming: OwnedFd) -> ! {
    std::thread::spawn(move || {
        // The first thread is gone when its entry says so.
        let stat = format!("/proc/self/task/{}/stat", std::process::id());
        while !std::fs::read_to_string(&stat).is_ok_and(|text| text.contains(") Z ")) {
            std::thread::yield_now();
        }
        // SAFETY: the pipe is open, and only this thread is left; forgetting the owner prevents a second close.
        unsafe { libc::close(forming.as_raw_fd()) };
        std::mem::forget(forming);
        sleep(life);
        quit();
    });
    // SAFETY: ends this thread only; nothing on its stack is used by the other.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    quit()
}
