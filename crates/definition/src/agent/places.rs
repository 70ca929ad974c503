//! Where a key stands in an agent's file, for a finding that its reader could not make.

use crate::frontmatter;
use crate::text::{Findings, Shape, YamlText, read_json, read_toml, read_yaml};

/// Returns line and column of an outermost key; nothing where the file has none or cannot be read. The ending of the file's
/// name tells how it is written.
pub fn place_of_key(file: &str, text: &str, key: &str) -> Option<(u32, u32)> {
    let text = &*frontmatter::normalize(text);
    // What is wrong with the file was said when it was read.
    let mut findings = Findings::new(file, text);
    let node = if file.ends_with(".json") {
        read_json(text, &mut findings)
    } else if file.ends_with(".toml") {
        read_toml(text, &mut findings)
    } else {
        let parts = frontmatter::split(text).ok()?;
        let yaml = YamlText { text: parts.yaml, lines_before: parts.lines_before };
        read_yaml(yaml, &mut findings)
    };
    let Shape::Map(entries) = node?.shape else { return None };
    let entry = entries.into_iter().find(|entry| entry.key == key)?;
    Some((entry.place.line, entry.place.column))
}
