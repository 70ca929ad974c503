//! The log of a run: `events.jsonl`, one writer, any number of readers.

mod reader;
mod writer;

pub(crate) use reader::ended_at;
pub use reader::{EventBatch, LogCursor, LogReader, read_events, read_state};
pub use writer::LogWriter;
pub(crate) use writer::{AHEAD_BYTES, RESERVE_BYTES};

#[cfg(test)]
mod tests;
