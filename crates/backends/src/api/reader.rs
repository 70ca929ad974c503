//! Reads the events of the process that calls a model. Only its last event ends a run.

use domain::run::{AgentEnd, Failure, LimitName, ModelError, StdStream as Pipe, Usage};

use super::protocol::{ApiEvent, Stop, Tokens};
use crate::contract::{AgentAnswer, AgentReport, Conclusion, Exit, OutputReader};
use crate::line_splitter::{LineSplitter, OutputLine};
use crate::schema_prompt;
use crate::stream_buffer::{self, StreamBuffer};

/// How much of an answer may be held back before it is reported: a line of the journal for every few characters is
/// too much.
const UNREPORTED_BYTES_MAX: usize = 200;
/// The most of an answer that is stored.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The stream of one run.
pub(super) struct ApiStream {
    structured: bool,
    lines: LineSplitter,
    buffer: StreamBuffer,
    answer: String,
    /// Text that is not reported yet.
    unreported: String,
    used: Tokens,
    last: Option<ApiEvent>,
}

impl ApiStream {
    pub(super) fn new(structured: bool) -> Self {
        Self {
            structured,
            lines: LineSplitter::default(),
            buffer: StreamBuffer::default(),
            answer: String::new(),
            unreported: String::new(),
            used: Tokens::default(),
            last: None,
        }
    }

    fn handle_line(&mut self, line: OutputLine) -> Vec<AgentReport> {
        let OutputLine::Whole(line) = line else { return Vec::new() };
        match serde_json::from_slice::<ApiEvent>(&line) {
            Ok(ApiEvent::Model { model }) => vec![AgentReport::Model(model)],
            Ok(ApiEvent::Text { text }) => {
                let room = ANSWER_BYTES_MAX.saturating_sub(self.answer.len());
                self.answer.push_str(domain::size::head(&text, room));
                self.unreported.push_str(&text);
                let enough = self.unreported.len() >= UNREPORTED_BYTES_MAX || text.contains('\n');
                if enough { self.flush().into_iter().collect() } else { Vec::new() }
            }
            Ok(ApiEvent::Used(tokens)) => {
                self.used = tokens;
                Vec::new()
            }
            Ok(ApiEvent::Warned { message }) => vec![AgentReport::Warned(message)],
            Ok(last @ (ApiEvent::Ended { .. } | ApiEvent::Failed { .. })) => {
                self.last = Some(last);
                self.flush().into_iter().collect()
            }
            Err(_) => Vec::new(),
        }
    }

    fn flush(&mut self) -> Option<AgentReport> {
        let unreported = std::mem::take(&mut self.unreported);
        (!unreported.is_empty()).then_some(AgentReport::Text(unreported))
    }

    fn end(&mut self, exit: Exit) -> AgentEnd {
        match (self.last.take(), exit) {
            (Some(ApiEvent::Ended { stop: Stop::Whole }), Exit::Code(0)) => AgentEnd::Done,
            (Some(ApiEvent::Ended { stop: Stop::Length }), _) => AgentEnd::OverBudget(LimitName::Tokens),
            (Some(ApiEvent::Ended { stop: Stop::Refusal(message) }), _) => AgentEnd::Failed(Failure::Model {
                error: ModelError::Refusal,
                message: stream_buffer::bounded_message(&message),
            }),
            (Some(ApiEvent::Ended { stop: Stop::Other(reason) }), _) => {
                let reason = format!(
                    "the model stopped for another reason than its end: {}",
                    stream_buffer::bounded_message(&reason)
                );
                AgentEnd::Failed(Failure::Output { reason })
            }
            (Some(ApiEvent::Failed { error, message }), _) => {
                AgentEnd::Failed(Failure::Model { error, message: stream_buffer::bounded_message(&message) })
            }
            (_, exit) => match (self.buffer.stderr(), exit) {
                (stderr, Exit::Code(code)) if code != 0 && !stderr.is_empty() => {
                    AgentEnd::Failed(Failure::Agent { message: stream_buffer::bounded_message(&stderr) })
                }
                (_, exit) => AgentEnd::Failed(stream_buffer::missing_end_failure(exit)),
            },
        }
    }
}

impl OutputReader for ApiStream {
    fn feed(&mut self, pipe: Pipe, bytes: &[u8]) -> Vec<AgentReport> {
        if self.buffer.take_stderr(pipe, bytes) {
            return Vec::new();
        }
        let lines = self.lines.feed(bytes);
        lines.into_iter().flat_map(|line| self.handle_line(line)).collect()
    }

    fn conclude(&mut self, exit: Exit) -> Conclusion {
        let mut reports: Vec<AgentReport> = Vec::new();
        if let Some(rest) = self.lines.finish() {
            reports.extend(self.handle_line(OutputLine::Whole(rest)));
        }
        reports.extend(self.flush());
        if self.used != Tokens::default() {
            let Tokens { fresh, cache_read, cache_written, output } = self.used;
            let input_tokens = fresh.saturating_add(cache_read).saturating_add(cache_written);
            reports.push(AgentReport::Used(Usage {
                input_tokens,
                output_tokens: output,
                cache_read_tokens: cache_read,
                cache_write_tokens: cache_written,
                cost: None,
            }));
        }
        let end = self.end(exit);
        let answer = std::mem::take(&mut self.answer);
        let nothing = answer.trim().is_empty() && end != AgentEnd::Done;
        let mut conclusion =
            Conclusion::new(end, if nothing { AgentAnswer::Nothing } else { AgentAnswer::Text(answer) });
        conclusion.reports = reports;
        if self.structured {
            schema_prompt::parse_answer(&mut conclusion);
        }
        conclusion
    }
}
