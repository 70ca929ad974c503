//! REMEMBERS. A run is a directory, and the directory is the truth: what was asked, what happened, what was
//! said, and how it ended. Knows nothing of processes, models or doors.

pub mod durable;
pub mod find;
pub mod home;
pub mod inbox;
pub mod index;
pub mod keys;
pub mod line;
pub mod log;
pub mod result;
pub mod retention;
pub mod roster;
pub mod run_dir;
pub mod run_lock;
pub mod session_names;
pub mod sessions;
pub mod slots;
pub mod spool;
pub mod store_error;
pub mod tree;

mod filesystem;
mod texts;

pub use home::{Home, HomeError, Unwritable};
pub use log::{LogWriter, read_events, read_state};
pub use run_dir::{NewRun, RunDir};
pub use run_lock::RunLock;
pub use spool::{SpoolReader, SpoolWriter};
pub use store_error::StoreError;

#[cfg(test)]
mod sample;
