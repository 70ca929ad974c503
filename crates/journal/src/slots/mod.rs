//! How many runs work at once on this machine, and who is next: flocked files, no daemon.
//!
//! A slot is a FIFO `slots/slot-<n>` whose reader holds its flock; a place in the queue is a FIFO
//! `slots/queue/<number>.<run>` of the same kind. Whoever waits opens the other end and is told by the
//! kernel when the last reader is gone, however it went. Inotify would need an instance per waiter, of
//! which a user has 128, and reports a close before the flock of that file is free; a FIFO does neither.
//! Where FIFOs or epoll are missing, files and a look every [`RECHECK`] do the same, later.

mod pool;
mod queue;
mod room;
mod watch;

#[cfg(test)]
mod tests;

pub use pool::{Acquire, Slot, SlotError, Slots, slots_in_use};
pub use queue::{RECHECK, Ticket, position, queued};
