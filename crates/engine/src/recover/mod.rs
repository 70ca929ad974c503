//! Ends runs whose processes were lost, and resumes them.

mod reconcile;
mod resume;
