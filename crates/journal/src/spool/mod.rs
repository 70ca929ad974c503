//! The output of an agent on disk, bounded: all of it while it is small, its head and its end when it is not.
//!
//! A spool of at most `max` bytes keeps the first half in `stdout`; what follows goes in turns to `stdout.tail0`
//! and `stdout.tail1`, a quarter each, so that between a quarter and a half of `max` of the end is there.
//! Offsets count in the stream as it was written, so a follower can go on whatever was dropped meanwhile.

mod reader;
mod segment;
mod writer;

pub use reader::{SpoolPage, SpoolReader};
pub use writer::{SPOOL_BYTES_MIN, SpoolWriter, Wrote};

#[cfg(test)]
mod tests;
