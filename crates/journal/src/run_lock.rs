//! The lock of a run: only its holder may write the run's events.
//!
//! `flock` belongs to the open file, not to the process: keeper and worker share it by inheriting the descriptor, and
//! the kernel releases it when the last of them is gone. So it is never unlocked explicitly, which would release it
//! for both.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// A held lock. Closing the last copy of the descriptor releases it.
#[derive(Debug)]
pub struct RunLock(OwnedFd);

impl RunLock {
    /// Takes over a descriptor that was inherited with its lock.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    pub fn into_fd(self) -> OwnedFd {
        self.0
    }

    /// Locks the file exclusively; `None` if another process holds it.
    pub(crate) fn take(path: &Path) -> io::Result<Option<Self>> {
        let fd = open(path)?;
        Ok(try_flock(fd.as_fd(), FlockOperation::NonBlockingLockExclusive)?.then_some(Self(fd)))
    }

    /// Returns whether a process holds the lock. The check takes a shared lock for a moment, so a simultaneous `take`
    /// may fail.
    pub(crate) fn is_held(path: &Path) -> io::Result<bool> {
        match open(path) {
            Ok(fd) => Ok(!try_flock(fd.as_fd(), FlockOperation::NonBlockingLockShared)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for RunLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    // The standard library opens with CLOEXEC, so no agent inherits the lock.
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)?;
    Ok(file.into())
}

fn try_flock(fd: BorrowedFd<'_>, operation: FlockOperation) -> io::Result<bool> {
    loop {
        match flock(fd, operation) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
