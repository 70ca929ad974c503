//! The output of an agent on disk, bounded: all of it while it is small, its beginning and its end when it is not.
//!
//! A spool of at most `max` bytes has the first half in `stdout`; the rest goes alternately to `stdout.tail0` and
//! `stdout.tail1`, a quarter each, so that the last quarter to half of `max` is available. Offsets refer to the
//! stream as it was written, so a follower can continue even if bytes were dropped in between.

mod reader;
mod segment;
mod writer;

pub use reader::{SpoolPage, SpoolReader};
pub use writer::{SPOOL_BYTES_MIN, SpoolWrite, SpoolWriter};

#[cfg(test)]
mod tests;
