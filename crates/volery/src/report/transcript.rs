//! Renders the events of a run as a transcript: the task, the agent's text, its steps with shortened results, and the end.
//! Holds only a limited part of the run, so that a command can print a transcript of any length while it reads the log.

use domain::run::{Ending, Envelope, Event, OutcomeKind, ResultText};
use domain::size::{display_bytes, head};

use super::caller_name::caller_name;
use super::denials::status_with_denials;
use super::number_format::{cost_with_basis, count, moment, span};
use super::prompt_excerpt::PromptExcerpt;
use super::step_text::{CallChange, OpenCalls, denial, note};
use super::text::{INDENT, fit, one_line, sanitize_for_terminal, width, wrap};
use super::text_style::{TextStyle, Tone};
use engine::RunView;

/// How many lines of a task, and of a tool's result, a transcript shows.
const PROMPT_LINES: usize = 20;
const RESULT_LINES: usize = 5;
/// The most columns of a result's line if the output is not a terminal.
const RESULT_COLUMNS: usize = 200;
/// How many bytes of an unfinished line wait for the end of the line.
const LINE_BYTES_MAX: usize = 16 << 10;
/// The first characters of lines about steps and about the end.
const STEP_SYMBOLS: [char; 8] = ['→', '←', '·', '✓', '✗', '!', '?', '>'];
/// The indentation of lines that belong to a step.
const STEP_INDENT: &str = "    ";

/// The kind of the last printed part. A blank line separates text from steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Header,
    Text,
    Step,
}

/// A transcript under construction.
pub(crate) struct Transcript {
    style: TextStyle,
    calls: OpenCalls,
    last: Part,
    /// The last printed call, if it is also the last printed line.
    last_call: Option<String>,
    /// The beginning of a text line whose end has not arrived yet.
    line: String,
    /// The transcript contains the agent's text, so it does not repeat the result.
    has_text: bool,
    short_id: String,
}

impl Transcript {
    pub(crate) fn new(run: &RunView, style: TextStyle) -> Self {
        Self {
            style,
            calls: OpenCalls::new(&run.directory),
            last: Part::Header,
            last_call: None,
            line: String::new(),
            has_text: false,
            short_id: run.short_id.clone(),
        }
    }

    /// Returns the agent, the caller and the task.
    pub(crate) fn header(&self, run: &RunView) -> String {
        let title = format!("{} {}", run.short_id, one_line(&run.agent));
        let details = format!("{}, asked by {}", moment(&run.created_at), caller_name(run));
        let fits = self.style.width.is_none_or(|columns| width(&title) + width(&details) + 2 < columns);
        let separator = if fits { "  " } else { "\n" };
        let details = self.wrapped(&details, 0).join("\n");
        let (title, details) = (self.tone(Tone::Strong, &title), self.tone(Tone::Faint, &details));
        let mut text = format!("{title}{separator}{details}\n");
        let excerpt = PromptExcerpt::new(run, PROMPT_LINES);
        for line in excerpt.lines.iter().flat_map(|line| self.wrapped(line, "> ".len())) {
            text.push_str(format!("> {line}").trim_end());
            text.push('\n');
        }
        if let Some(rest) = excerpt.rest() {
            text.push_str(&self.tone(Tone::Faint, &format!("> {rest}")));
            text.push('\n');
        }
        text
    }

