//! What a keeper takes over from the process that started it, and how its forked worker exits.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Takes over a descriptor that this process was started with. To be called once per number, before anything else is
/// opened.
pub fn inherited_fd(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: fcntl on a number that is not open fails and does nothing else.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and the starter of a keeper hands it over without anybody else knowing the number.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Ends a forked worker without running what its keeper registered for its own end.
pub fn exit_worker(code: i32) -> ! {
    super::child::exit(code)
}
