//! The keys of a map, taken one by one; what nobody took is unknown and is said so with a suggestion.

use domain::nearest::nearest;

use super::{Entry, Findings, Node, Place, Shape, quoted};

/// A map that is being read.
pub(crate) struct Fields<'a> {
    pub(crate) place: Place,
    within: String,
    left: Vec<&'a Entry>,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// Begins to read a map; reports anything else. Of a key that is written twice the last value counts, as it does for
    /// the vendors' programs, and a warning says so. `within` names the map for messages: empty for the file itself.
    pub(crate) fn open(node: &'a Node, within: &str, findings: &mut Findings<'_>) -> Option<Self> {
        let Shape::Map(entries) = &node.shape else {
            let what = if within.is_empty() { "the file" } else { within };
            findings
                .error(node.place, format!("{what}: expected keys with values, found {}", node.describe()));
            return None;
        };
        let mut left: Vec<&Entry> = Vec::new();
        let mut positions = std::collections::BTreeMap::new();
        for entry in entries {
            match positions.get(entry.key.as_str()) {
                None => {
                    positions.insert(entry.key.as_str(), left.len());
                    left.push(entry);
                }
                Some(position) => {
                    let Place { line, .. } = std::mem::replace(&mut left[*position], entry).place;
                    let message =
                        format!("the key {} is written twice; this value counts", quoted(&entry.key));
                    findings.warning_with_hint(
                        entry.place,
                        message,
                        format!("line {line} has the other value"),
                    );
                }
            }
        }
        Some(Self { place: node.place, within: within.to_owned(), left, known: Vec::new() })
    }

    /// Takes the value of a key. A key without a value counts as absent.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<&'a Node> {
        self.take_entry(key).map(|entry| &entry.node).filter(|node| node.shape != Shape::Nothing)
    }

    /// Takes the value of a key, also where it is empty.
    pub(crate) fn take_even_empty(&mut self, key: &'static str) -> Option<&'a Node> {
        self.take_entry(key).map(|entry| &entry.node)
    }

    /// Tells whether a key is there with a value.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.left.iter().any(|entry| entry.key == key && entry.node.shape != Shape::Nothing)
    }

    /// Returns the full name of a key for messages.
    pub(crate) fn name(&self, key: &str) -> String {
        if self.within.is_empty() { key.to_owned() } else { format!("{}.{key}", self.within) }
    }

    /// Warns about every key that nobody took.
    pub(crate) fn close(self, findings: &mut Findings<'_>) {
        for entry in self.left {
            let place = if self.within.is_empty() { String::new() } else { format!(" in {}", self.within) };
            let message = format!("unknown key {}{place} is ignored", quoted(&entry.key));
            if findings.is_full() {
                findings.warning(entry.place, message);
                continue;
            }
            let hint = match nearest(&entry.key, self.known.iter().copied()) {
                Some(known) => format!("did you mean {known}?"),
                None => format!("known keys: {}", self.known.join(", ")),
            };
            findings.warning_with_hint(entry.place, message, hint);
        }
    }

    fn take_entry(&mut self, key: &'static str) -> Option<&'a Entry> {
        self.known.push(key);
        let at = self.left.iter().position(|entry| entry.key == key)?;
        Some(self.left.remove(at))
    }
}
