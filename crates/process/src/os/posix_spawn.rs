//! `posix_spawn`: starts a program without copying the memory of a large or threaded parent.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::process::Pid;

use super::signals;

/// A program to start in a session of its own, with this process's environment.
pub(crate) struct PosixSpawnRequest<'a> {
    pub(crate) program: &'a CStr,
    pub(crate) argv: &'a [CString],
    pub(crate) directory: &'a CStr,
    /// All descriptors that the program has: which one, and under what number.
    pub(crate) fds: &'a [(BorrowedFd<'a>, c_int)],
}

unsafe extern "C" {
    static environ: *const *mut c_char;
}

/// Starts the program. Its signals have their default meaning and none is blocked.
pub(crate) fn posix_spawn(request: &PosixSpawnRequest<'_>) -> io::Result<Pid> {
    let highest = request.fds.iter().map(|(_, target)| *target).max().unwrap_or(2).max(2);
    // Copies above every target: no dup2 overwrites a source, and none has the same number as its target.
    let sources: Vec<(OwnedFd, c_int)> = request
        .fds
        .iter()
        .map(|(fd, target)| Ok((rustix::io::fcntl_dupfd_cloexec(fd, highest + 1)?, *target)))
        .collect::<io::Result<_>>()?;
    let mut actions = Actions::new()?;
    for (source, target) in &sources {
        actions.dup2(source.as_raw_fd(), *target)?;
    }
    for unused in (0..=highest).filter(|number| !sources.iter().any(|(_, target)| target == number)) {
        actions.close(unused)?;
    }
    actions.close_from(highest + 1)?;
    actions.chdir(request.directory)?;
    let attributes = Attributes::new()?;
    let argv: Vec<*mut c_char> = request
        .argv
        .iter()
        .map(|argument| argument.as_ptr().cast_mut())
        .chain([std::ptr::null_mut()])
        .collect();
    let mut pid = 0;
    // SAFETY: all pointers are to initialised values that outlive the call; argv ends with a null pointer, and the
    // environment is never changed by this program.
    check(unsafe {
        libc::posix_spawn(
            &raw mut pid,
            request.program.as_ptr(),
            &raw const actions.0,
            &raw const attributes.0,
            argv.as_ptr(),
            environ,
        )
    })?;
    Pid::from_raw(pid).ok_or_else(|| io::Error::other("a process without a number was started"))
}

fn check(errno: c_int) -> io::Result<()> {
    if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
}

struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    fn new() -> io::Result<Self> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: the call initialises the value when it returns 0.
        unsafe {
            check(libc::posix_spawn_file_actions_init(actions.as_mut_ptr()))?;
            Ok(Self(actions.assume_init()))
        }
    }

    fn dup2(&mut self, source: c_int, target: c_int) -> io::Result<()> {
        // SAFETY: the actions are initialised.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(&raw mut self.0, source, target) })
    }

    fn close(&mut self, fd: c_int) -> io::Result<()> {
        // SAFETY: the actions are initialised. Closing what is not open is no error.
        check(unsafe { libc::posix_spawn_file_actions_addclose(&raw mut self.0, fd) })
    }

    /// Closes every descriptor from this number on.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn close_from(&mut self, first: c_int) -> io::Result<()> {
        // SAFETY: the actions are initialised.
        check(unsafe { libc::posix_spawn_file_actions_addclosefrom_np(&raw mut self.0, first) })
    }

    /// Marks every descriptor of this process for closing at exec, as all of them are meant to be anyway.
    #[cfg(all(target_os = "linux", not(target_env = "gnu")))]
    fn close_from(&mut self, first: c_int) -> io::Result<()> {
        // SAFETY: the mark changes nothing in this process.
        unsafe { libc::syscall(libc::SYS_close_range, first, c_int::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        Ok(())
    }

    /// Elsewhere an attribute does it.
    #[cfg(not(target_os = "linux"))]
    fn close_from(&mut self, _first: c_int) -> io::Result<()> {
        Ok(())
    }

    fn chdir(&mut self, directory: &CStr) -> io::Result<()> {
        // SAFETY: the actions are initialised, and they copy the text.
        check(unsafe { libc::posix_spawn_file_actions_addchdir_np(&raw mut self.0, directory.as_ptr()) })
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: the actions are initialised and not used again.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}

struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn new() -> io::Result<Self> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the call initialises the value when it returns 0.
        let mut attributes = unsafe {
            check(libc::posix_spawnattr_init(attributes.as_mut_ptr()))?;
            Self(attributes.assume_init())
        };
        // SAFETY: attributes and sets are initialised.
        unsafe {
            check(libc::posix_spawnattr_setflags(&raw mut attributes.0, flags()))?;
            check(libc::posix_spawnattr_setsigmask(&raw mut attributes.0, &signals::empty()))?;
            check(libc::posix_spawnattr_setsigdefault(&raw mut attributes.0, &signals::full()))?;
        }
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: the attributes are initialised and not used again.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

#[cfg(target_os = "linux")]
fn flags() -> libc::c_short {
    let signals = libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF;
    libc::POSIX_SPAWN_SETSID
        | libc::c_short::try_from(signals).expect("the flags fit, being passed as a short")
}

#[cfg(not(target_os = "linux"))]
fn flags() -> libc::c_short {
    /// `POSIX_SPAWN_SETSID` and `POSIX_SPAWN_CLOEXEC_DEFAULT` of macOS.
    const SESSION_AND_CLOSE: c_int = 0x0400 | 0x4000;
    let signals = libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF;
    libc::c_short::try_from(SESSION_AND_CLOSE | signals).expect("the flags fit, being passed as a short")
}
