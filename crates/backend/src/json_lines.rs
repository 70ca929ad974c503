//! The frame of every reader whose program writes one JSON value a line: who has [`Events`] is a [`Reader`].

use domain::run::Stream;
use serde_json::Value;

use crate::contract::{Conclusion, Decision, Exit, Reader, Report};
use crate::kept::Kept;
use crate::lines::Line;

/// Understands the values of one run, one after the other.
pub trait Events {
    /// Returns what is kept beside the values.
    fn keeps(&mut self) -> &mut Kept;

    fn take(&mut self, event: Value) -> Vec<Report>;

    /// Takes a part of the error stream.
    fn complained(&mut self, bytes: &[u8]) -> Vec<Report> {
        self.keeps().complain(bytes);
        Vec::new()
    }

    /// As [`Reader::expect_no_login`].
    fn without_login(&mut self) {}

    /// As [`Reader::decide`].
    fn decided(&mut self, _ask: &str, _decision: &Decision) -> Vec<Report> {
        Vec::new()
    }

    /// As [`Reader::conclude`], after the last value was taken.
    fn concluded(&mut self, exit: Exit) -> Conclusion;
}

impl<E: Events> Reader for E {
    fn feed(&mut self, pipe: Stream, bytes: &[u8]) -> Vec<Report> {
        if pipe == Stream::Stderr {
            return self.complained(bytes);
        }
        let lines = self.keeps().lines.feed(bytes);
        let mut reports = Vec::new();
        for line in lines {
            // A program that fails before it begins may say why in words.
            if let Line::Whole(bytes) = &line
                && !bytes.trim_ascii_start().starts_with(b"{")
            {
                self.keeps().note_text(bytes);
            }
            reports.extend(line.json().map_or_else(|reports| reports, |event| self.take(event)));
        }
        reports
    }

    fn expect_no_login(&mut self) {
        self.without_login();
    }

    fn decide(&mut self, ask: &str, decision: &Decision) -> Vec<Report> {
        self.decided(ask, decision)
    }

    fn conclude(&mut self, exit: Exit) -> Conclusion {
        let last = self.keeps().lines.finish().and_then(|line| serde_json::from_slice(&line).ok());
        let mut reports = last.map_or_else(Vec::new, |event| self.take(event));
        // Nobody is there any more to be answered or let go.
        reports.retain(|report| !report.is_for_agent());
        let mut conclusion = self.concluded(exit);
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
    struct Echo(Kept);

    impl Events for Echo {
        fn keeps(&mut self) -> &mut Kept {
            &mut self.0
        }

        fn take(&mut self, event: Value) -> Vec<Report> {
            vec![Report::Said(event.to_string()), Report::CloseInput]
        }

        fn concluded(&mut self, _exit: Exit) -> Conclusion {
            let told = Report::Warned(self.0.stderr());
            Conclusion { reports: vec![told], ..Conclusion::new(AgentEnd::Done, self.0.answer()) }
        }
    }

    #[test]
    fn values_are_taken_line_by_line_and_the_last_one_also_without_its_end() {
        let mut echo = Echo::default();
        let said = |value: Value| Report::Said(value.to_string());
        let first = echo.feed(Stream::Stdout, b"{\"a\":1}\nno value\n[2");
        assert_eq!(first, [said(json!({"a": 1})), Report::CloseInput]);
        assert_eq!(echo.feed(Stream::Stderr, b"oh\n"), []);
        assert_eq!(echo.feed(Stream::Stdout, b"]"), []);
        let conclusion = echo.conclude(Exit::Code(0));
        assert_eq!(conclusion.reports, [said(json!([2])), Report::Warned("oh".to_owned())]);
    }
}
