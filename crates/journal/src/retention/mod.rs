//! What is forgotten, and when: spooled output first, the record later, a run that has not ended never.
//!
//! A run is deleted by moving it to `trash/`, telling whoever keeps rows about it, and removing it there, so a
//! crash at any point leaves work for the next sweep and nothing else. No symbolic link is ever followed.

mod policy;
mod run;
mod sweep;
mod trash;

#[cfg(test)]
mod tests;

pub use policy::{Action, Policy, decide};
pub use sweep::{Problem, RetentionError, Sweep, SweepLimits, SweepReport, dry_run, sweep, sweep_if_due};
