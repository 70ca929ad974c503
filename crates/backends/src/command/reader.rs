//! Interprets a custom command's output as text, as one JSON document, or as one JSON event per line.

use domain::run::{AgentEnd, Failure, ModelError, StdStream};
use serde_json::Value;

use super::options::{Document, Match, Options, Output};
use crate::contract::{AgentAnswer, AgentReport, Conclusion, Exit, OutputReader};
use crate::line_splitter::{LINE_BYTES_MAX, LineSplitter, OutputLine};

/// The longest document or line that is interpreted.
const DOCUMENT_BYTES_MAX: usize = 8 << 20;
/// The most streamed text that is stored as a partial answer.
const PARTIAL_BYTES_MAX: usize = 1 << 20;

pub(super) fn for_output(options: &Options) -> Box<dyn OutputReader> {
    let codes = Codes { success: options.success_codes.clone(), shortage: options.shortage_codes.clone() };
    match options.output.clone() {
        Output::Text => Box::new(Text { codes }),
        Output::Json(pointers) => Box::new(Json { codes, pointers, document: Vec::new(), overflow: false }),
        Output::Jsonl { terminal, document: pointers, text } => Box::new(Jsonl {
            codes,
            pointers,
            terminal_marks: terminal,
            text,
            lines: LineSplitter::default(),
            partial: String::new(),
            terminal: None,
        }),
    }
}

/// The meaning of exit codes.
#[derive(Debug, Clone)]
struct Codes {
    success: Vec<i32>,
    shortage: Vec<i32>,
}

fn judge_exit(exit: Exit, codes: &Codes) -> AgentEnd {
    match exit {
        Exit::Code(code) if codes.success.contains(&code) => AgentEnd::Done,
        Exit::Code(code) if codes.shortage.contains(&code) => {
            let message = format!("the command says so by its exit code {code}");
            AgentEnd::Failed(Failure::Model { error: ModelError::RateLimit, message })
        }
        Exit::Code(code) => AgentEnd::Failed(Failure::Exit { code }),
        Exit::Signal(signal) => AgentEnd::Failed(Failure::Signal { signal }),
    }
}

struct Text {
    codes: Codes,
}

impl OutputReader for Text {
    fn is_plain_text(&self) -> bool {
        true
    }

    fn feed(&mut self, _stream: StdStream, _bytes: &[u8]) -> Vec<AgentReport> {
        Vec::new()
    }

    fn conclude(&mut self, exit: Exit) -> Conclusion {
        Conclusion::new(judge_exit(exit, &self.codes), AgentAnswer::Stdout)
    }
}

struct Json {
    codes: Codes,
    pointers: Document,
    document: Vec<u8>,
    overflow: bool,
}

impl OutputReader for Json {
    fn feed(&mut self, stream: StdStream, bytes: &[u8]) -> Vec<AgentReport> {
        if stream == StdStream::Stdout && !self.overflow {
            self.overflow = self.document.len() + bytes.len() > DOCUMENT_BYTES_MAX;
            match self.overflow {
                true => self.document = Vec::new(),
                false => self.document.extend_from_slice(bytes),
            }
        }
        Vec::new()
    }

    fn conclude(&mut self, exit: Exit) -> Conclusion {
        let document = match self.overflow {
            true => Err(format!("the document is larger than {} MiB", DOCUMENT_BYTES_MAX >> 20)),
            false => serde_json::from_slice::<Value>(&self.document).map_err(|error| error.to_string()),
        };
        let exit_end = judge_exit(exit, &self.codes);
        match document {
            Ok(document) => conclude_document(&self.pointers, &document, exit_end),
            // A failed exit explains itself better than the output it did not write.
            Err(_) if exit_end != AgentEnd::Done => Conclusion::new(exit_end, AgentAnswer::Stdout),
            Err(reason) => {
                let reason = format!("it is not a JSON document: {reason}");
                Conclusion::new(AgentEnd::Failed(Failure::Output { reason }), AgentAnswer::Stdout)
            }
        }
    }
}

