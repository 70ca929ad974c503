//! Where a key stands in somebody's file, for a finding that only the backend could make.

use std::path::Path;

use super::text::read_text;

/// Returns line and column of a key; nothing where the file does not have it.
pub fn place_of_key(file: &str, key: &str) -> Option<(u32, u32)> {
    // What is wrong with the file was said when it was read.
    let text = read_text(Path::new(file), &mut Vec::new())?;
    definition::agent::place_of_key(file, &text, key)
}
