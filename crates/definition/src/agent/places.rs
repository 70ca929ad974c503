//! Where a key stands in an agent's file, for a finding that its reader could not make.

use crate::frontmatter;
use crate::text::{Findings, Node, Shape, YamlText, read_json, read_toml, read_yaml};

/// Returns line and column of the innermost name on a path that the file has; nothing where it has not even the first.
pub fn place_of_path(file: &str, text: &str, path: &[&str]) -> Option<(u32, u32)> {
    let mut node = tree(file, text)?;
    let mut place = None;
    for name in path {
        let Shape::Map(entries) = node.shape else { break };
        let Some(entry) = entries.into_iter().find(|entry| entry.key == *name) else { break };
        place = Some((entry.place.line, entry.place.column));
        node = entry.node;
    }
    place
}

/// Returns line and column of an outermost key; nothing where the file has none or cannot be read. The ending of the file's
/// name tells how it is written.
pub fn place_of_key(file: &str, text: &str, key: &str) -> Option<(u32, u32)> {
    place_of_path(file, text, &[key])
}

fn tree(file: &str, text: &str) -> Option<Node> {
    let text = &*frontmatter::normalize(text);
    // What is wrong with the file was said when it was read.
    let mut findings = Findings::new(file, text);
    if file.ends_with(".json") {
        read_json(text, &mut findings)
    } else if file.ends_with(".toml") {
        read_toml(text, &mut findings)
    } else {
        let parts = frontmatter::split(text).ok()?;
        let yaml = YamlText { text: parts.yaml, lines_before: parts.lines_before };
        read_yaml(yaml, &mut findings)
    }
}
