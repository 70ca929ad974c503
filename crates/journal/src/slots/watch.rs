//! One descriptor that becomes readable when a holder of any watched file is gone.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// What is known about a file after an attempt to watch it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watched {
    /// It has a holder, whose going will be seen.
    Held,
    /// It has no holder at this moment.
    Free,
    /// It cannot be watched: look again later.
    Blind,
}

/// Watches the holders of some files.
///
/// Readiness is a state and not an event, so a holder that leaves between a look and a wait is not missed.
#[derive(Debug, Default)]
pub(super) struct Watch {
    poll: Option<OwnedFd>,
    ends: Vec<OwnedFd>,
}

impl Watch {
    pub(super) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.poll.as_ref().map(AsFd::as_fd)
    }

    /// Stops watching all files.
    pub(super) fn clear(&mut self) {
        self.ends.clear();
    }

    /// Returns how many files are being watched.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    #[cfg(target_os = "linux")]
    pub(super) fn add(&mut self, path: &Path) -> Watched {
        use rustix::event::epoll;
        use rustix::fs::{Mode, OFlags};
        use rustix::io::Errno;

        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let end = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(end) => end,
            // A FIFO without a reader, or a ticket that was removed.
            Err(Errno::NXIO | Errno::NOENT) => return Watched::Free,
            Err(_) => return Watched::Blind,
        };
        if self.poll.is_none() {
            self.poll = epoll::create(epoll::CreateFlags::CLOEXEC).ok();
        }
        let Some(poll) = &self.poll else { return Watched::Blind };
        // No flags: the loss of the last reader is an error condition, and those are always reported.
        match epoll::add(poll, &end, epoll::EventData::new_u64(0), epoll::EventFlags::empty()) {
            Ok(()) => {
                self.ends.push(end);
                Watched::Held
            }
            Err(_) => Watched::Blind,
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn add(&mut self, _path: &Path) -> Watched {
        Watched::Blind
    }
}
