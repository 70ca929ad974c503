//! Placeholder.

pub mod index;
pub mod retention;
pub mod slots;
