//! Notices that a program asks a service that it cannot reach, again and again: some do so for as long as they are let, and
//! only the log on their error stream shows it.

use domain::run::{Failure, ModelError};

use crate::lines::{Line, Lines};

/// How many requests in a row may be lost. opencode waits twice as long after each: a minute in all.
const LOST_MAX: u32 = 6;
/// The same for a user without a login: two seconds.
const LOST_MAX_WITHOUT_LOGIN: u32 = 2;

/// Returns the model whose service a request did not reach, if that is what a line of the log says.
pub(crate) type ReadLine = fn(&str) -> Option<String>;

/// Counts the lost requests of one run.
#[derive(Debug)]
pub(crate) struct LostRequests {
    read_line: ReadLine,
    lines: Lines,
    in_a_row: u32,
    allowed: u32,
}

impl LostRequests {
    pub(crate) fn new(read_line: ReadLine) -> Self {
        Self { read_line, lines: Lines::default(), in_a_row: 0, allowed: LOST_MAX }
    }

    /// The user has no login that could be found, so that waiting helps less.
    pub(crate) fn expect_no_login(&mut self) {
        self.allowed = LOST_MAX_WITHOUT_LOGIN;
    }

    /// The program has got an answer.
    pub(crate) fn reset(&mut self) {
        self.in_a_row = 0;
    }

    /// Takes a part of the error stream. Returns why the run fails, once, when too many requests in a row were lost.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Option<Failure> {
        let mut failure = None;
        for line in self.lines.feed(bytes) {
            let Line::Whole(line) = line else { continue };
            let Some(model) = (self.read_line)(&String::from_utf8_lossy(&line)) else { continue };
            self.in_a_row = self.in_a_row.saturating_add(1);
            if self.in_a_row == self.allowed {
                let message = format!("{} requests to {model} in a row found no connection", self.in_a_row);
                failure = Some(Failure::Model { error: ModelError::Unreachable, message });
            }
        }
        failure
    }
}
