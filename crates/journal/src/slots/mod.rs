//! Limits how many runs work at once on this machine and queues the others, with flocked files and without a daemon.
//!
//! A slot is a FIFO `slots/slot-<n>` whose reader holds its flock; a position in the queue is a FIFO
//! `slots/queue/<number>.<run>` of the same kind. A waiter opens the write end, and the kernel reports when the last
//! reader is gone, however it ended. Inotify would need an instance per waiter, of which a user has 128, and reports
//! a close before the flock of that file is free; a FIFO has neither problem. Without FIFOs or epoll, regular files
//! and polling every [`RECHECK`] have the same effect, with a delay.

mod directory;
mod pool;
mod queue;
mod watch;

#[cfg(test)]
mod tests;

pub use pool::{Acquisition, Slot, SlotError, Slots, slots_in_use};
pub use queue::{RECHECK, Ticket, queue_length, queue_position};
