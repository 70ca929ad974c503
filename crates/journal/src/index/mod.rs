//! A cache for lists, sums and health: ended runs only, rows that never change, rebuilt when missing.
//!
//! The truth is in the run directories. Nothing here decides anything, and a write that does not get through
//! is a value that a door may ignore: the run stays in `open/` and is written by whoever looks next.

mod ended;
mod ending;
mod health;
mod key;
mod list;
mod open;
mod write;

#[cfg(test)]
mod log_tests;
#[cfg(test)]
mod tests;

pub use ended::{ERROR_CHARS_MAX, EndedRun, PROMPT_HEAD_CHARS_MAX};
pub use ending::ENDING_MATCHES_MAX;
pub use health::{HEALTH_ROWS_MAX, Health, HealthRow, LastError, OutcomeCounts};
pub use list::{LIST_ROWS_MAX, ListQuery};
pub use open::{INDEX_VERSION, Index, IndexError, Opened, State, path};
pub use write::Written;
