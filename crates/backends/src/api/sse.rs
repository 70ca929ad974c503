//! Parses a response body as it arrives: a stream of server-sent events, or one document from a service that does not
//! stream.

use crate::line_splitter::{LineSplitter, OutputLine};

/// The longest document that is read.
const DOCUMENT_BYTES_MAX: usize = 8 << 20;
/// What lines of a stream begin with besides `data:`; the first are comments.
const FIELDS: [&[u8]; 4] = [b":", b"event:", b"id:", b"retry:"];

/// A body that is being received.
#[derive(Debug, Default)]
pub(super) struct SseBody {
    lines: LineSplitter,
    /// The `data:` lines of the current event.
    event: Vec<u8>,
    /// Lines that belong to no event, from before the first one.
    document: Vec<u8>,
    events: u64,
}

/// What a chunk of a body completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BodyPart {
    Event(Vec<u8>),
    TooLong,
}

impl SseBody {
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<BodyPart> {
        let lines = self.lines.feed(bytes);
        lines.into_iter().filter_map(|line| self.handle_line(line)).collect()
    }

    /// Returns the last event if no blank line follows it, and the document if there were no events.
    pub(super) fn finish(&mut self) -> (Option<BodyPart>, Option<Vec<u8>>) {
        let last = self.lines.finish().and_then(|line| self.handle_line(OutputLine::Whole(line)));
        let last = last.or_else(|| self.complete());
        let document = std::mem::take(&mut self.document);
        let document = Some(document).filter(|document| self.events == 0 && !document.is_empty());
        (last, document)
    }

    fn handle_line(&mut self, line: OutputLine) -> Option<BodyPart> {
        let OutputLine::Whole(mut line) = line else { return Some(BodyPart::TooLong) };
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
                    BodyPart::TooLong
                })
            }
            None => {
                let is_field = FIELDS.iter().any(|field| line.starts_with(field));
                if self.events == 0 && !is_field && self.document.len() + line.len() < DOCUMENT_BYTES_MAX {
                    self.document.extend_from_slice(&line);
                    self.document.push(b'\n');
                }
                None
            }
        }
    }

    fn complete(&mut self) -> Option<BodyPart> {
        let event = std::mem::take(&mut self.event);
        if event.is_empty() {
            return None;
        }
        self.events += 1;
        Some(BodyPart::Event(event))
    }
}
