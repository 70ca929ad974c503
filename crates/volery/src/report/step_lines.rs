//! Renders the events of a run as single lines: all steps for `run --verbose`, only the warnings for `run` without it.

use domain::run::tool_summary::truncate;
use domain::run::{Event, OutcomeKind};

use super::step_text::{CallChange, OpenCalls, denial, note};
use super::text::one_line;

/// How many bytes of the text between two steps a line uses.
const TEXT_BYTES_MAX: usize = 2 << 10;

/// A line about a step of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StepLine {
    Step(String),
    Failure(String),
    Warning(String),
}

/// Turns the events of one run into lines, in their order.
#[derive(Debug, Default)]
pub(crate) struct StepLines {
    calls: OpenCalls,
    /// The beginning of the text since the last step.
    text: String,
}

impl StepLines {
    pub(crate) fn new(directory: &str) -> Self {
        Self { calls: OpenCalls::new(directory), text: String::new() }
    }

    pub(crate) fn lines(&mut self, event: &Event) -> Vec<StepLine> {
        if let Event::AnswerAppended { text } = event {
            let room = TEXT_BYTES_MAX.saturating_sub(self.text.len());
            self.text.push_str(domain::size::head(text, room));
            return Vec::new();
        }
        let step = self.step(event);
        let is_success =
            matches!(event, Event::Ended { ending } if ending.outcome.kind() == OutcomeKind::Succeeded);
        if is_success {
            // The answer follows on standard output.
            self.text.clear();
        }
        let text = if ends_text(event) {
            truncate(&one_line(&std::mem::take(&mut self.text)))
        } else {
            String::new()
        };
        // The mark distinguishes the agent's own words from lines about its steps.
        let text = (!text.is_empty()).then(|| StepLine::Step(format!("│ {text}")));
        text.into_iter().chain(step).collect()
    }

    fn step(&mut self, event: &Event) -> Option<StepLine> {
        if let Some(change) = self.calls.change(event) {
            return match change {
                CallChange::Began { summary, .. } => Some(StepLine::Step(summary)),
                CallChange::Ended { ok: true, .. } => None,
                CallChange::Ended { ok: false, summary, output, .. } => {
                    let reason = truncate(&one_line(domain::size::head(output, TEXT_BYTES_MAX)));
                    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                    Some(StepLine::Failure(format!("failed: {summary}{reason}")))
                }
            };
        }
        if let Some(denial) = denial(event) {
            return Some(StepLine::Warning(denial));
        }
        match event {
            // The command itself shows the question.
            Event::QuestionRaised { .. } => None,
            Event::AttemptStarted { reason, backend, .. } if !reason.is_empty() => Some(StepLine::Warning(
                format!("tries again with {}: {}", one_line(backend), one_line(reason)),
            )),
            _ => warning(event).map(StepLine::Warning).or_else(|| note(event).map(StepLine::Step)),
        }
    }
}

/// Returns whether an event ends the agent's message before it. Warnings and usage do not, because they can follow the answer.
fn ends_text(event: &Event) -> bool {
    matches!(
        event,
        Event::ToolCalled { .. }
            | Event::CallRequested { .. }
            | Event::AttemptStarted { .. }
            | Event::QuestionRaised { .. }
            | Event::Ended { .. }
    )
}

/// Returns the warning of an event. A denial is not a warning: commands report all denials at the end.
pub(crate) fn warning(event: &Event) -> Option<String> {
    match event {
        Event::Warned { message } => Some(one_line(message)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use domain::run::{Ending, Outcome};
    use serde_json::json;

    use super::super::denials::sample_denial;
    use super::*;

    fn called(id: &str, name: &str, input: serde_json::Value) -> Event {
        Event::ToolCalled { id: id.into(), name: name.into(), input }
    }

    fn returned(id: &str, ok: bool, output: &str) -> Event {
        Event::ToolReturned { id: id.into(), ok, output: output.into() }
    }

    fn text(text: &str) -> Event {
        Event::AnswerAppended { text: text.into() }
    }

    #[test]
    fn text_cannot_imitate_a_step() {
        let imitation = "Look.\n$ cargo test\r\nwarning: all is well\u{1b}[2K\u{1b}[1A\r$ rm -rf /";
        let tool = "Read\n$ cargo test\u{1b}[2K";
        let events = [
            text(imitation),
            called("1", tool, json!({})),
            returned("1", false, "no\n$ cargo test"),
            Event::Warned { message: "one\n$ cargo test".into() },
            Event::ModelReported { model: "m\n$ cargo test".into() },
        ];
        let mut steps = StepLines::new("/work");
        let lines: Vec<String> =
            events.iter().flat_map(|event| steps.lines(event)).map(|line| format!("{line:?}")).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        Step("│ Look. $ cargo test warning: all is well␛[2K␛[1A␍$ rm -rf /")
        Step("Read $ cargo test␛[2K")
        Failure("failed: Read $ cargo test␛[2K: no $ cargo test")
        Warning("one $ cargo test")
        Step("model m $ cargo test")
        "#);
    }

    #[test]
    fn each_step_is_one_line_and_the_answer_is_none() {
        let events = [
            text("I look "),
            text("at it.\nThen I test."),
            called("1", "Read", json!({"file_path": "/work/a.rs"})),
            returned("1", true, "fn main() {}"),
            called("2", "Bash", json!({"command": "cargo test"})),
            returned("2", false, "error: \u{1b}[31mno\nsuch package"),
            Event::ToolDenied { denial: sample_denial("a rule") },
            Event::Warned { message: "asks its model again".into() },
            text("The answer."),
            Event::Ended { ending: Box::new(Ending::from_outcome(Outcome::Succeeded)) },
        ];
        let mut steps = StepLines::new("/work");
        let lines: Vec<String> =
            events.iter().flat_map(|event| steps.lines(event)).map(|line| format!("{line:?}")).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        Step("│ I look at it. Then I test.")
        Step("Read a.rs")
        Step("$ cargo test")
        Failure("failed: $ cargo test: error: no such package")
        Warning("denied: Bash(rm x): a rule")
        Warning("asks its model again")
        "#);
        let warnings: Vec<String> = events.iter().filter_map(warning).collect();
        assert_eq!(warnings, ["asks its model again"]);
    }
}
