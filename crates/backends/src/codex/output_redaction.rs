//! Removes the user's account and settings from the recorded output. Codex writes each of them once, and they may contain secrets.

use std::borrow::Cow;

use serde_json::Value;

use super::protocol::{ACCOUNT_ID, CONFIG_ID, answered_request_id};
use crate::line_splitter::{LineSplitter, OutputLine};

/// Filters the output until both responses have passed.
#[derive(Debug)]
pub(super) struct OutputRedactor {
    lines: LineSplitter,
    /// The requests whose responses are still to come.
    pending: Vec<u64>,
}

impl Default for OutputRedactor {
    fn default() -> Self {
        Self { lines: LineSplitter::default(), pending: vec![ACCOUNT_ID, CONFIG_ID] }
    }
}

impl OutputRedactor {
    /// Returns the part of some output that may be recorded.
    pub(super) fn redact<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.pending.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut recorded = Vec::new();
        for line in self.lines.feed(bytes) {
            let OutputLine::Whole(mut line) = line else { continue };
            let answered =
                serde_json::from_slice::<Value>(&line).ok().and_then(|message| answered_request_id(&message));
            match answered.and_then(|id| self.pending.iter().position(|pending| *pending == id)) {
                Some(index) => _ = self.pending.remove(index),
                None => {
                    recorded.append(&mut line);
                    recorded.push(b'\n');
                }
            }
        }
        if self.pending.is_empty() {
            recorded.extend(self.lines.finish().unwrap_or_default());
        }
        Cow::Owned(recorded)
    }
}
