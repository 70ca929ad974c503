//! Slots: taking one, holding it, and counting those that are taken.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::id::RunId;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::queue::{self, Ticket};
use super::room::{self, QueueLock, Room};

/// How long the queue's lock is waited for. It is held for microseconds.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// Why no slot and no place in the queue could be had.
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
    room: Room,
    slots: u32,
    queue_max: u32,
}

/// The answer to a request for a slot.
#[derive(Debug)]
pub enum Acquire {
    Taken(Slot),
    Queued(Ticket),
}

/// The right to work. It ends when the last copy of its descriptor is closed, so a forked worker that
/// inherits it keeps the slot when its keeper dies, and the other way round.
#[derive(Debug)]
pub struct Slot {
    number: u32,
    held: OwnedFd,
}

impl Slots {
    /// Opens the slots of a home; at least one, whatever is asked.
    pub fn open(home: &Path, slots: u32, queue_max: u32) -> Result<Self, SlotError> {
        let room = Room::of(home);
        let slots = slots.max(1);
        room.create().map_err(|source| failed(&room, source))?;
        Ok(Self { room, slots, queue_max })
    }

    /// Takes a free slot if nobody waits for one, else a place at the end of the queue.
    pub fn acquire(&self, run: RunId) -> Result<Acquire, SlotError> {
        let fail = |source| failed(&self.room, source);
        let mut lock = self.room.lock(LOCK_PATIENCE).map_err(fail)?.ok_or(SlotError::Stuck)?;
        let waiting = queue::waiting(&self.room, self.queue_max).map_err(fail)?;
        if waiting.nobody()
            && let Some(slot) = take(&self.room, self.slots, &lock).map_err(fail)?
        {
            return Ok(Acquire::Taken(slot));
        }
        if waiting.len >= u64::from(self.queue_max) {
            return Err(SlotError::QueueFull { len: waiting.len, max: self.queue_max });
        }
        let mut ticket = Ticket::create(&self.room, self.slots, run, &waiting, &mut lock).map_err(fail)?;
        drop(lock);
        match ticket.try_advance()? {
            Some(slot) => Ok(Acquire::Taken(slot)),
            None => Ok(Acquire::Queued(ticket)),
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
    let room = Room::of(home);
    if !room.directory().exists() {
        return Ok(0);
    }
    let fail = |source| failed(&room, source);
    // Without the lock a look could be taken for a holder by someone who tries that slot.
    let _lock = room.lock(LOCK_PATIENCE).map_err(fail)?.ok_or(SlotError::Stuck)?;
    let mut count = 0;
    for entry in std::fs::read_dir(room.directory()).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let is_slot = entry.file_name().as_encoded_bytes().starts_with(b"slot-");
        if is_slot && room::is_held(&entry.path()).map_err(fail)? {
            count += 1;
        }
    }
    Ok(count)
}

/// Takes a free slot. Whoever calls has the queue's lock and may go first.
pub(super) fn take(room: &Room, slots: u32, _lock: &QueueLock) -> io::Result<Option<Slot>> {
    // Each begins elsewhere: with hundreds of slots nobody shall try all that are taken, with the lock held.
    let first = std::process::id() % slots;
    for number in (first..slots).chain(0..first) {
        let path = room.slot(number);
        let held = match room::open_holder_end(&path) {
            Err(Errno::NOENT) => {
                room.create()?;
                room::make_watchable(&path)?;
                room::open_holder_end(&path)?
            }
            opened => opened?,
        };
        if room::try_flock(&held, FlockOperation::NonBlockingLockExclusive)? {
            return Ok(Some(Slot { number, held }));
        }
    }
    Ok(None)
}

pub(super) fn failed(room: &Room, source: io::Error) -> SlotError {
    SlotError::Io { path: room.directory().to_owned(), source }
}
