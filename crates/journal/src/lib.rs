//! Placeholder.

pub mod index;
pub mod slots;
