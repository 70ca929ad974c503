//! The queue for slots: first come, first served, also when those in the middle die.
//!
//! Each waiter watches the one before it, and only the first tries slots, so that a release wakes the
//! first, who leaves and wakes the second: two wake-ups, however many wait.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::id::RunId;
use rustix::fs::FlockOperation;

use super::pool::{self, Slot, SlotError};
use super::room::{self, QueueLock, Room};
use super::watch::{Watch, Watched};

/// How often a ticket is tried again although its descriptor said nothing.
pub const RECHECK: Duration = Duration::from_millis(500);
/// How long a waiter waits for the queue's lock: its loop has other things to do.
const ADVANCE_PATIENCE: Duration = Duration::from_millis(20);

/// A place in the queue. Dropping it leaves the queue.
#[derive(Debug)]
pub struct Ticket {
    room: Room,
    slots: u32,
    number: u64,
    path: PathBuf,
    place: Place,
    watch: Watch,
    /// The flock that says that this ticket is alive; nothing when the queue was left.
    held: Option<OwnedFd>,
}

/// Who is in the queue, as far as it matters to a newcomer.
pub(super) struct Waiting {
    /// At least how many wait; exact when it reaches the bound.
    pub(super) len: u64,
    /// The greatest number in the queue.
    last: u64,
    /// The last one who is alive.
    tail: Option<PathBuf>,
}

#[derive(Debug)]
enum Place {
    Behind(PathBuf),
    First,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    run: String,
    path: PathBuf,
}

impl Waiting {
    pub(super) fn nobody(&self) -> bool {
        self.tail.is_none()
    }
}

impl Ticket {
    pub(super) fn create(
        room: &Room,
        slots: u32,
        run: RunId,
        waiting: &Waiting,
        lock: &mut QueueLock,
    ) -> io::Result<Self> {
        let number = lock.next_number(waiting.last)?;
        let unborn = room.unborn_ticket();
        room::remove_if_there(&unborn)?;
        room::make_watchable(&unborn)?;
        let held = room::open_holder_end(&unborn)?;
        // Locked before it appears, so a ticket in the queue that is not locked is a dead one.
        if !room::try_flock(&held, FlockOperation::NonBlockingLockExclusive)? {
            return Err(io::Error::other("a ticket that nobody knows yet is locked"));
        }
        let path = room.queue().join(format!("{number:020}.{run}"));
        std::fs::rename(&unborn, &path)?;
        let place = waiting.tail.clone().map_or(Place::First, Place::Behind);
        Ok(Self { room: room.clone(), slots, number, path, place, watch: Watch::default(), held: Some(held) })
    }

    /// Returns the number of the ticket; smaller ones go first.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the descriptor that is readable when [`Ticket::try_advance`] has something to do.
    ///
    /// It may change with each try. Without one, and in any case every [`RECHECK`], try anyway.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_fd()
    }

    /// Moves up as far as possible, and returns the slot when it is this ticket's turn and one is free.
    ///
    /// The ticket that got its slot has left the queue and gets no other.
    pub fn try_advance(&mut self) -> Result<Option<Slot>, SlotError> {
        if self.held.is_none() {
            return Ok(None);
        }
        let slot = self.advance().map_err(|source| pool::failed(&self.room, source))?;
        if slot.is_some() {
            self.leave();
        }
        Ok(slot)
    }

    fn advance(&mut self) -> io::Result<Option<Slot>> {
        while let Place::Behind(predecessor) = &self.place {
            if room::is_held(predecessor)? {
                if self.watch.len() > 0 || self.watch.add(predecessor) != Watched::Free {
                    return Ok(None);
                }
                // It left between the look and the watch.
                continue;
            }
            self.watch.clear();
            self.place = last_alive(&self.room, self.number)?.map_or(Place::First, Place::Behind);
        }
        self.take_as_first()
    }

    fn take_as_first(&mut self) -> io::Result<Option<Slot>> {
        let Some(lock) = self.room.lock(ADVANCE_PATIENCE)? else { return Ok(None) };
        if let Some(slot) = pool::take(&self.room, self.slots, &lock)? {
            return Ok(Some(slot));
        }
        if self.watch.len() == 0 {
            for number in 0..self.slots {
                if self.watch.add(&self.room.slot(number)) == Watched::Free
                    && let Some(slot) = pool::take(&self.room, self.slots, &lock)?
                {
                    return Ok(Some(slot));
                }
            }
        }
        Ok(None)
    }

    fn leave(&mut self) {
        self.watch.clear();
        if let Some(held) = self.held.take() {
            // A ticket that could not be removed is dead as soon as its lock is closed, and others remove it.
            let _ = room::remove_if_there(&self.path);
            drop(held);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Returns the place of a run in the queue: 1 is next. Nothing when it does not wait.
pub fn position(home: &Path, run: RunId) -> Option<u64> {
    let run = run.to_string();
    let entries = entries(&Room::of(home)).ok()?;
    let index = entries.iter().position(|entry| entry.run == run)?;
    if !room::is_held(&entries[index].path).ok()? {
        return None;
    }
    let before = entries[..index].iter().filter(|entry| room::is_held(&entry.path).unwrap_or(false));
    u64::try_from(before.count()).ok().map(|count| count + 1)
}

/// Returns how many runs wait.
pub fn queued(home: &Path) -> u64 {
    let entries = entries(&Room::of(home)).unwrap_or_default();
    entries.iter().filter(|entry| room::is_held(&entry.path).unwrap_or(false)).count() as u64
}

/// Looks at the queue for a newcomer, and removes the dead that it meets.
pub(super) fn waiting(room: &Room, queue_max: u32) -> io::Result<Waiting> {
    let mut entries = entries(room)?;
    let last = entries.last().map_or(0, |entry| entry.number);
    while let Some(entry) = entries.last()
        && !is_alive(entry)?
    {
        entries.pop();
    }
    let tail = entries.last().map(|entry| entry.path.clone());
    let mut len = entries.len() as u64;
    // Only a queue that looks full is looked through: its dead must not take the places of the living.
    if len >= u64::from(queue_max) {
        len = 0;
        for entry in &entries {
            len += u64::from(is_alive(entry)?);
        }
    }
    Ok(Waiting { len, last, tail })
}

/// Returns the last living ticket with a number smaller than this.
fn last_alive(room: &Room, number: u64) -> io::Result<Option<PathBuf>> {
    for entry in entries(room)?.into_iter().rev().filter(|entry| entry.number < number) {
        if is_alive(&entry)? {
            return Ok(Some(entry.path));
        }
    }
    Ok(None)
}

fn is_alive(entry: &Entry) -> io::Result<bool> {
    let held = room::is_held(&entry.path)?;
    if !held {
        room::remove_if_there(&entry.path)?;
    }
    Ok(held)
}

/// Returns what is in the queue by number. Names that are not tickets are not ours.
fn entries(room: &Room) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for item in std::fs::read_dir(room.queue())? {
        let item = item?;
        let name = item.file_name();
        let Some((number, run)) = name.to_str().and_then(|name| name.split_once('.')) else { continue };
        if let Ok(number) = number.parse() {
            entries.push(Entry { number, run: run.to_owned(), path: item.path() });
        }
    }
    entries.sort_by_key(|entry| entry.number);
    Ok(entries)
}