    /// Returns the text of an event.
    pub(crate) fn event(&mut self, envelope: &Envelope) -> String {
        let event = &envelope.event;
        if let Event::AnswerAppended { text } = event {
            return self.agent_text(text);
        }
        if let Some(change) = self.calls.change(event) {
            return self.call(&change);
        }
        if let Some(denial) = denial(event) {
            return self.step("✗", Tone::Careful, &denial);
        }
        match event {
            Event::AttemptStarted { backend, model, reason, .. } => {
                self.has_text = false;
                let model = model.as_ref().map(|model| format!(", model {}", one_line(model)));
                let text = format!("{}{}", one_line(backend), model.unwrap_or_default());
                match reason.as_str() {
                    "" => self.step("·", Tone::Faint, &text),
                    reason => {
                        let text = format!("tries again with {text}: {}", one_line(reason));
                        self.step("!", Tone::Careful, &text)
                    }
                }
            }
            Event::Warned { message } => {
                self.step("!", Tone::Careful, &format!("warning: {}", one_line(message)))
            }
            Event::QuestionRaised { .. } => self.noted(event, "?", Tone::Careful),
            Event::AcceptanceEnded { exit, output, .. } if *exit != domain::run::CommandExit::Code(0) => {
                self.noted(event, "✗", Tone::Bad) + &self.result_lines(output)
            }
            Event::ResultSubmitted { text } => {
                let text = format!("submitted its answer ({})", display_bytes(text.len() as u64));
                self.step("·", Tone::Faint, &text)
            }
            Event::FilesChanged { changes } => {
                let names: Vec<String> =
                    changes.files.iter().take(5).map(|file| one_line(&file.path)).collect();
                let more = changes.count().saturating_sub(names.len() as u64);
                let more = if more > 0 { format!(" and {} more", count(more)) } else { String::new() };
                match names.is_empty() {
                    true => String::new(),
                    false => self.step("·", Tone::Faint, &format!("changed {}{more}", names.join(", "))),
                }
            }
            Event::Ended { ending } => self.end(ending),
            _ => self.noted(event, "·", Tone::Faint),
        }
    }

    /// Returns output of a program that writes for people.
    pub(crate) fn plain_output(&mut self, text: &str) -> String {
        self.agent_text(text)
    }

    /// Returns whether the transcript contains text of the agent since the agent's last start.
    pub(crate) fn has_text(&self) -> bool {
        self.has_text
    }

    /// Returns the unfinished line at the end of a transcript that ends before the run does.
    pub(crate) fn rest(&mut self) -> String {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() { String::new() } else { self.text_lines(&line) }
    }

    fn agent_text(&mut self, text: &str) -> String {
        self.has_text = self.has_text || !text.trim().is_empty();
        self.line.push_str(text);
        let end = match self.line.rfind('\n') {
            Some(at) => at + 1,
            None if self.line.len() > LINE_BYTES_MAX => self.line.len(),
            None => return String::new(),
        };
        let rest = self.line.split_off(end);
        let lines = std::mem::replace(&mut self.line, rest);
        self.text_lines(&lines)
    }

    fn text_lines(&mut self, text: &str) -> String {
        let mut printed = self.separator(Part::Text);
        for line in sanitize_for_terminal(text).lines() {
            // The transcript indents text that looks like a step, so that readers can distinguish them. Any word of a long line
            // can become the first one of a wrapped line, so that such a line needs room for the indentation.
            let room = if line.contains(STEP_SYMBOLS) { STEP_INDENT.len() } else { 0 };
            for line in self.wrapped(line, room) {
                if line.starts_with(STEP_SYMBOLS) {
                    printed.push_str(STEP_INDENT);
                }
                printed.push_str(line.trim_end());
                printed.push('\n');
            }
        }
        printed
    }

    fn call(&mut self, change: &CallChange<'_>) -> String {
        match change {
            CallChange::Began { id, summary } => {
                let text = self.step("→", Tone::Busy, summary);
                self.last_call = Some(id.clone());
                text
            }
            CallChange::Ended { id, summary, ok, output } => {
                // Other steps may have come between a call and its result.
                let mut text = match self.last_call.as_ref() == Some(id) {
                    true => String::new(),
                    false if *ok && output.trim().is_empty() => String::new(),
                    false => self.step("←", Tone::Faint, summary),
                };
                if !ok {
                    text.push_str(&format!("{STEP_INDENT}{}\n", self.tone(Tone::Bad, "✗ failed")));
                }
                text.push_str(&self.result_lines(output));
                self.last_call = None;
                text
            }
        }
    }

    fn noted(&mut self, event: &Event, symbol: &str, tone: Tone) -> String {
        note(event).map(|text| self.step(symbol, tone, &text)).unwrap_or_default()
    }

    /// Returns a line with a symbol, and further lines if it is longer than the terminal.
    fn step(&mut self, symbol: &str, tone: Tone, text: &str) -> String {
        let mut printed = self.rest();
        printed.push_str(&self.separator(Part::Step));
        self.last_call = None;
        let lines = self.wrapped(text, width(symbol) + 1);
        let symbol = self.tone(tone, symbol);
        printed.push_str(&format!("{symbol} {}\n", lines.join(&format!("\n{INDENT}"))));
        printed
    }

