//! Buffers what a reader needs besides the events of a stream: the current line, the messages so far and the
//! beginning of the error stream. Bounded.

use domain::run::{Failure, StdStream};

use crate::contract::{AgentAnswer, AgentReport, Exit};
use crate::line_splitter::{LINE_BYTES_MAX, LineSplitter};

/// The most message text that is stored for a run that ends early.
const MESSAGES_BYTES_MAX: usize = 1 << 20;
/// The most of the error stream that is searched for a reason.
const STDERR_BYTES_MAX: usize = 16 << 10;
/// The longest message about a failure.
const MESSAGE_BYTES_MAX: usize = 2_000;

/// The buffer of one run.
#[derive(Debug, Default)]
pub struct StreamBuffer {
    messages: String,
    /// The chunks of a message that is not complete yet.
    incomplete: String,
    stderr: Vec<u8>,
    /// Lines of standard output that are not events.
    text: Vec<u8>,
    /// The current line.
    pub lines: LineSplitter,
}

impl StreamBuffer {
    /// Stores a complete message, which replaces its chunks.
    pub fn push_message(&mut self, text: &str) {
        self.incomplete.clear();
        for part in [text, "\n"] {
            let room = MESSAGES_BYTES_MAX.saturating_sub(self.messages.len());
            self.messages.push_str(domain::size::head(part, room));
        }
    }

    /// Stores a chunk of a message.
    pub fn push_chunk(&mut self, text: &str) {
        let room = MESSAGES_BYTES_MAX.saturating_sub(self.incomplete.len());
        self.incomplete.push_str(domain::size::head(text, room));
    }

    /// Returns whether a message is incomplete.
    pub fn has_pending_chunks(&self) -> bool {
        !self.incomplete.is_empty()
    }

    /// Discards the chunks of a message that starts over.
    pub fn discard_chunks(&mut self) {
        self.incomplete.clear();
    }

    /// Stores a chunk of the error stream.
    pub fn push_stderr(&mut self, bytes: &[u8]) {
        let room = STDERR_BYTES_MAX.saturating_sub(self.stderr.len()).min(bytes.len());
        self.stderr.extend_from_slice(&bytes[..room]);
    }

    /// Stores the bytes if they are from the error stream, and returns whether they are.
    pub fn take_stderr(&mut self, pipe: StdStream, bytes: &[u8]) -> bool {
        let is_stderr = pipe == StdStream::Stderr;
        if is_stderr {
            self.push_stderr(bytes);
        }
        is_stderr
    }

    /// Stores a line of standard output that is not an event.
    pub fn push_plain_line(&mut self, line: &[u8]) {
        let room = STDERR_BYTES_MAX.saturating_sub(self.text.len() + 1).min(line.len());
        self.text.extend_from_slice(&line[..room]);
        self.text.push(b'\n');
        self.text.truncate(STDERR_BYTES_MAX);
    }

    /// Returns those lines without terminal control sequences.
    pub fn plain_text(&self) -> String {
        strip_ansi(&String::from_utf8_lossy(&self.text)).trim().to_owned()
    }

    /// Returns the stored error stream without terminal control sequences.
    pub fn stderr(&self) -> String {
        strip_ansi(&String::from_utf8_lossy(&self.stderr)).trim().to_owned()
    }

    /// Takes all messages, including an incomplete one.
    pub fn take_answer(&mut self) -> AgentAnswer {
        let messages = std::mem::take(&mut self.messages) + &std::mem::take(&mut self.incomplete);
        if messages.trim().is_empty() { AgentAnswer::Nothing } else { AgentAnswer::Text(messages) }
    }
}

/// A message that arrives in chunks and may be the answer. Its length is limited to that of one line.
#[derive(Debug, Default)]
pub struct ChunkedMessage {
    text: String,
    cut: bool,
}

