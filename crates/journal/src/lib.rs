//! Placeholder.

pub mod slots;
