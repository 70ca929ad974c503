//! A body as it comes: a stream of server-sent events, or one document from a service that does not stream.

use crate::lines::{Line, Lines};

/// The most of a document that is taken in.
const DOCUMENT_BYTES_MAX: usize = 8 << 20;
/// What lines of a stream begin with beside `data:`; the first are comments.
const FIELDS: [&[u8]; 4] = [b":", b"event:", b"id:", b"retry:"];

/// A body under way.
#[derive(Debug, Default)]
pub(super) struct Body {
    lines: Lines,
    /// The `data:` lines of the event under way.
    event: Vec<u8>,
    /// Lines that belong to no event, before there was any.
    document: Vec<u8>,
    events: u64,
}

/// What a piece of a body completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Event(Vec<u8>),
    TooLong,
}

impl Body {
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Part> {
        let lines = self.lines.feed(bytes);
        lines.into_iter().filter_map(|line| self.take(line)).collect()
    }

    /// Returns the event that had no blank line behind it, and the document if there were no events.
    pub(super) fn finish(&mut self) -> (Option<Part>, Option<Vec<u8>>) {
        let last = self.lines.finish().and_then(|line| self.take(Line::Whole(line)));
        let last = last.or_else(|| self.complete());
        let document = std::mem::take(&mut self.document);
        let document = Some(document).filter(|document| self.events == 0 && !document.is_empty());
        (last, document)
    }

    fn take(&mut self, line: Line) -> Option<Part> {
        let Line::Whole(mut line) = line else { return Some(Part::TooLong) };
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if line.is_empty() {
            return self.complete();
        }
        match line.strip_prefix(b"data:") {
            Some(piece) => {
                if !self.event.is_empty() {
                    self.event.push(b'\n');
                }
                self.event.extend_from_slice(piece.strip_prefix(b" ").unwrap_or(piece));
                (self.event.len() > DOCUMENT_BYTES_MAX).then(|| {
                    self.event = Vec::new();
                    Part::TooLong
                })
            }
            None => {
                let of_stream = FIELDS.iter().any(|field| line.starts_with(field));
                if self.events == 0 && !of_stream && self.document.len() + line.len() < DOCUMENT_BYTES_MAX {
                    self.document.extend_from_slice(&line);
                    self.document.push(b'\n');
                }
                None
            }
        }
    }

    fn complete(&mut self) -> Option<Part> {
        let event = std::mem::take(&mut self.event);
        if event.is_empty() {
            return None;
        }
        self.events += 1;
        Some(Part::Event(event))
    }
}
