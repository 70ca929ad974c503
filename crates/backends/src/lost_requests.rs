//! Notices when a program keeps calling a service that it cannot reach. Some programs retry without a limit, and only
//! the log on their error stream shows it.

use domain::run::{Failure, ModelError};

use crate::line_splitter::{LineSplitter, OutputLine};

/// How many requests in a row may be lost. opencode doubles the wait after each: a minute in all.
const LOST_MAX: u32 = 6;
/// The limit for a user without a login: two seconds in all.
const LOST_MAX_WITHOUT_LOGIN: u32 = 2;

/// Returns the model whose service a request did not reach, if a line of the log says so.
pub(crate) type LogLineParser = fn(&str) -> Option<String>;

/// Counts the lost requests of one run.
#[derive(Debug)]
pub(crate) struct LostRequests {
    parse_line: LogLineParser,
    lines: LineSplitter,
    in_a_row: u32,
    allowed: u32,
}

impl LostRequests {
    pub(crate) fn new(parse_line: LogLineParser) -> Self {
        Self { parse_line, lines: LineSplitter::default(), in_a_row: 0, allowed: LOST_MAX }
    }

    /// Lowers the limit if no login was found, since waiting helps less then.
    pub(crate) fn expect_no_login(&mut self) {
        self.allowed = LOST_MAX_WITHOUT_LOGIN;
    }

    /// Called when the program has got an answer.
    pub(crate) fn reset(&mut self) {
        self.in_a_row = 0;
    }

    /// Handles a chunk of the error stream. Returns the failure once, when too many requests in a row were lost.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Option<Failure> {
        let mut failure = None;
        for line in self.lines.feed(bytes) {
            let OutputLine::Whole(line) = line else { continue };
            let Some(model) = (self.parse_line)(&String::from_utf8_lossy(&line)) else { continue };
            self.in_a_row = self.in_a_row.saturating_add(1);
            if self.in_a_row == self.allowed {
                let message = format!("{} requests to {model} in a row found no connection", self.in_a_row);
                failure = Some(Failure::Model { error: ModelError::Unreachable, message });
            }
        }
        failure
    }
}
