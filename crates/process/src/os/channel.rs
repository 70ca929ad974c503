//! Pipes and socket pairs that no program inherits, also where the system cannot make them so in one step.

use std::io;
use std::os::fd::OwnedFd;

/// Returns a pipe: the end to read from, and the end to write to.
#[cfg(target_os = "linux")]
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// Returns a pipe: the end to read from, and the end to write to.
#[cfg(not(target_os = "linux"))]
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    close_both_on_exec(rustix::pipe::pipe()?)
}

/// Makes a pipe hold this many bytes before a writer has to wait, as far as the system allows.
#[cfg(target_os = "linux")]
pub(crate) fn widen(pipe: &OwnedFd, bytes: usize) {
    // On failure the pipe keeps its default capacity.
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, bytes.min(PIPE_BYTES_MAX));
}

/// The limit for every user by default.
#[cfg(target_os = "linux")]
const PIPE_BYTES_MAX: usize = 1024 * 1024;

/// The system decides the capacity of its pipes.
#[cfg(not(target_os = "linux"))]
pub(crate) fn widen(_pipe: &OwnedFd, _bytes: usize) {}

/// Returns two connected sockets.
#[cfg(target_os = "linux")]
pub(super) fn sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

/// Returns two connected sockets.
#[cfg(not(target_os = "linux"))]
pub(super) fn sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    close_both_on_exec(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)?)
}

#[cfg(not(target_os = "linux"))]
fn close_both_on_exec(pair: (OwnedFd, OwnedFd)) -> io::Result<(OwnedFd, OwnedFd)> {
    for end in [&pair.0, &pair.1] {
        rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
    }
    Ok(pair)
}
