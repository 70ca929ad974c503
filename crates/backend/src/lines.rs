//! Output that comes in lines: put together from pieces, bounded, and whole lines only.

use serde_json::Value;

use crate::contract::Report;

/// The longest line that is understood. Longer ones are passed over.
pub const LINE_BYTES_MAX: usize = 8 << 20;

/// Puts lines together.
#[derive(Debug, Default)]
pub struct Lines {
    held: Vec<u8>,
    /// The line under way is too long: everything up to its end is passed over.
    skipping: bool,
}

/// A line, or that there was one too long to be held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    Whole(Vec<u8>),
    TooLong,
}

impl Line {
    /// Returns the JSON value of a line. What is none is passed over; what was too long for that is told.
    pub fn json(self) -> Result<Value, Vec<Report>> {
        match self {
            Self::Whole(line) => serde_json::from_slice(&line).map_err(|_| Vec::new()),
            Self::TooLong => {
                let message = "a line of output was too long and was passed over";
                Err(vec![Report::Warned(message.to_owned())])
            }
        }
    }
}

impl Lines {
    /// Takes a piece in and returns the lines that it completes, without their ends.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.push(&rest[..end], &mut lines);
            rest = &rest[end + 1..];
            if !std::mem::replace(&mut self.skipping, false) {
                lines.push(Line::Whole(std::mem::take(&mut self.held)));
            }
        }
        self.push(rest, &mut lines);
        lines
    }

    /// Returns what stands behind the last end of a line.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        self.skipping = false;
        Some(std::mem::take(&mut self.held)).filter(|held| !held.is_empty())
    }

    fn push(&mut self, bytes: &[u8], lines: &mut Vec<Line>) {
        if self.skipping {
            return;
        }
        if self.held.len() + bytes.len() > LINE_BYTES_MAX {
            self.held = Vec::new();
            self.skipping = true;
            lines.push(Line::TooLong);
            return;
        }
        self.held.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_too_long_is_told_once_and_the_next_one_is_whole() {
        let mut lines = Lines::default();
        let piece = vec![b'x'; LINE_BYTES_MAX / 2 + 1];
        assert_eq!(lines.feed(&piece), []);
        assert_eq!(lines.feed(&piece), [Line::TooLong]);
        assert_eq!(lines.feed(b"xx\nnext\n"), [Line::Whole(b"next".to_vec())]);
        assert_eq!(lines.finish(), None);
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_give_the_same_lines(text in "[ab\n]{0,60}", cuts in prop::collection::vec(0_usize..60, 0..6)) {
            let mut whole = Lines::default();
            let mut expected = whole.feed(text.as_bytes());
            expected.extend(whole.finish().map(Line::Whole));
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.push(text.len());
            cuts.sort_unstable();
            let (mut pieces, mut got, mut from) = (Lines::default(), Vec::new(), 0);
            for cut in cuts {
                got.extend(pieces.feed(&text.as_bytes()[from..cut]));
                from = cut;
            }
            got.extend(pieces.finish().map(Line::Whole));
            prop_assert_eq!(got, expected);
        }
    }
}
