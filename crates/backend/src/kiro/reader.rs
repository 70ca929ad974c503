//! Understands what Kiro writes for people. Its exit code is 0 also where it could not log in: only the line about
//! credits, on whichever stream, or the file that the agent was told to write shows that a model answered.

use std::borrow::Cow;
use std::io::{self, Read};
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
    /// Whatever the program writes to stdout is an answer, as budgie takes it.
    pub(super) any_output: bool,
    /// The name of the conversation, where it can be continued by one.
    pub(super) session: Option<String>,
}

/// The output of one run.
#[derive(Default)]
pub(super) struct Transcript {
    expected: Expected,
    /// The last of the output, since the answer stands at its end.
    held: Vec<u8>,
    cut: bool,
    tail: Vec<u8>,
    kept: Kept,
    asked_to_log_in: bool,
}

/// A text that was found, and what was lost of it, in sentences.
#[derive(Default)]
struct Found {
    text: String,
    lost: Vec<String>,
}

impl Found {
    fn of(bytes: &[u8], name: &str) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let replaced = matches!(text, Cow::Owned(_));
        let lost = replaced.then(|| format!("{name} is not valid UTF-8, and what is wrong was replaced"));
        Self { text: text.trim().to_owned(), lost: lost.into_iter().collect() }
    }

    fn lost(mut self, sentence: String) -> Self {
        self.lost.push(sentence);
        self
    }
}

/// Tells whether a byte is not the first of its character.
fn continues(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

impl Transcript {
    pub(super) fn new(expected: Expected) -> Self {
        Self { expected, ..Self::default() }
    }

    /// Returns what the agent wrote into its file.
    fn response(&self) -> Found {
        const NAME: &str = "the response file";
        let Some(path) = &self.expected.response_file else { return Found::default() };
        let mut bytes = Vec::new();
        let read = plain_file::open(path)
            .and_then(|file| file.take(TEXT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
        match read {
            Ok(_) if bytes.len() > TEXT_BYTES_MAX => {
                let end = (0..=TEXT_BYTES_MAX).rfind(|at| !continues(bytes[*at])).unwrap_or_default();
                Found::of(&bytes[..end], NAME).lost(format!("{NAME} was too long and its end was left out"))
            }
            Ok(_) => Found::of(&bytes, NAME),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Found::default(),
            Err(error) => Found::default().lost(format!("{NAME} could not be read: {error}")),
        }
    }

    /// Returns what was written to the standard output.
    fn output(&self) -> Found {
        const NAME: &str = "the output";
        let surplus = self.held.len().saturating_sub(TEXT_BYTES_MAX);
        if !self.cut && surplus == 0 {
            return Found::of(&self.held, NAME);
        }
        let begin = (surplus..self.held.len()).find(|at| !continues(self.held[*at])).unwrap_or(surplus);
        Found::of(&self.held[begin..], NAME)
            .lost(format!("{NAME} was too long and its beginning was left out"))
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
            self.held.extend_from_slice(bytes);
            // Not each time, since the rest has to be moved.
            if self.held.len() > 2 * TEXT_BYTES_MAX {
                self.held.drain(..self.held.len() - TEXT_BYTES_MAX);
                self.cut = true;
            }
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
        let output = self.output();
        let said = said::last(&output.text);
        let response = self.response();
        // Only a model knows where the file shall be.
        let proven = said.credited
            || !response.text.is_empty()
            || kept::plain(&String::from_utf8_lossy(&self.tail)).contains(CREDITS)
            || (self.expected.any_output && !said.text.is_empty());
        let (answer, lost) = match response.text.is_empty() {
            true => (said.text, [response.lost, output.lost].concat()),
            false => (response.text, response.lost),
        };
        let end = self.end(exit, !answer.is_empty(), proven);
        let answer = if answer.is_empty() { Answer::Nothing } else { Answer::Text(answer) };
        let mut conclusion = Conclusion::new(end, answer);
        conclusion.reports.extend(lost.into_iter().map(Report::Warned));
        // Where no model answered, there is no conversation.
        conclusion.session = self.expected.session.clone().filter(|_| proven);
        if self.expected.structured {
            worded_schema::read_value(&mut conclusion);
        }
        conclusion
    }
}
