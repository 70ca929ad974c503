//! The queue for slots: first come, first served, even if waiters in the middle die.
//!
//! Each waiter watches its predecessor, and only the first tries slots. So a release wakes the first, which leaves
//! and wakes the second: two wake-ups, however many wait.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::id::RunId;
use rustix::fs::FlockOperation;

use super::directory::{self, QueueLock, SlotsDir};
use super::pool::{self, Slot, SlotError};
use super::watch::{HolderState, Watch};

/// How often a ticket is tried although its descriptor is not ready.
pub const RECHECK: Duration = Duration::from_millis(500);
/// How long a waiter waits for the queue's lock, because its loop has other work, and how soon it retries.
const ADVANCE_PATIENCE: Duration = Duration::from_millis(20);
const ADVANCE_RETRY: Duration = Duration::from_millis(5);

/// A position in the queue. Dropping it leaves the queue.
#[derive(Debug)]
pub struct Ticket {
    dir: SlotsDir,
    slots: u32,
    number: u64,
    path: PathBuf,
    position: QueuePosition,
    watch: Watch,
    /// Whether the last try failed because another process held the queue's lock.
    was_locked_out: bool,
    /// The flock that shows that this ticket is alive; `None` after it left the queue.
    held: Option<OwnedFd>,
}

/// The state of the queue that a new waiter needs.
pub(super) struct QueueSnapshot {
    /// A lower bound of the number of waiters; exact when it reaches the queue's limit.
    pub(super) len: u64,
    /// The greatest number in the queue.
    last: u64,
    /// The last ticket that is alive.
    tail: Option<PathBuf>,
}

#[derive(Debug)]
enum QueuePosition {
    Behind(PathBuf),
    First,
}

#[derive(Debug)]
struct QueueEntry {
    number: u64,
    run: String,
    path: PathBuf,
}

impl QueueSnapshot {
    pub(super) fn is_empty(&self) -> bool {
        self.tail.is_none()
    }
}

impl Ticket {
    pub(super) fn create(
        dir: &SlotsDir,
        slots: u32,
        run: RunId,
        snapshot: &QueueSnapshot,
        lock: &mut QueueLock,
    ) -> io::Result<Self> {
        let number = lock.next_number(snapshot.last)?;
        let staged = dir.staged_ticket_path();
        directory::remove_if_exists(&staged)?;
        directory::make_watchable(&staged)?;
        let held = directory::open_holder_end(&staged)?;
        // Locked before it appears, so an unlocked ticket in the queue is dead.
        if !directory::try_flock(&held, FlockOperation::NonBlockingLockExclusive)? {
            return Err(io::Error::other("a ticket that nobody knows yet is locked"));
        }
        let path = dir.queue_dir().join(format!("{number:020}.{run}"));
        std::fs::rename(&staged, &path)?;
        let position = snapshot.tail.clone().map_or(QueuePosition::First, QueuePosition::Behind);
        Ok(Self {
            dir: dir.clone(),
            slots,
            number,
            path,
            position,
            watch: Watch::default(),
            was_locked_out: false,
            held: Some(held),
        })
    }

