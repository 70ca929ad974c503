//! Understands what the process that asks a model says. Only its last word ends a run.

use domain::run::{AgentEnd, Failure, LimitName, ModelError, Stream as Pipe, Usage};

use super::word::{Stop, Tokens, Word};
use crate::contract::{Answer, Conclusion, Exit, Reader, Report};
use crate::kept::{self, Kept};
use crate::lines::{Line, Lines};
use crate::worded_schema;

/// How much of an answer may be held back before it is told: a line of the journal for every few letters is too much.
const UNTOLD_BYTES_MAX: usize = 200;
/// The most of an answer that is kept.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The stream of one run.
pub(super) struct Stream {
    structured: bool,
    lines: Lines,
    kept: Kept,
    answer: String,
    /// What was said and not told yet.
    untold: String,
    used: Tokens,
    last: Option<Word>,
}

impl Stream {
    pub(super) fn new(structured: bool) -> Self {
        Self {
            structured,
            lines: Lines::default(),
            kept: Kept::default(),
            answer: String::new(),
            untold: String::new(),
            used: Tokens::default(),
            last: None,
        }
    }

    fn take(&mut self, line: Line) -> Vec<Report> {
        let Line::Whole(line) = line else { return Vec::new() };
        match serde_json::from_slice::<Word>(&line) {
            Ok(Word::Model { model }) => vec![Report::Model(model)],
            Ok(Word::Text { text }) => {
                let room = ANSWER_BYTES_MAX.saturating_sub(self.answer.len());
                self.answer.push_str(domain::size::head(&text, room));
                self.untold.push_str(&text);
                let enough = self.untold.len() >= UNTOLD_BYTES_MAX || text.contains('\n');
                if enough { self.tell().into_iter().collect() } else { Vec::new() }
            }
            Ok(Word::Used(tokens)) => {
                self.used = tokens;
                Vec::new()
            }
            Ok(Word::Warned { message }) => vec![Report::Warned(message)],
            Ok(last @ (Word::Ended { .. } | Word::Failed { .. })) => {
                self.last = Some(last);
                self.tell().into_iter().collect()
            }
            Err(_) => Vec::new(),
        }
    }

    fn tell(&mut self) -> Option<Report> {
        let untold = std::mem::take(&mut self.untold);
        (!untold.is_empty()).then_some(Report::Said(untold))
    }

    fn end(&mut self, exit: Exit) -> AgentEnd {
        match (self.last.take(), exit) {
            (Some(Word::Ended { stop: Stop::Whole }), Exit::Code(0)) => AgentEnd::Done,
            (Some(Word::Ended { stop: Stop::Length }), _) => AgentEnd::OverBudget(LimitName::Tokens),
            (Some(Word::Ended { stop: Stop::Refusal(message) }), _) => AgentEnd::Failed(Failure::Model {
                error: ModelError::Refusal,
                message: kept::message(&message),
            }),
            (Some(Word::Ended { stop: Stop::Other(reason) }), _) => {
                let reason =
                    format!("the model stopped for another reason than its end: {}", kept::message(&reason));
                AgentEnd::Failed(Failure::Output { reason })
            }
            (Some(Word::Failed { error, message }), _) => {
                AgentEnd::Failed(Failure::Model { error, message: kept::message(&message) })
            }
            (_, exit) => match (self.kept.stderr(), exit) {
                (said, Exit::Code(code)) if code != 0 && !said.is_empty() => {
                    AgentEnd::Failed(Failure::Agent { message: kept::message(&said) })
                }
                (_, exit) => AgentEnd::Failed(kept::without_end(exit)),
            },
        }
    }
}

impl Reader for Stream {
    fn feed(&mut self, pipe: Pipe, bytes: &[u8]) -> Vec<Report> {
        if self.kept.is_complaint(pipe, bytes) {
            return Vec::new();
        }
        let lines = self.lines.feed(bytes);
        lines.into_iter().flat_map(|line| self.take(line)).collect()
    }

    fn conclude(&mut self, exit: Exit) -> Conclusion {
        let mut reports: Vec<Report> = Vec::new();
        if let Some(rest) = self.lines.finish() {
            reports.extend(self.take(Line::Whole(rest)));
        }
        reports.extend(self.tell());
        if self.used != Tokens::default() {
            let Tokens { fresh, cache_read, cache_written, output } = self.used;
            let input_tokens = fresh.saturating_add(cache_read).saturating_add(cache_written);
            reports.push(Report::Used(Usage {
                input_tokens,
                output_tokens: output,
                cache_read_tokens: cache_read,
                cache_write_tokens: cache_written,
                cost: None,
            }));
        }
        let end = self.end(exit);
        let said = std::mem::take(&mut self.answer);
        let nothing = said.trim().is_empty() && end != AgentEnd::Done;
        let mut conclusion = Conclusion::new(end, if nothing { Answer::Nothing } else { Answer::Text(said) });
        conclusion.reports = reports;
        if self.structured {
            worded_schema::read_value(&mut conclusion);
        }
        conclusion
    }
}
