//! READS files that people write: text in, a value and all its problems out. Never touches a file, a clock or a
//! process.
//!
//! Every reader reports all problems of a text at once, each with line, column and a hint, and never panics.

pub mod agent_formats;
pub mod answer;
pub mod frontmatter;
pub mod jsonc;
pub mod script;
pub mod settings;
pub mod yaml;

mod limits;
mod quote_ascii;
mod text;

/// The largest definition, script or configuration that is read.
pub const FILE_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests;
