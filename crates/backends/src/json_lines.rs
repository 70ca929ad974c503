//! Implements [`Reader`] for programs that write one JSON value per line: a type that implements [`Events`] is a
//! [`Reader`].

use domain::run::StdStream;
use serde_json::Value;

use crate::contract::{AgentReport, Conclusion, Exit, OutputReader, PermissionDecision};
use crate::line_splitter::OutputLine;
use crate::stream_buffer::StreamBuffer;

/// Interprets the values of one run, one after the other.
pub trait JsonLinesReader {
    /// Returns the buffer for everything besides the values.
    fn buffer(&mut self) -> &mut StreamBuffer;

    fn handle_event(&mut self, event: Value) -> Vec<AgentReport>;

    /// Handles a chunk of the error stream.
    fn handle_stderr(&mut self, bytes: &[u8]) -> Vec<AgentReport> {
        self.buffer().push_stderr(bytes);
        Vec::new()
    }

    /// As [`Reader::expect_no_login`].
    fn handle_missing_login(&mut self) {}

    /// As [`Reader::decide`].
    fn handle_decision(&mut self, _ask: &str, _decision: &PermissionDecision) -> Vec<AgentReport> {
        Vec::new()
    }

    /// As [`Reader::conclude`], after the last value was handled.
    fn finish(&mut self, exit: Exit) -> Conclusion;
}

impl<E: JsonLinesReader> OutputReader for E {
    fn feed(&mut self, pipe: StdStream, bytes: &[u8]) -> Vec<AgentReport> {
        if pipe == StdStream::Stderr {
            return self.handle_stderr(bytes);
        }
        let lines = self.buffer().lines.feed(bytes);
        let mut reports = Vec::new();
        for line in lines {
            // A program that fails before it starts may explain why in plain text.
            if let OutputLine::Whole(bytes) = &line
                && !bytes.trim_ascii_start().starts_with(b"{")
            {
                self.buffer().push_plain_line(bytes);
            }
            reports
                .extend(line.parse_json().map_or_else(|reports| reports, |event| self.handle_event(event)));
        }
        reports
    }

    fn expect_no_login(&mut self) {
        self.handle_missing_login();
    }

    fn decide(&mut self, ask: &str, decision: &PermissionDecision) -> Vec<AgentReport> {
        self.handle_decision(ask, decision)
    }

    fn conclude(&mut self, exit: Exit) -> Conclusion {
        let last = self.buffer().lines.finish().and_then(|line| serde_json::from_slice(&line).ok());
        let mut reports = last.map_or_else(Vec::new, |event| self.handle_event(event));
        // The process has ended, so nothing can be written to it any more.
        reports.retain(|report| !report.is_for_agent());
        let mut conclusion = self.finish(exit);
        reports.append(&mut conclusion.reports);
        Conclusion { reports, ..conclusion }
    }
}

#[cfg(test)]
mod tests {
    use domain::run::AgentEnd;
    use serde_json::json;

    use super::*;

    #[derive(Default)]
    struct Echo(StreamBuffer);

    impl JsonLinesReader for Echo {
        fn buffer(&mut self) -> &mut StreamBuffer {
            &mut self.0
        }

        fn handle_event(&mut self, event: Value) -> Vec<AgentReport> {
            vec![AgentReport::Text(event.to_string()), AgentReport::CloseInput]
        }

        fn finish(&mut self, _exit: Exit) -> Conclusion {
            let stderr_report = AgentReport::Warned(self.0.stderr());
            Conclusion {
                reports: vec![stderr_report],
                ..Conclusion::new(AgentEnd::Done, self.0.take_answer())
            }
        }
    }

    #[test]
    fn values_are_handled_line_by_line_and_the_last_one_also_without_its_line_end() {
        let mut echo = Echo::default();
        let text_report = |value: Value| AgentReport::Text(value.to_string());
        let first = echo.feed(StdStream::Stdout, b"{\"a\":1}\nno value\n[2");
        assert_eq!(first, [text_report(json!({"a": 1})), AgentReport::CloseInput]);
        assert_eq!(echo.feed(StdStream::Stderr, b"oh\n"), []);
        assert_eq!(echo.feed(StdStream::Stdout, b"]"), []);
        let conclusion = echo.conclude(Exit::Code(0));
        assert_eq!(conclusion.reports, [text_report(json!([2])), AgentReport::Warned("oh".to_owned())]);
    }
}
