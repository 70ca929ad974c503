//! What a reader keeps of a stream beside its events: the line under way, what was said so far and what the error stream
//! says, bounded.

use domain::run::{Failure, Stream};

use crate::contract::{Answer, Exit, Report};
use crate::lines::{LINE_BYTES_MAX, Lines};

/// The most of what was said that is kept for a run that ends early.
const SAID_BYTES_MAX: usize = 1 << 20;
/// The most of the error stream that is looked at for a reason.
const STDERR_BYTES_MAX: usize = 16 << 10;
/// The most of a message about a failure.
const MESSAGE_BYTES_MAX: usize = 2_000;

/// What is kept of one run.
#[derive(Debug, Default)]
pub struct Kept {
    said: String,
    /// What was said of a message that has not come as a whole.
    unfinished: String,
    stderr: Vec<u8>,
    /// Lines of standard output that are no events.
    text: Vec<u8>,
    /// The line under way.
    pub lines: Lines,
}

impl Kept {
    /// Keeps a whole message, in the place of its pieces.
    pub fn say(&mut self, text: &str) {
        self.unfinished.clear();
        for part in [text, "\n"] {
            let room = SAID_BYTES_MAX.saturating_sub(self.said.len());
            self.said.push_str(domain::size::head(part, room));
        }
    }

    /// Keeps a piece of a message.
    pub fn piece(&mut self, text: &str) {
        let room = SAID_BYTES_MAX.saturating_sub(self.unfinished.len());
        self.unfinished.push_str(domain::size::head(text, room));
    }

    /// Tells whether a message is under way.
    pub fn has_pieces(&self) -> bool {
        !self.unfinished.is_empty()
    }

    /// Forgets the pieces of a message that begins anew.
    pub fn begin(&mut self) {
        self.unfinished.clear();
    }

    /// Keeps what was written to the error stream.
    pub fn complain(&mut self, bytes: &[u8]) {
        let room = STDERR_BYTES_MAX.saturating_sub(self.stderr.len()).min(bytes.len());
        self.stderr.extend_from_slice(&bytes[..room]);
    }

    /// Keeps what is not standard output, and tells whether it was.
    pub fn is_complaint(&mut self, pipe: Stream, bytes: &[u8]) -> bool {
        let complaint = pipe == Stream::Stderr;
        if complaint {
            self.complain(bytes);
        }
        complaint
    }

    /// Keeps a line of standard output that is no event.
    pub fn note_text(&mut self, line: &[u8]) {
        let room = STDERR_BYTES_MAX.saturating_sub(self.text.len() + 1).min(line.len());
        self.text.extend_from_slice(&line[..room]);
        self.text.push(b'\n');
        self.text.truncate(STDERR_BYTES_MAX);
    }

    /// Returns such lines without colours.
    pub fn text(&self) -> String {
        plain(&String::from_utf8_lossy(&self.text)).trim().to_owned()
    }

    /// Returns the error stream without colours.
    pub fn stderr(&self) -> String {
        plain(&String::from_utf8_lossy(&self.stderr)).trim().to_owned()
    }

    /// Takes everything that was said, also what was not finished.
    pub fn answer(&mut self) -> Answer {
        let said = std::mem::take(&mut self.said) + &std::mem::take(&mut self.unfinished);
        if said.trim().is_empty() { Answer::Nothing } else { Answer::Text(said) }
    }
}

/// A message that comes in pieces and may be the answer: no longer than one that comes in one line.
#[derive(Debug, Default)]
pub struct Message {
    text: String,
    cut: bool,
}

impl Message {
    /// Adds a piece. The first that does not fit is told.
    pub fn add(&mut self, piece: &str) -> Option<Report> {
        let room = if self.cut { 0 } else { LINE_BYTES_MAX.saturating_sub(self.text.len()) };
        let fits = domain::size::head(piece, room);
        self.text.push_str(fits);
        let told = fits.len() < piece.len() && !std::mem::replace(&mut self.cut, true);
        told.then(|| Report::Warned("the answer was too long and was cut".to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Takes what there is; the next piece begins another message.
    pub fn take(&mut self) -> String {
        std::mem::take(self).text
    }
}

/// Names the failure of a stream that has no terminal event, whatever the exit code says.
pub fn without_end(exit: Exit) -> Failure {
    match exit {
        Exit::Signal(signal) => Failure::Signal { signal },
        Exit::Code(0) => Failure::Output { reason: "the stream ended without its terminal event".to_owned() },
        Exit::Code(code) => Failure::Exit { code },
    }
}

/// Returns the beginning of a message about a failure.
pub fn message(text: &str) -> String {
    domain::size::head(text.trim(), MESSAGE_BYTES_MAX).to_owned()
}

/// Returns a text without the control sequences of a terminal. One that is broken ends with its line.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match (character, rest.peek()) {
            ('\x1b', Some('[')) => {
                rest.next();
                // The sequence ends with the first letter or sign behind its numbers.
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
    fn pieces_are_kept_until_their_message_is_whole() {
        let mut kept = Kept::default();
        kept.piece("Hel");
        kept.piece("lo");
        kept.say("Hello");
        kept.piece("and th");
        assert_eq!(kept.answer(), Answer::Text("Hello\nand th".to_owned()));
        assert_eq!(kept.answer(), Answer::Nothing);
    }

    #[test]
    fn a_message_that_begins_anew_is_told_once() {
        let mut kept = Kept::default();
        kept.piece("Half of a");
        kept.begin();
        kept.piece("Half of a");
        assert_eq!(kept.answer(), Answer::Text("Half of a".to_owned()));
    }

    #[test]
    fn what_was_said_is_bounded_with_the_ends_of_its_lines() {
        let mut kept = Kept::default();
        for _ in 0..SAID_BYTES_MAX {
            kept.say("x");
        }
        assert_eq!(kept.said.len(), SAID_BYTES_MAX);
    }

    #[test]
    fn a_message_that_is_too_long_is_cut_and_told_once() {
        let mut message = Message::default();
        let piece = "x".repeat(LINE_BYTES_MAX / 2 + 1);
        assert_eq!(message.add(&piece), None);
        assert!(matches!(message.add(&piece), Some(Report::Warned(_))));
        assert_eq!(message.add(&piece), None);
        assert_eq!(message.take().len(), LINE_BYTES_MAX);
        assert_eq!((message.add("egg"), message.as_str()), (None, "egg"));
    }

    #[test]
    fn colours_and_titles_are_removed() {
        assert_eq!(plain("\x1b[38;5;141m> \x1b[0mhi\r\n\x1b]0;title\x07there\x1b"), "> hi\nthere");
        assert_eq!(plain("\x1b["), "");
        assert_eq!(plain("a\x1b[0\nb\x1b]0;title\nc"), "a\nb\nc");
    }
}