/// Judges the document that ends a run: its error mark, then its answer, then the exit code.
fn conclude_document(pointers: &Document, document: &Value, exit_end: AgentEnd) -> Conclusion {
    let answer = document.pointer(&pointers.result).map(as_text);
    let session = pointers.session.as_deref().and_then(|pointer| document.pointer(pointer)).map(as_text);
    let mut conclusion = if !pointers.error.is_empty() && matches(document, &pointers.error) {
        let message = answer.clone().unwrap_or_else(|| "the terminal event says so".to_owned());
        let end =
            AgentEnd::Failed(Failure::Agent { message: domain::size::head(&message, 2_000).to_owned() });
        Conclusion::new(end, answer.map_or(AgentAnswer::Nothing, AgentAnswer::Text))
    } else if let Some(answer) = answer {
        Conclusion::new(exit_end, AgentAnswer::Text(answer))
    } else {
        let reason = format!("it has nothing at {:?}", pointers.result);
        let end = match exit_end {
            AgentEnd::Done => AgentEnd::Failed(Failure::Output { reason }),
            failed @ (AgentEnd::Failed(_)
            | AgentEnd::OverBudget(_)
            | AgentEnd::Refused(_)
            | AgentEnd::Unanswered
            | AgentEnd::Lost) => failed,
        };
        Conclusion::new(end, AgentAnswer::Nothing)
    };
    conclusion.session = session;
    conclusion
}

fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn matches(document: &Value, marks: &[Match]) -> bool {
    marks.iter().all(|mark| document.pointer(&mark.pointer) == Some(&mark.value))
}

struct Jsonl {
    codes: Codes,
    pointers: Document,
    terminal_marks: Vec<Match>,
    text: Option<String>,
    lines: LineSplitter,
    partial: String,
    terminal: Option<Value>,
}

impl Jsonl {
    fn take_line(&mut self, line: &[u8], reports: &mut Vec<AgentReport>) {
        let Ok(event) = serde_json::from_slice::<Value>(line) else {
            // Progress bars and warnings between the events are common and harmless.
            return;
        };
        if !self.terminal_marks.is_empty() && matches(&event, &self.terminal_marks) {
            self.terminal = Some(event);
            return;
        }
        let text = self.text.as_deref().and_then(|pointer| event.pointer(pointer)).and_then(Value::as_str);
        if let Some(text) = text {
            let room = PARTIAL_BYTES_MAX.saturating_sub(self.partial.len());
            self.partial.push_str(domain::size::head(text, room));
            reports.push(AgentReport::Text(text.to_owned()));
        }
    }
}

impl OutputReader for Jsonl {
    fn feed(&mut self, stream: StdStream, bytes: &[u8]) -> Vec<AgentReport> {
        let mut reports = Vec::new();
        if stream != StdStream::Stdout {
            return reports;
        }
        for line in self.lines.feed(bytes) {
            match line {
                OutputLine::Whole(line) => self.take_line(&line, &mut reports),
                OutputLine::TooLong => {
                    let limit = LINE_BYTES_MAX >> 20;
                    let message = format!("a line of output longer than {limit} MiB was passed over");
                    reports.push(AgentReport::Warned(message));
                }
            }
        }
        reports
    }

    fn conclude(&mut self, exit: Exit) -> Conclusion {
        if let Some(rest) = self.lines.finish() {
            self.take_line(&rest, &mut Vec::new());
        }
        let exit_end = judge_exit(exit, &self.codes);
        if let Some(event) = self.terminal.take() {
            return conclude_document(&self.pointers, &event, exit_end);
        }
        let end = match exit_end {
            AgentEnd::Done => {
                let reason = "the stream ended without its terminal event".to_owned();
                AgentEnd::Failed(Failure::Output { reason })
            }
            failed @ (AgentEnd::Failed(_)
            | AgentEnd::OverBudget(_)
            | AgentEnd::Refused(_)
            | AgentEnd::Unanswered
            | AgentEnd::Lost) => failed,
        };
        let partial = std::mem::take(&mut self.partial);
        let answer = if partial.is_empty() { AgentAnswer::Nothing } else { AgentAnswer::Text(partial) };
        Conclusion::new(end, answer)
    }
}
