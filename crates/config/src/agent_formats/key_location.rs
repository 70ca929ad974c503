//! Finds the location of a key in an agent's file, for diagnostics that its reader cannot make.

use crate::frontmatter;
use crate::text::{Diagnostics, Node, NodeValue, YamlText, read_json, read_toml, read_yaml};

/// Returns line and column of the innermost key of a path that the file contains; `None` if it does not contain the
/// first.
pub fn locate_key_path(file: &str, text: &str, path: &[&str]) -> Option<(u32, u32)> {
    let mut node = parse_tree(file, text)?;
    let mut location = None;
    for name in path {
        let NodeValue::Map(entries) = node.value else { break };
        let Some(entry) = entries.into_iter().find(|entry| entry.key == *name) else { break };
        location = Some((entry.location.line, entry.location.column));
        node = entry.node;
    }
    location
}

/// Returns line and column of a top-level key; `None` if the file does not contain it or cannot be read. The
/// extension of the file decides about the syntax.
pub fn locate_key(file: &str, text: &str, key: &str) -> Option<(u32, u32)> {
    locate_key_path(file, text, &[key])
}

fn parse_tree(file: &str, text: &str) -> Option<Node> {
    let text = &*frontmatter::normalize(text);
    // The reader of the file has reported its problems already.
    let mut diagnostics = Diagnostics::new(file, text);
    if file.ends_with(".json") {
        read_json(text, &mut diagnostics)
    } else if file.ends_with(".toml") {
        read_toml(text, &mut diagnostics)
    } else {
        let parts = frontmatter::split(text).ok()?;
        let yaml = YamlText { text: parts.yaml, lines_before: parts.lines_before };
        read_yaml(yaml, &mut diagnostics)
    }
}
