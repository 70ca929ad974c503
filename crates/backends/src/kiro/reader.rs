//! Parses the output of Kiro, which is written for people. Its exit code is 0 even without a login: only the line about credits, on
//! either stream, or the file that the agent was asked to write shows that a model answered.

use std::borrow::Cow;
use std::io::{self, Read};
use std::path::PathBuf;

use domain::run::{AgentEnd, Failure, ModelError, StdStream as Pipe};

use super::transcript_parser::{CREDITS, parse_last_message};
use crate::contract::{AgentAnswer, AgentReport, Conclusion, Exit, OutputReader};
use crate::schema_prompt;
use crate::stream_buffer::{self, StreamBuffer};
use system_files::regular_file;

/// The longest transcript, or response, that the reader stores.
const TEXT_BYTES_MAX: usize = 4 << 20;
/// The size of the end of the error stream, which may contain the line about credits.
const TAIL_BYTES_MAX: usize = 4 << 10;
/// Texts, in lower case, that show that the user is not logged in.
const LOGIN_MESSAGES: [&str; 7] = [
    "not logged in",
    "kiro-cli login",
    "open this url",
    "device code",
    "confirm the following code",
    "authentication failed",
    "invalid api key",
];
/// The documented exit codes.
const EXIT_NO_SERVER: i32 = 3;
const EXIT_NO_AGENT: i32 = 4;

/// What the stream must know about the run.
#[derive(Debug, Default)]
pub(super) struct KiroStreamOptions {
    pub(super) structured: bool,
    pub(super) response_file: Option<PathBuf>,
    /// The conversation can be continued to ask for the answer again.
    pub(super) can_ask_again: bool,
    /// All standard output counts as the answer, as in budgie.
    pub(super) any_output: bool,
    /// The name of the conversation, if it can be continued.
    pub(super) session: Option<String>,
}

/// The output of one run.
#[derive(Default)]
pub(super) struct KiroStream {
    options: KiroStreamOptions,
    /// The end of the output, which contains the answer.
    output: Vec<u8>,
    is_cut: bool,
    stderr_tail: Vec<u8>,
    buffer: StreamBuffer,
    login_requested: bool,
}

/// A text, and sentences about its lost parts.
#[derive(Default)]
struct RecoveredText {
    text: String,
    lost: Vec<String>,
}

impl RecoveredText {
    fn from_bytes(bytes: &[u8], name: &str) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let replaced = matches!(text, Cow::Owned(_));
        let lost = replaced.then(|| format!("{name} is not valid UTF-8, and what is wrong was replaced"));
        Self { text: text.trim().to_owned(), lost: lost.into_iter().collect() }
    }

    fn with_loss(mut self, sentence: String) -> Self {
        self.lost.push(sentence);
        self
    }
}

