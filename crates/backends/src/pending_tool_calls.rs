//! Tracks the tool calls under way in a stream. Bounded, because the program that writes the stream may be hostile.

use std::collections::BTreeMap;

/// How many calls are remembered.
const CALLS_MAX: usize = 1_000;
/// The longest id or name that is stored.
const NAME_BYTES_MAX: usize = 200;

/// The names of tools, keyed by the ids of their calls.
#[derive(Debug, Default)]
pub(crate) struct PendingToolCalls(BTreeMap<String, String>);

impl PendingToolCalls {
    pub(crate) fn insert(&mut self, id: &str, name: &str) {
        if self.0.len() < CALLS_MAX {
            self.0.insert(bounded(id), bounded(name));
        }
    }

    /// Returns the name of the tool whose call has ended; empty if it is unknown.
    pub(crate) fn remove(&mut self, id: &str) -> String {
        self.0.remove(&bounded(id)).unwrap_or_default()
    }
}

fn bounded(text: &str) -> String {
    domain::size::head(text, NAME_BYTES_MAX).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembered_calls_are_bounded_in_number_and_length() {
        let mut calls = PendingToolCalls::default();
        let long = "x".repeat(1_000);
        calls.insert(&long, &long);
        assert_eq!(calls.remove(&long), "x".repeat(NAME_BYTES_MAX));
        for number in 0..=CALLS_MAX {
            calls.insert(&number.to_string(), "shell");
        }
        assert_eq!(calls.remove("0"), "shell");
        assert_eq!(calls.remove(&CALLS_MAX.to_string()), "");
    }
}