    /// Returns the first lines of a result.
    fn result_lines(&self, output: &str) -> String {
        let columns =
            self.style.width.map_or(RESULT_COLUMNS, |width| width.saturating_sub(STEP_INDENT.len() + 1));
        let safe = sanitize_for_terminal(output);
        let lines: Vec<&str> = safe.trim_end().lines().filter(|line| !line.trim().is_empty()).collect();
        let mut printed = String::new();
        for line in lines.iter().take(RESULT_LINES) {
            let line = fit(line.replace('\t', "  ").trim_end(), columns);
            printed.push_str(&format!("{STEP_INDENT}{}\n", self.tone(Tone::Faint, &line)));
        }
        let more = lines.len().saturating_sub(RESULT_LINES);
        if more > 0 {
            let lines = if more == 1 { "line" } else { "lines" };
            let text = format!("… {} more {lines}", count(more as u64));
            printed.push_str(&format!("{STEP_INDENT}{}\n", self.tone(Tone::Faint, &text)));
        }
        printed
    }

    fn end(&mut self, ending: &Ending) -> String {
        let mut printed = self.rest();
        if !self.has_text {
            printed.push_str(&self.result(&ending.result));
        }
        let kind = ending.outcome.kind();
        if kind != OutcomeKind::Succeeded && !ending.stderr_tail.trim().is_empty() {
            printed.push_str(&self.step("·", Tone::Faint, "the last lines of standard error"));
            printed.push_str(&self.result_lines(&last_lines(&ending.stderr_tail, RESULT_LINES)));
        }
        let (symbol, tone) = match kind {
            OutcomeKind::Succeeded => ("✓", Tone::Good),
            _ => ("✗", Tone::for_status(kind.as_str())),
        };
        printed.push_str(&self.step(symbol, tone, &summary_of(ending)));
        printed
    }

    /// Returns the answer of an agent that reported no text before.
    fn result(&mut self, result: &ResultText) -> String {
        match result {
            ResultText::Nothing => String::new(),
            ResultText::Inline(text) => self.text_lines(text),
            ResultText::File { bytes } => {
                let text = format!(
                    "the answer has {}: volery wait {} prints it",
                    display_bytes(*bytes),
                    self.short_id
                );
                self.step("·", Tone::Faint, &text)
            }
        }
    }

    fn separator(&mut self, part: Part) -> String {
        let is_same = std::mem::replace(&mut self.last, part) == part;
        if is_same { String::new() } else { "\n".to_owned() }
    }

    fn wrapped(&self, line: &str, used_columns: usize) -> Vec<String> {
        match self.style.width {
            // A line that fits keeps its own indentation.
            Some(columns) if width(line) + used_columns >= columns => {
                let max = columns.saturating_sub(used_columns + 1).max(20);
                wrap(line, max).iter().flat_map(|line| split_at_width(line, max)).collect()
            }
            Some(_) | None => vec![line.to_owned()],
        }
    }

    fn tone(&self, tone: Tone, text: &str) -> String {
        self.style.color.apply(tone, text)
    }
}

/// Splits a word that is longer than a line.
fn split_at_width(line: &str, max: usize) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut used = 0;
    for character in line.chars() {
        let columns = width(character.encode_utf8(&mut [0; 4]));
        if used + columns > max {
            parts.push(String::new());
            used = 0;
        }
        used += columns;
        parts.last_mut().expect("there is always a part").push(character);
    }
    parts
}

fn last_lines(text: &str, lines_max: usize) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(lines_max)..].join("\n")
}

/// Returns outcome, duration, cost and usage in a line.
fn summary_of(ending: &Ending) -> String {
    let explanation = status_with_denials(&one_line(&ending.explanation()), ending.denials_count);
    let time = span(ending.duration_ms);
    let mut parts = match ending.outcome.kind() {
        OutcomeKind::Succeeded => vec![format!("{explanation} in {time}")],
        _ => vec![explanation, format!("after {time}")],
    };
    parts.extend(ending.usage.cost.map(cost_with_basis));
    if ending.usage.input_tokens + ending.usage.output_tokens > 0 {
        let (input, output) = (count(ending.usage.input_tokens), count(ending.usage.output_tokens));
        parts.push(format!("{input} tokens in, {output} out"));
    }
    head(&parts.join(", "), 4 << 10).to_owned()
}

#[cfg(test)]
mod tests;
