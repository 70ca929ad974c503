//! What a reader keeps of a run that may end without its terminal event: what was said, and how the error stream began.

use domain::run::Failure;

use crate::contract::{Answer, Exit};

/// The most of what was said that is kept.
const SAID_BYTES_MAX: usize = 1 << 20;
/// The most of the error stream that is looked at for a reason.
const STDERR_BYTES_MAX: usize = 16 << 10;
/// The most of a message about a failure.
const MESSAGE_BYTES_MAX: usize = 2_000;

/// A bounded part of what came.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    said: String,
    stderr: Vec<u8>,
}

impl Kept {
    pub(crate) fn say(&mut self, text: &str) {
        let room = SAID_BYTES_MAX.saturating_sub(self.said.len());
        self.said.push_str(domain::size::head(text, room));
    }

    pub(crate) fn complain(&mut self, bytes: &[u8]) {
        let room = STDERR_BYTES_MAX.saturating_sub(self.stderr.len()).min(bytes.len());
        self.stderr.extend_from_slice(&bytes[..room]);
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Hands out what was said as the answer of a run that did not come to its end.
    pub(crate) fn take_partial(&mut self) -> Answer {
        match std::mem::take(&mut self.said) {
            said if said.is_empty() => Answer::Nothing,
            said => Answer::Text(said),
        }
    }
}

/// Names the failure of a stream that has no terminal event, whatever the exit code says.
pub(crate) fn without_end(exit: Exit) -> Failure {
    match exit {
        Exit::Signal(signal) => Failure::Signal { signal },
        Exit::Code(0) => Failure::Output { reason: "the stream ended without its terminal event".to_owned() },
        Exit::Code(code) => Failure::Exit { code },
    }
}

/// Returns a message as it is recorded.
pub(crate) fn message(text: &str) -> String {
    domain::size::head(text.trim(), MESSAGE_BYTES_MAX).to_owned()
}
