//! Reads the events of a model client that answers one request. Only the last event ends a run.

use domain::conversation::StopReason;
use domain::run::{AgentEnd, Failure, LimitName, ModelError, StdStream as Pipe, Usage};

use super::model_client::{ModelClientEvent, ModelClientReader};
use crate::contract::{AgentAnswer, AgentReport, Conclusion, Exit, OutputReader};
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
    events: ModelClientReader,
    buffer: StreamBuffer,
    answer: String,
    /// Text that is not reported yet.
    unreported: String,
    used: Option<Usage>,
    last: Option<LastEvent>,
}

/// How the request ended.
enum LastEvent {
    Answered(StopReason),
    Failed { error: ModelError, message: String },
}

impl ApiStream {
    pub(super) fn new(structured: bool) -> Self {
        Self {
            structured,
            events: ModelClientReader::default(),
            buffer: StreamBuffer::default(),
            answer: String::new(),
            unreported: String::new(),
            used: None,
            last: None,
        }
    }

    fn handle_event(&mut self, event: ModelClientEvent) -> Vec<AgentReport> {
        match event {
            ModelClientEvent::Model { model, .. } => vec![AgentReport::Model(model)],
            ModelClientEvent::Text { text, .. } => {
                let room = ANSWER_BYTES_MAX.saturating_sub(self.answer.len());
                self.answer.push_str(domain::size::head(&text, room));
                self.unreported.push_str(&text);
                let enough = self.unreported.len() >= UNREPORTED_BYTES_MAX || text.contains('\n');
                if enough { self.flush().into_iter().collect() } else { Vec::new() }
            }
            ModelClientEvent::Used { usage, .. } => {
                self.used = Some(usage);
                Vec::new()
            }
            ModelClientEvent::Retrying { message, .. } => vec![AgentReport::Warned(message)],
            ModelClientEvent::Answered { answer, .. } => {
                self.used = answer.usage.or(self.used);
                self.last = Some(LastEvent::Answered(answer.stop));
                self.flush().into_iter().collect()
            }
            ModelClientEvent::Failed(failure) => {
                self.used = failure.usage.or(self.used);
                self.last = Some(LastEvent::Failed { error: failure.error, message: failure.message });
                self.flush().into_iter().collect()
            }
            ModelClientEvent::InvalidInput { message } => {
                self.last = Some(LastEvent::Failed { error: ModelError::Other, message });
                Vec::new()
            }
        }
    }

    fn flush(&mut self) -> Option<AgentReport> {
        let unreported = std::mem::take(&mut self.unreported);
        (!unreported.is_empty()).then_some(AgentReport::Text(unreported))
    }

    fn end(&mut self, exit: Exit) -> AgentEnd {
        match (self.last.take(), exit) {
            (Some(LastEvent::Answered(StopReason::EndTurn)), Exit::Code(0)) => AgentEnd::Done,
            (Some(LastEvent::Answered(StopReason::MaxTokens | StopReason::ContextWindow)), _) => {
                AgentEnd::OverBudget(LimitName::Tokens)
            }
            (Some(LastEvent::Answered(StopReason::Refusal(message))), _) => {
                AgentEnd::Failed(Failure::Model {
                    error: ModelError::Refusal,
                    message: stream_buffer::bounded_message(&message),
                })
            }
            (Some(LastEvent::Answered(StopReason::Other(reason))), _) => unusable_stop(&reason),
            // No tools were offered.
            (Some(LastEvent::Answered(StopReason::ToolUse)), _) => unusable_stop("tool_use"),
            (Some(LastEvent::Failed { error, message }), _) => {
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

fn unusable_stop(reason: &str) -> AgentEnd {
    let reason = format!(
        "the model stopped for another reason than its end: {}",
        stream_buffer::bounded_message(reason)
    );
    AgentEnd::Failed(Failure::Output { reason })
}

impl OutputReader for ApiStream {
    fn feed(&mut self, pipe: Pipe, bytes: &[u8]) -> Vec<AgentReport> {
        if self.buffer.take_stderr(pipe, bytes) {
            return Vec::new();
        }
        let events = self.events.feed(bytes);
        events.into_iter().flat_map(|event| self.handle_event(event)).collect()
    }

    fn conclude(&mut self, exit: Exit) -> Conclusion {
        let mut reports: Vec<AgentReport> = self.flush().into_iter().collect();
        reports.extend(self.used.map(AgentReport::Used));
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
