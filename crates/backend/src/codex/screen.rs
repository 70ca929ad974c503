//! Keeps the user's own settings out of the record: Codex tells them once, with whatever secrets stand in them.

use std::borrow::Cow;

use serde_json::Value;

use super::message::{CONFIG, answered};
use crate::lines::{Line, Lines};

/// Stands before the record until the settings have passed.
#[derive(Debug, Default)]
pub(super) struct Screen {
    lines: Lines,
    passed: bool,
}

impl Screen {
    /// Returns what of a piece of output may be kept.
    pub(super) fn kept<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.passed {
            return Cow::Borrowed(bytes);
        }
        let mut kept = Vec::new();
        for line in self.lines.feed(bytes) {
            match line {
                Line::Whole(line) if !self.passed && tells_settings(&line) => self.passed = true,
                Line::Whole(line) => {
                    kept.extend(line);
                    kept.push(b'\n');
                }
                Line::TooLong => {}
            }
        }
        if self.passed {
            kept.extend(self.lines.finish().unwrap_or_default());
        }
        Cow::Owned(kept)
    }
}

fn tells_settings(line: &[u8]) -> bool {
    serde_json::from_slice::<Value>(line).is_ok_and(|message| answered(&message) == Some(CONFIG))
}