impl ChunkedMessage {
    /// Adds a chunk. Returns a warning for the first one that does not fit.
    pub fn push(&mut self, piece: &str) -> Option<AgentReport> {
        let room = if self.cut { 0 } else { LINE_BYTES_MAX.saturating_sub(self.text.len()) };
        let fits = domain::size::head(piece, room);
        self.text.push_str(fits);
        let is_first_cut = fits.len() < piece.len() && !std::mem::replace(&mut self.cut, true);
        is_first_cut.then(|| AgentReport::Warned("the answer was too long and was cut".to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Takes the text so far; the next chunk begins another message.
    pub fn take(&mut self) -> String {
        std::mem::take(self).text
    }
}

/// Returns the failure for a stream without a terminal event, whatever the exit code says.
pub fn missing_end_failure(exit: Exit) -> Failure {
    match exit {
        Exit::Signal(signal) => Failure::Signal { signal },
        Exit::Code(0) => Failure::Output { reason: "the stream ended without its terminal event".to_owned() },
        Exit::Code(code) => Failure::Exit { code },
    }
}

/// Returns the beginning of a message about a failure.
pub fn bounded_message(text: &str) -> String {
    domain::size::head(text.trim(), MESSAGE_BYTES_MAX).to_owned()
}

/// Returns a text without terminal control sequences. A broken sequence ends with its line.
pub fn strip_ansi(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match (character, rest.peek()) {
            ('\x1b', Some('[')) => {
                rest.next();
                // The sequence ends with the first letter or sign after its numbers.
                while rest.next_if(|next| *next != '\n').is_some_and(|next| !('@'..='~').contains(&next)) {}
            }
            ('\x1b', Some(']')) => {
                while rest.next_if(|next| *next != '\n').is_some_and(|next| !matches!(next, '\x07' | '\x1b'))
                {
                }
            }
            ('\x1b', _) | ('\r', _) => {}
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_stored_until_their_message_is_complete() {
        let mut buffer = StreamBuffer::default();
        buffer.push_chunk("Hel");
        buffer.push_chunk("lo");
        buffer.push_message("Hello");
        buffer.push_chunk("and th");
        assert_eq!(buffer.take_answer(), AgentAnswer::Text("Hello\nand th".to_owned()));
        assert_eq!(buffer.take_answer(), AgentAnswer::Nothing);
    }

    #[test]
    fn a_message_that_starts_over_is_stored_once() {
        let mut buffer = StreamBuffer::default();
        buffer.push_chunk("Half of a");
        buffer.discard_chunks();
        buffer.push_chunk("Half of a");
        assert_eq!(buffer.take_answer(), AgentAnswer::Text("Half of a".to_owned()));
    }

    #[test]
    fn messages_are_bounded_including_their_line_ends() {
        let mut buffer = StreamBuffer::default();
        for _ in 0..MESSAGES_BYTES_MAX {
            buffer.push_message("x");
        }
        assert_eq!(buffer.messages.len(), MESSAGES_BYTES_MAX);
    }

    #[test]
    fn a_message_that_is_too_long_is_cut_with_one_warning() {
        let mut message = ChunkedMessage::default();
        let piece = "x".repeat(LINE_BYTES_MAX / 2 + 1);
        assert_eq!(message.push(&piece), None);
        assert!(matches!(message.push(&piece), Some(AgentReport::Warned(_))));
        assert_eq!(message.push(&piece), None);
        assert_eq!(message.take().len(), LINE_BYTES_MAX);
        assert_eq!((message.push("egg"), message.as_str()), (None, "egg"));
    }

    #[test]
    fn colours_and_titles_are_removed() {
        assert_eq!(strip_ansi("\x1b[38;5;141m> \x1b[0mhi\r\n\x1b]0;title\x07there\x1b"), "> hi\nthere");
        assert_eq!(strip_ansi("\x1b["), "");
        assert_eq!(strip_ansi("a\x1b[0\nb\x1b]0;title\nc"), "a\nb\nc");
    }
}
