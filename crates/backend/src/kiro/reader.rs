//! Understands what Kiro writes for people. Its exit code is 0 also where it could not log in: only the line about
//! credits, on whichever stream, or the file that the agent was told to write shows that a model answered.

use std::io::Read;
use std::path::PathBuf;

use domain::run::{AgentEnd, Failure, ModelError, Stream as Pipe};

use super::said::{self, CREDITS};
use crate::contract::{Answer, Conclusion, Exit, Reader, Report};
use crate::kept::{self, Kept};
use crate::plain_file;
use crate::worded_schema;

/// The most of a transcript, or of a response, that is kept.
const TEXT_BYTES_MAX: usize = 4 << 20;
/// The last bytes of the error stream, where the line about credits stands.
const TAIL_BYTES_MAX: usize = 4 << 10;
/// Words of somebody who is not logged in, or is asked to log in, in lower case.
const LOGIN: [&str; 7] = [
    "not logged in",
    "kiro-cli login",
    "open this url",
    "device code",
    "confirm the following code",
    "authentication failed",
    "invalid api key",
];
/// What the codes mean that stand in its documentation.
const NO_SERVER: i32 = 3;
const NO_AGENT: i32 = 4;

/// What is expected of a run.
#[derive(Debug, Default)]
pub(super) struct Expected {
    pub(super) structured: bool,
    pub(super) response_file: Option<PathBuf>,
    /// The conversation can be asked once more.
    pub(super) asked_again: bool,
    /// The name of the conversation, where it can be continued by one.
    pub(super) session: Option<String>,
}

/// The output of one run.
#[derive(Default)]
pub(super) struct Transcript {
    expected: Expected,
    held: Vec<u8>,
    tail: Vec<u8>,
    kept: Kept,
    asked_to_log_in: bool,
}

impl Transcript {
    pub(super) fn new(expected: Expected) -> Self {
        Self { expected, ..Self::default() }
    }

    /// Returns what the agent wrote into its file.
    fn response(&self) -> Option<String> {
        let mut text = String::new();
        let file = plain_file::open(self.expected.response_file.as_ref()?).ok()?;
        file.take(TEXT_BYTES_MAX as u64).read_to_string(&mut text).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn says_login(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        LOGIN.iter().any(|words| text.contains(words))
    }

    fn end(&self, exit: Exit, answered: bool, proven: bool) -> AgentEnd {
        let stderr = self.kept.stderr();
        let told = |otherwise: &str| {
            let message = if stderr.is_empty() { otherwise.to_owned() } else { kept::message(&stderr) };
            Failure::Agent { message }
        };
        let failure = match exit {
            _ if self.asked_to_log_in || (!proven && self.says_login(&stderr)) => {
                Failure::Model { error: ModelError::Denied, message: kept::message(&stderr) }
            }
            Exit::Signal(signal) => Failure::Signal { signal },
            Exit::Code(0) if proven && answered => return AgentEnd::Done,
            Exit::Code(0) if proven && self.expected.asked_again => return AgentEnd::Unanswered,
            Exit::Code(0) if proven => Failure::Output { reason: "there is no answer".to_owned() },
            Exit::Code(0) => Failure::Output { reason: "nothing shows that a model answered".to_owned() },
            Exit::Code(NO_SERVER) => told("an MCP server did not start"),
            Exit::Code(NO_AGENT) => told("kiro does not know the agent"),
            Exit::Code(_) if !stderr.is_empty() => told(""),
            Exit::Code(code) => Failure::Exit { code },
        };
        AgentEnd::Failed(failure)
    }
}

impl Reader for Transcript {
    fn feed(&mut self, pipe: Pipe, bytes: &[u8]) -> Vec<Report> {
        if !self.kept.is_complaint(pipe, bytes) {
            let room = TEXT_BYTES_MAX.saturating_sub(self.held.len()).min(bytes.len());
            self.held.extend_from_slice(&bytes[..room]);
            return Vec::new();
        }
        self.tail.extend_from_slice(bytes);
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES_MAX);
        self.tail.drain(..surplus);
        // Without a login the program waits for one for ever, whatever it was told.
        let silent = self.held.is_empty() && !self.asked_to_log_in;
        if silent && self.says_login(&self.kept.stderr()) {
            self.asked_to_log_in = true;
            return vec![Report::Finished];
        }
        Vec::new()
    }

    fn is_plain(&self) -> bool {
        true
    }

    fn conclude(&mut self, exit: Exit) -> Conclusion {
        let said = said::last(&String::from_utf8_lossy(&self.held));
        let response = self.response();
        // Only a model knows where the file shall be.
        let proven = said.credited
            || response.is_some()
            || kept::plain(&String::from_utf8_lossy(&self.tail)).contains(CREDITS);
        let answer = response.unwrap_or(said.text);
        let end = self.end(exit, !answer.is_empty(), proven);
        let answer = if answer.is_empty() { Answer::Nothing } else { Answer::Text(answer) };
        let mut conclusion = Conclusion::new(end, answer);
        // Where no model answered, there is no conversation.
        conclusion.session = self.expected.session.clone().filter(|_| proven);
        if self.expected.structured {
            worded_schema::read_value(&mut conclusion);
        }
        conclusion
    }
}
