//! Slots: taking one, holding it, and counting the taken ones.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::id::RunId;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::directory::{self, QueueLock, SlotsDir};
use super::queue::{self, Ticket};

/// How long to wait for the queue's lock. It is held for microseconds.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// Why neither a slot nor a position in the queue was available.
#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    #[error("wait for a slot: {len} runs wait already, and the queue holds {max}")]
    QueueFull { len: u64, max: u32 },
    #[error("lock the queue for slots: its lock has been held for {} s, by a process that is stopped", LOCK_PATIENCE.as_secs())]
    Stuck,
    #[error("use the slots in {path}")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// The slots of one home.
#[derive(Debug)]
pub struct Slots {
    dir: SlotsDir,
    slots: u32,
    queue_max: u32,
}

/// The result of a request for a slot.
#[derive(Debug)]
pub enum Acquisition {
    Taken(Slot),
    Queued(Ticket),
}

/// The right to run. It ends when the last copy of its descriptor is closed, so a forked worker that inherits it
/// keeps the slot when its keeper dies, and vice versa.
#[derive(Debug)]
pub struct Slot {
    number: u32,
    held: OwnedFd,
}

impl Slots {
    /// Opens the slots of a home; at least one, whatever `slots` is.
    pub fn open(home: &Path, slots: u32, queue_max: u32) -> Result<Self, SlotError> {
        let dir = SlotsDir::in_home(home);
        let slots = slots.max(1);
        dir.create().map_err(|source| failed(&dir, source))?;
        Ok(Self { dir, slots, queue_max })
    }

    /// Takes a free slot if nobody waits for one, else a position at the end of the queue.
    pub fn acquire(&self, run: RunId) -> Result<Acquisition, SlotError> {
        let fail = |source| failed(&self.dir, source);
        let mut lock = self.dir.lock(LOCK_PATIENCE).map_err(fail)?.ok_or(SlotError::Stuck)?;
        let snapshot = queue::snapshot(&self.dir, self.queue_max).map_err(fail)?;
        if snapshot.is_empty()
            && let Some(slot) = take(&self.dir, self.slots, &lock).map_err(fail)?
        {
            return Ok(Acquisition::Taken(slot));
        }
        if snapshot.len >= u64::from(self.queue_max) {
            return Err(SlotError::QueueFull { len: snapshot.len, max: self.queue_max });
        }
        let mut ticket = Ticket::create(&self.dir, self.slots, run, &snapshot, &mut lock).map_err(fail)?;
        drop(lock);
        match ticket.try_advance()? {
            Some(slot) => Ok(Acquisition::Taken(slot)),
            None => Ok(Acquisition::Queued(ticket)),
        }
    }
}

impl Slot {
    pub fn number(&self) -> u32 {
        self.number
    }
}

impl AsFd for Slot {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.held.as_fd()
    }
}

/// Returns how many slots are taken.
pub fn slots_in_use(home: &Path) -> Result<u32, SlotError> {
    let dir = SlotsDir::in_home(home);
    if !dir.path().exists() {
        return Ok(0);
    }
    let fail = |source| failed(&dir, source);
    // Without the lock, a process that tries the slot could take this check for a holder.
    let _lock = dir.lock(LOCK_PATIENCE).map_err(fail)?.ok_or(SlotError::Stuck)?;
    let mut count = 0;
    for entry in std::fs::read_dir(dir.path()).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let is_slot = entry.file_name().as_encoded_bytes().starts_with(b"slot-");
        if is_slot && directory::is_held(&entry.path()).map_err(fail)? {
            count += 1;
        }
    }
    Ok(count)
}

/// Takes a free slot. The caller holds the queue's lock and is first in the queue.
pub(super) fn take(dir: &SlotsDir, slots: u32, _lock: &QueueLock) -> io::Result<Option<Slot>> {
    // Each process starts with another slot, so that with hundreds of slots none has to try all taken ones while it
    // holds the lock.
    let first = std::process::id() % slots;
    for number in (first..slots).chain(0..first) {
        let path = dir.slot_path(number);
        let held = match directory::open_holder_end(&path) {
            Err(Errno::NOENT) => {
                dir.create()?;
                directory::make_watchable(&path)?;
                directory::open_holder_end(&path)?
            }
            opened => opened?,
        };
        if directory::try_flock(&held, FlockOperation::NonBlockingLockExclusive)? {
            return Ok(Some(Slot { number, held }));
        }
    }
    Ok(None)
}

pub(super) fn failed(dir: &SlotsDir, source: io::Error) -> SlotError {
    SlotError::Io { path: dir.path().to_owned(), source }
}
