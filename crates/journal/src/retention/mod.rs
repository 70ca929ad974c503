//! Removes old data: spooled output first, the record later, and never a run that has not ended.
//!
//! A run is deleted by moving it to `trash/`, removing its rows from the index, and removing it from the trash, so a
//! crash at any point only leaves work for the next sweep. No symbolic link is ever followed.

mod policy;
mod run_files;
mod sweep;
mod trash;

#[cfg(test)]
mod tests;

pub use policy::{RetentionAction, RetentionPolicy, decide};
pub use sweep::{
    Problem, RetentionError, SweepLimits, SweepReport, SweepRequest, dry_run, sweep, sweep_if_due,
};
