//! Stores runs. A run is a directory, and the directory is the source of truth: the request, the events, the output
//! and the ending. Knows nothing of processes, models or user interfaces.

pub mod call_files;
pub mod durable;
pub mod event_line;
pub mod home;
pub mod idempotency_keys;
pub mod inbox;
pub mod index;
pub mod log;
pub mod project_runs;
pub mod retention;
pub mod run_dir;
pub mod run_lock;
pub mod run_lookup;
pub mod run_result;
pub mod run_tree;
pub mod session_names;
pub mod sessions;
pub mod slots;
pub mod spool;
pub mod store_error;

mod event_texts;
mod filesystem;

pub use home::{Home, HomeError, Unwritable};
pub use log::{LogCursor, LogReader, LogWriter, read_events, read_state};
pub use run_dir::{NewRun, RunDir};
pub use run_lock::RunLock;
pub use spool::{SpoolReader, SpoolWriter};
pub use store_error::StoreError;

#[cfg(test)]
mod fixtures;
