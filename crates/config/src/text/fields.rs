//! The keys of a map, taken one by one; the remaining ones are reported as unknown, with a suggestion.

use domain::nearest::nearest;

use super::{Diagnostics, MapEntry, Node, NodeValue, SourceLocation, quote};

/// A map that is being read.
pub(crate) struct Fields<'a> {
    pub(crate) location: SourceLocation,
    within: String,
    remaining: Vec<&'a MapEntry>,
    known_keys: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// Begins to read a map; reports anything else. The last value of a duplicate key counts, as in the vendors'
    /// programs, with a warning. `within` is the name of the map in messages: empty for the file itself.
    pub(crate) fn open(node: &'a Node, within: &str, diagnostics: &mut Diagnostics<'_>) -> Option<Self> {
        let NodeValue::Map(entries) = &node.value else {
            let what = if within.is_empty() { "the file" } else { within };
            diagnostics.error(
                node.location,
                format!("{what}: expected keys with values, found {}", node.describe()),
            );
            return None;
        };
        let mut remaining: Vec<&MapEntry> = Vec::new();
        let mut positions = std::collections::BTreeMap::new();
        for entry in entries {
            match positions.get(entry.key.as_str()) {
                None => {
                    positions.insert(entry.key.as_str(), remaining.len());
                    remaining.push(entry);
                }
                Some(position) => {
                    let SourceLocation { line, .. } =
                        std::mem::replace(&mut remaining[*position], entry).location;
                    let message =
                        format!("the key {} is written twice; this value counts", quote(&entry.key));
                    diagnostics.warning_with_hint(
                        entry.location,
                        message,
                        format!("line {line} has the other value"),
                    );
                }
            }
        }
        Some(Self { location: node.location, within: within.to_owned(), remaining, known_keys: Vec::new() })
    }

    /// Takes the value of a key. A key without a value counts as missing.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<&'a Node> {
        self.take_entry(key).map(|entry| &entry.node).filter(|node| node.value != NodeValue::Null)
    }

    /// Takes the value of a key, even if it is empty.
    pub(crate) fn take_even_empty(&mut self, key: &'static str) -> Option<&'a Node> {
        self.take_entry(key).map(|entry| &entry.node)
    }

    /// Returns whether a key is there with a value.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.remaining.iter().any(|entry| entry.key == key && entry.node.value != NodeValue::Null)
    }

    /// Returns the full name of a key for messages.
    pub(crate) fn name(&self, key: &str) -> String {
        if self.within.is_empty() { key.to_owned() } else { format!("{}.{key}", self.within) }
    }

    /// Warns about every remaining key.
    pub(crate) fn close(self, diagnostics: &mut Diagnostics<'_>) {
        for entry in self.remaining {
            let suffix = if self.within.is_empty() { String::new() } else { format!(" in {}", self.within) };
            let message = format!("unknown key {}{suffix} is ignored", quote(&entry.key));
            if diagnostics.is_full() {
                diagnostics.warning(entry.location, message);
                continue;
            }
            let hint = match nearest(&entry.key, self.known_keys.iter().copied()) {
                Some(known) => format!("did you mean {known}?"),
                None => format!("known keys: {}", self.known_keys.join(", ")),
            };
            diagnostics.warning_with_hint(entry.location, message, hint);
        }
    }

    fn take_entry(&mut self, key: &'static str) -> Option<&'a MapEntry> {
        self.known_keys.push(key);
        let at = self.remaining.iter().position(|entry| entry.key == key)?;
        Some(self.remaining.remove(at))
    }
}
