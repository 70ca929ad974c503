//! READS what people write: text in, a value and all its problems out. Never touches a file, a clock or a process.
//!
//! Every reader reports all problems of a text at once, each with line, column and a hint, and never panics.

pub mod agent;
pub mod answer;
pub mod config;
pub mod frontmatter;
pub mod script;
pub mod yaml;

mod limits;
mod text;

/// The largest definition, script or configuration that is read.
pub const FILE_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests;
