//! The uses of tools under way in a stream, bounded: whoever writes the stream may be hostile.

use std::collections::BTreeMap;

/// How many uses are remembered.
const CALLS_MAX: usize = 1_000;
/// The most of an id or a name.
const NAME_BYTES_MAX: usize = 200;

/// The names of tools, by the ids of their uses.
#[derive(Debug, Default)]
pub(crate) struct Calls(BTreeMap<String, String>);

impl Calls {
    pub(crate) fn began(&mut self, id: &str, name: &str) {
        if self.0.len() < CALLS_MAX {
            self.0.insert(bounded(id), bounded(name));
        }
    }

    /// Returns the name of a tool whose use is over; nothing if that is not known.
    pub(crate) fn ended(&mut self, id: &str) -> String {
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
    fn what_is_remembered_is_bounded_in_number_and_length() {
        let mut calls = Calls::default();
        let long = "x".repeat(1_000);
        calls.began(&long, &long);
        assert_eq!(calls.ended(&long), "x".repeat(NAME_BYTES_MAX));
        for number in 0..=CALLS_MAX {
            calls.began(&number.to_string(), "shell");
        }
        assert_eq!(calls.ended("0"), "shell");
        assert_eq!(calls.ended(&CALLS_MAX.to_string()), "");
    }
}