    /// Returns the number of the ticket; smaller ones go first.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the descriptor that is readable when [`Ticket::try_advance`] has something to do.
    ///
    /// It may change with each try, and so may [`Ticket::recheck_after`].
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_fd()
    }

    /// Returns how long to wait for the descriptor before trying anyway: [`RECHECK`] or less.
    pub fn recheck_after(&self) -> Duration {
        if self.was_locked_out { ADVANCE_RETRY } else { RECHECK }
    }

    /// Moves up as far as possible, and returns a slot if this ticket is first and one is free.
    ///
    /// A ticket that got its slot has left the queue and gets no other.
    pub fn try_advance(&mut self) -> Result<Option<Slot>, SlotError> {
        if self.held.is_none() {
            return Ok(None);
        }
        let slot = self.advance().map_err(|source| pool::failed(&self.dir, source))?;
        if slot.is_some() {
            self.leave();
        }
        Ok(slot)
    }

    fn advance(&mut self) -> io::Result<Option<Slot>> {
        while let QueuePosition::Behind(predecessor) = &self.position {
            if directory::is_held(predecessor)? {
                if self.watch.len() > 0 || self.watch.add(predecessor) != HolderState::Free {
                    return Ok(None);
                }
                // The predecessor left between the check and the watch.
                continue;
            }
            self.watch.clear();
            self.position =
                last_alive(&self.dir, self.number)?.map_or(QueuePosition::First, QueuePosition::Behind);
        }
        self.take_as_first()
    }

    fn take_as_first(&mut self) -> io::Result<Option<Slot>> {
        let lock = self.dir.lock(ADVANCE_PATIENCE)?;
        self.was_locked_out = lock.is_none();
        let Some(lock) = lock else { return Ok(None) };
        if let Some(slot) = pool::take(&self.dir, self.slots, &lock)? {
            return Ok(Some(slot));
        }
        if self.watch.len() < self.slots as usize {
            self.watch.clear();
            for number in 0..self.slots {
                if self.watch.add(&self.dir.slot_path(number)) == HolderState::Free
                    && let Some(slot) = pool::take(&self.dir, self.slots, &lock)?
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
            // A ticket that could not be removed is dead as soon as its lock is closed, and other processes remove
            // it.
            let _ = directory::remove_if_exists(&self.path);
            drop(held);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Returns the position of a run in the queue: 1 is next. `None` if it does not wait.
pub fn queue_position(home: &Path, run: RunId) -> Option<u64> {
    let run = run.to_string();
    let entries = entries(&SlotsDir::in_home(home)).ok()?;
    let index = entries.iter().position(|entry| entry.run == run)?;
    if !directory::is_held(&entries[index].path).ok()? {
        return None;
    }
    let before = entries[..index].iter().filter(|entry| directory::is_held(&entry.path).unwrap_or(false));
    u64::try_from(before.count()).ok().map(|count| count + 1)
}

/// Returns how many runs wait.
pub fn queue_length(home: &Path) -> u64 {
    let entries = entries(&SlotsDir::in_home(home)).unwrap_or_default();
    entries.iter().filter(|entry| directory::is_held(&entry.path).unwrap_or(false)).count() as u64
}

/// Reads the queue for a new waiter and removes dead tickets that it finds.
pub(super) fn snapshot(dir: &SlotsDir, queue_max: u32) -> io::Result<QueueSnapshot> {
    let mut entries = entries(dir)?;
    let last = entries.last().map_or(0, |entry| entry.number);
    while let Some(entry) = entries.last()
        && !is_alive(entry)?
    {
        entries.pop();
    }
    let tail = entries.last().map(|entry| entry.path.clone());
    let mut len = entries.len() as u64;
    // All tickets are checked only if the queue seems full, so that dead ones do not take the positions of living ones.
    if len >= u64::from(queue_max) {
        len = 0;
        for entry in &entries {
            len += u64::from(is_alive(entry)?);
        }
    }
    Ok(QueueSnapshot { len, last, tail })
}

/// Returns the last living ticket with a smaller number.
fn last_alive(dir: &SlotsDir, number: u64) -> io::Result<Option<PathBuf>> {
    for entry in entries(dir)?.into_iter().rev().filter(|entry| entry.number < number) {
        if is_alive(&entry)? {
            return Ok(Some(entry.path));
        }
    }
    Ok(None)
}

fn is_alive(entry: &QueueEntry) -> io::Result<bool> {
    let held = directory::is_held(&entry.path)?;
    if !held {
        directory::remove_if_exists(&entry.path)?;
    }
    Ok(held)
}

/// Returns the entries of the queue by number. Other names are ignored.
fn entries(dir: &SlotsDir) -> io::Result<Vec<QueueEntry>> {
    let mut entries = Vec::new();
    for item in std::fs::read_dir(dir.queue_dir())? {
        let item = item?;
        let name = item.file_name();
        let Some((number, run)) = name.to_str().and_then(|name| name.split_once('.')) else { continue };
        if let Ok(number) = number.parse() {
            entries.push(QueueEntry { number, run: run.to_owned(), path: item.path() });
        }
    }
    entries.sort_by_key(|entry| entry.number);
    Ok(entries)
}
