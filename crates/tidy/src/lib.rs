//! Checks on the source tree, written as tests: the rules of the style guide that a machine can check.
//!
//! A check takes a tree of files and returns findings, so that each check also runs on a small bad example. Uses only
//! the standard library.

pub mod arrows;
pub mod cycles;
pub mod differences;
pub mod exceptions;
pub mod files;
pub mod forbidden_words;
pub mod lexer;
pub mod modules;
pub mod privileges;
pub mod repository_files;
pub mod source_tree;
pub mod vocabulary;

#[cfg(test)]
mod tests;
