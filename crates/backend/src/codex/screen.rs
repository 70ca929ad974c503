//! Keeps the user's account and settings out of the record: Codex tells them once, with whatever secrets they hold.

use std::borrow::Cow;

use serde_json::Value;

use super::message::{ACCOUNT, CONFIG, answered};
use crate::lines::{Line, Lines};

/// Stands before the record until both have passed.
#[derive(Debug)]
pub(super) struct Screen {
    lines: Lines,
    /// The requests whose answers are still to come.
    awaited: Vec<u64>,
}

impl Default for Screen {
    fn default() -> Self {
        Self { lines: Lines::default(), awaited: vec![ACCOUNT, CONFIG] }
    }
}

impl Screen {
    /// Returns what of a piece of output may be kept.
    pub(super) fn kept<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.awaited.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut kept = Vec::new();
        for line in self.lines.feed(bytes) {
            let Line::Whole(mut line) = line else { continue };
            let answers = serde_json::from_slice::<Value>(&line).ok().and_then(|message| answered(&message));
            match answers.and_then(|number| self.awaited.iter().position(|awaited| *awaited == number)) {
                Some(at) => _ = self.awaited.remove(at),
                None => {
                    kept.append(&mut line);
                    kept.push(b'\n');
                }
            }
        }
        if self.awaited.is_empty() {
            kept.extend(self.lines.finish().unwrap_or_default());
        }
        Cow::Owned(kept)
    }
}
