//! Files that others created: finds programs on a search path, and opens regular files without waiting or side effects.
//! Starts nothing and writes nothing.

pub mod regular_file;
mod search_path;

pub use search_path::find_program;