/// Returns whether a byte is not the first of a character.
fn is_continuation_byte(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

impl KiroStream {
    pub(super) fn new(options: KiroStreamOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Returns the content of the response file.
    fn read_response(&self) -> RecoveredText {
        const NAME: &str = "the response file";
        let Some(path) = &self.options.response_file else { return RecoveredText::default() };
        let mut bytes = Vec::new();
        let read = regular_file::open(path)
            .and_then(|file| file.take(TEXT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
        match read {
            Ok(_) if bytes.len() > TEXT_BYTES_MAX => {
                let end =
                    (0..=TEXT_BYTES_MAX).rfind(|at| !is_continuation_byte(bytes[*at])).unwrap_or_default();
                RecoveredText::from_bytes(&bytes[..end], NAME)
                    .with_loss(format!("{NAME} was too long and its end was left out"))
            }
            Ok(_) => RecoveredText::from_bytes(&bytes, NAME),
            Err(error) if error.kind() == io::ErrorKind::NotFound => RecoveredText::default(),
            Err(error) => RecoveredText::default().with_loss(format!("{NAME} could not be read: {error}")),
        }
    }

    fn recovered_output(&self) -> RecoveredText {
        const NAME: &str = "the output";
        let surplus = self.output.len().saturating_sub(TEXT_BYTES_MAX);
        if !self.is_cut && surplus == 0 {
            return RecoveredText::from_bytes(&self.output, NAME);
        }
        let begin = (surplus..self.output.len())
            .find(|at| !is_continuation_byte(self.output[*at]))
            .unwrap_or(surplus);
        RecoveredText::from_bytes(&self.output[begin..], NAME)
            .with_loss(format!("{NAME} was too long and its beginning was left out"))
    }

    fn mentions_login(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        LOGIN_MESSAGES.iter().any(|message| text.contains(message))
    }

    fn agent_end(&self, exit: Exit, has_answer: bool, model_answered: bool) -> AgentEnd {
        let stderr = self.buffer.stderr();
        let failure_with = |otherwise: &str| {
            let message = if stderr.is_empty() {
                otherwise.to_owned()
            } else {
                stream_buffer::bounded_message(&stderr)
            };
            Failure::Agent { message }
        };
        let failure = match exit {
            _ if self.login_requested || (!model_answered && self.mentions_login(&stderr)) => {
                Failure::Model { error: ModelError::Denied, message: stream_buffer::bounded_message(&stderr) }
            }
            Exit::Signal(signal) => Failure::Signal { signal },
            Exit::Code(0) if model_answered && has_answer => return AgentEnd::Done,
            Exit::Code(0) if model_answered && self.options.can_ask_again => return AgentEnd::Unanswered,
            Exit::Code(0) if model_answered => Failure::Output { reason: "there is no answer".to_owned() },
            Exit::Code(0) => Failure::Output { reason: "nothing shows that a model answered".to_owned() },
            Exit::Code(EXIT_NO_SERVER) => failure_with("an MCP server did not start"),
            Exit::Code(EXIT_NO_AGENT) => failure_with("kiro does not know the agent"),
            Exit::Code(_) if !stderr.is_empty() => failure_with(""),
            Exit::Code(code) => Failure::Exit { code },
        };
        AgentEnd::Failed(failure)
    }
}

impl OutputReader for KiroStream {
    fn feed(&mut self, pipe: Pipe, bytes: &[u8]) -> Vec<AgentReport> {
        if !self.buffer.take_stderr(pipe, bytes) {
            self.output.extend_from_slice(bytes);
            // Not each time, because the rest must be moved.
            if self.output.len() > 2 * TEXT_BYTES_MAX {
                self.output.drain(..self.output.len() - TEXT_BYTES_MAX);
                self.is_cut = true;
            }
            return Vec::new();
        }
        self.stderr_tail.extend_from_slice(bytes);
        let surplus = self.stderr_tail.len().saturating_sub(TAIL_BYTES_MAX);
        self.stderr_tail.drain(..surplus);
        // Without a login Kiro waits for one forever, even with `--no-interactive`.
        let silent = self.output.is_empty() && !self.login_requested;
        if silent && self.mentions_login(&self.buffer.stderr()) {
            self.login_requested = true;
            return vec![AgentReport::Finished];
        }
        Vec::new()
    }

    fn is_plain_text(&self) -> bool {
        true
    }

    fn conclude(&mut self, exit: Exit) -> Conclusion {
        let output = self.recovered_output();
        let last_message = parse_last_message(&output.text);
        let response = self.read_response();
        // Only a model knows the path of the file.
        let model_answered = last_message.has_credits
            || !response.text.is_empty()
            || stream_buffer::strip_ansi(&String::from_utf8_lossy(&self.stderr_tail)).contains(CREDITS)
            || (self.options.any_output && !last_message.text.is_empty());
        let (answer, lost) = match response.text.is_empty() {
            true => (last_message.text, [response.lost, output.lost].concat()),
            false => (response.text, response.lost),
        };
        let end = self.agent_end(exit, !answer.is_empty(), model_answered);
        let answer = if answer.is_empty() { AgentAnswer::Nothing } else { AgentAnswer::Text(answer) };
        let mut conclusion = Conclusion::new(end, answer);
        conclusion.reports.extend(lost.into_iter().map(AgentReport::Warned));
        // If no model answered, there is no conversation.
        conclusion.session = self.options.session.clone().filter(|_| model_answered);
        if self.options.structured {
            schema_prompt::parse_answer(&mut conclusion);
        }
        conclusion
    }
}
