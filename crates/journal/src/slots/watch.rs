//! One descriptor that becomes readable when a holder of any watched file is gone.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// The state of a file after an attempt to watch it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HolderState {
    /// It has a holder, and the watch reports when the holder is gone.
    Held,
    /// It has no holder at the moment.
    Free,
    /// It cannot be watched: poll it later.
    Unwatchable,
}

/// Watches the holders of some files.
///
/// Readiness is a state and not an event, so a holder that leaves between a check and a wait is not missed.
#[derive(Debug, Default)]
pub(super) struct Watch {
    poll: Option<OwnedFd>,
    write_ends: Vec<OwnedFd>,
}

impl Watch {
    pub(super) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.poll.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn clear(&mut self) {
        self.write_ends.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.write_ends.len()
    }

    #[cfg(target_os = "linux")]
    pub(super) fn add(&mut self, path: &Path) -> HolderState {
        use rustix::event::epoll;
        use rustix::fs::{Mode, OFlags};
        use rustix::io::Errno;

        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let write_end = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(write_end) => write_end,
            // A FIFO without a reader, or a ticket that was removed.
            Err(Errno::NXIO | Errno::NOENT) => return HolderState::Free,
            Err(_) => return HolderState::Unwatchable,
        };
        if self.poll.is_none() {
            self.poll = epoll::create(epoll::CreateFlags::CLOEXEC).ok();
        }
        let Some(poll) = &self.poll else { return HolderState::Unwatchable };
        // No flags: the loss of the last reader is an error condition, and those are always reported.
        match epoll::add(poll, &write_end, epoll::EventData::new_u64(0), epoll::EventFlags::empty()) {
            Ok(()) => {
                self.write_ends.push(write_end);
                HolderState::Held
            }
            Err(_) => HolderState::Unwatchable,
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn add(&mut self, _path: &Path) -> HolderState {
        HolderState::Unwatchable
    }
}
