//! A cache for lists, sums and health. It holds only ended runs, its rows never change, and it is rebuilt when it is
//! missing.
//!
//! The run directories are the source of truth. No decision depends on the index, and a caller may ignore a failed
//! write: the run keeps its marker in `open/`, and the next process that lists runs writes the row.

mod ended_run;
mod find_by_suffix;
mod health;
mod list;
mod open;
mod run_key;
mod write;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod wal_tests;

pub use ended_run::{ERROR_CHARS_MAX, EndedRun, PROMPT_HEAD_CHARS_MAX};
pub use find_by_suffix::SUFFIX_MATCHES_MAX;
pub use health::{HEALTH_ROWS_MAX, HealthRow, HealthTotals, LastError, OutcomeCounts};
pub use list::{LIST_ROWS_MAX, ListQuery};
pub use open::{INDEX_VERSION, Index, IndexError, IndexState, OpenedIndex, path};
pub use write::WriteOutcome;
