//! Checks on the source tree itself, written as tests: what the style guide says and a machine can see.
//!
//! A check takes a tree of files and returns findings, so that each is tried on a small bad example as well as on
//! this repository. Nothing but the standard library.

pub mod arrows;
pub mod code;
pub mod differences;
pub mod exceptions;
pub mod files;
pub mod modules;
pub mod privileges;
pub mod tree;
pub mod upkeep;
pub mod words;

#[cfg(test)]
mod tests;
