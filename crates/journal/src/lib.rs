//! REMEMBERS. A run is a directory, and the directory is the truth: what was asked, what happened, what was
//! said, and how it ended. Knows nothing of processes, models or doors.

pub mod durable;
pub mod find;
pub mod home;
pub mod index;
pub mod inbox;
pub mod keys;
pub mod line;
pub mod log;
pub mod result;
pub mod run_dir;
pub mod run_lock;
pub mod slots;
pub mod spool;
pub mod store_error;

mod filesystem;
mod texts;

#[cfg(test)]
mod sample;
