//! Splits output into complete lines. Bounded.

use serde_json::Value;

use crate::contract::AgentReport;

/// The longest line that is interpreted. Longer ones are skipped.
pub const LINE_BYTES_MAX: usize = 8 << 20;

/// Assembles lines from chunks.
#[derive(Debug)]
pub struct LineSplitter {
    buffer: Vec<u8>,
    bytes_max: usize,
    /// The current line is too long: everything up to its end is skipped.
    skipping: bool,
}

/// A complete line, or a note that one was too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputLine {
    Whole(Vec<u8>),
    TooLong,
}

impl OutputLine {
    /// Parses a line as JSON. A line that is not JSON is skipped; one that was too long gives a warning.
    pub fn parse_json(self) -> Result<Value, Vec<AgentReport>> {
        match self {
            Self::Whole(line) => serde_json::from_slice(&line).map_err(|_| Vec::new()),
            Self::TooLong => {
                let message = "a line of output was too long and was passed over";
                Err(vec![AgentReport::Warned(message.to_owned())])
            }
        }
    }
}

impl Default for LineSplitter {
    fn default() -> Self {
        Self::with_max(LINE_BYTES_MAX)
    }
}

impl LineSplitter {
    /// Skips lines that are longer than `bytes_max`.
    pub fn with_max(bytes_max: usize) -> Self {
        Self { buffer: Vec::new(), bytes_max, skipping: false }
    }

    /// Adds a chunk and returns the lines that it completes, without their line ends.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<OutputLine> {
        let mut lines = Vec::new();
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.push(&rest[..end], &mut lines);
            rest = &rest[end + 1..];
            if !std::mem::replace(&mut self.skipping, false) {
                lines.push(OutputLine::Whole(std::mem::take(&mut self.buffer)));
            }
        }
        self.push(rest, &mut lines);
        lines
    }

    /// Returns the text after the last line end.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        self.skipping = false;
        Some(std::mem::take(&mut self.buffer)).filter(|buffer| !buffer.is_empty())
    }

    fn push(&mut self, bytes: &[u8], lines: &mut Vec<OutputLine>) {
        if self.skipping {
            return;
        }
        if self.buffer.len() + bytes.len() > self.bytes_max {
            self.buffer = Vec::new();
            self.skipping = true;
            lines.push(OutputLine::TooLong);
            return;
        }
        self.buffer.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_reported_once_and_the_next_one_is_whole() {
        let mut lines = LineSplitter::default();
        let piece = vec![b'x'; LINE_BYTES_MAX / 2 + 1];
        assert_eq!(lines.feed(&piece), []);
        assert_eq!(lines.feed(&piece), [OutputLine::TooLong]);
        assert_eq!(lines.feed(b"xx\nnext\n"), [OutputLine::Whole(b"next".to_vec())]);
        assert_eq!(lines.finish(), None);
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_give_the_same_lines(text in "[ab\n]{0,60}", cuts in prop::collection::vec(0_usize..60, 0..6)) {
            let mut whole = LineSplitter::default();
            let mut expected = whole.feed(text.as_bytes());
            expected.extend(whole.finish().map(OutputLine::Whole));
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.push(text.len());
            cuts.sort_unstable();
            let (mut pieces, mut got, mut from) = (LineSplitter::default(), Vec::new(), 0);
            for cut in cuts {
                got.extend(pieces.feed(&text.as_bytes()[from..cut]));
                from = cut;
            }
            got.extend(pieces.finish().map(OutputLine::Whole));
            prop_assert_eq!(got, expected);
        }
    }
}
