//! A page for people: labels with their values, and blocks of text.

use domain::policy::{Grant, GrantSource};

use super::text::{one_line, sanitize_for_terminal, width, wrap};
use super::text_style::{TextStyle, Tone};

/// Columns that the labels of a page take.
const LABEL: usize = 12;

/// Renders a title and the facts below it that have a value.
pub(crate) fn details_page(title: &str, facts: &[(&str, String)], style: &TextStyle) -> String {
    let mut page = Page::new(style);
    page.text.push_str(&format!("{}\n", style.color.apply(Tone::Strong, &one_line(title))));
    for (label, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        page.fact(label, &one_line(value));
    }
    page.text
}

/// A page under construction.
pub(super) struct Page<'a> {
    pub(super) text: String,
    pub(super) style: &'a TextStyle,
}

impl<'a> Page<'a> {
    pub(super) fn new(style: &'a TextStyle) -> Self {
        Self { text: String::new(), style }
    }

    /// Adds a line with a label; a long value is wrapped within its column.
    pub(super) fn fact(&mut self, label: &str, value: &str) {
        let padded = format!("{label:<LABEL$}");
        let label = self.style.color.apply(Tone::Faint, &padded);
        let lines = match self.style.width {
            Some(width) => wrap(value, width.saturating_sub(LABEL).max(20)),
            None => vec![value.to_owned()],
        };
        let value = lines.join(&format!("\n{}", " ".repeat(LABEL)));
        self.text.push_str(&format!("{label}{value}\n"));
    }

    /// Adds a line like [`Page::fact`] whose value begins with a coloured word.
    pub(super) fn toned_fact(&mut self, label: &str, (tone, word): (Tone, &str), rest: &str) {
        let before = self.text.len();
        self.fact(label, &format!("{word}{rest}"));
        // The value is wrapped without its colour, because escape codes have no width.
        if let Some(at) = self.text[before..].find(word) {
            let (start, end) = (before + at, before + at + word.len());
            let toned = self.style.color.apply(tone, word);
            self.text.replace_range(start..end, &toned);
        }
    }

    /// Adds a text of several lines below a title; nothing if it is empty.
    pub(super) fn block(&mut self, title: &str, body: &str) {
        if body.is_empty() {
            return;
        }
        let title = self.style.color.apply(Tone::Faint, title);
        self.text.push_str(&format!("\n{title}\n"));
        for line in sanitize_for_terminal(body).trim_end().lines() {
            for part in self.block_lines(line) {
                self.text.push_str(&format!("  {part}\n"));
            }
        }
    }

    /// Breaks a line of a block between words if it is too long, and gives each new line the same indentation.
    fn block_lines(&self, line: &str) -> Vec<String> {
        let columns = self.style.width.map(|columns| columns.saturating_sub(2));
        let Some(columns) = columns.filter(|columns| width(line) > *columns) else {
            return vec![line.to_owned()];
        };
        let indent = &line[..line.len() - line.trim_start().len()];
        let room = columns.saturating_sub(width(indent)).max(20);
        wrap(line, room).into_iter().map(|part| format!("{indent}{part}")).collect()
    }
}

/// Describes who changed a permission, and how.
pub(super) fn grant_line(grant: &Grant) -> String {
    let widens = match grant.widens.is_empty() {
        true => String::new(),
        false => format!("; allows more than before: {}", grant.widens.join(", ")),
    };
    let change = match grant.source {
        GrantSource::Configuration | GrantSource::Caller => grant.requested.layer_summary(),
        GrantSource::Parent | GrantSource::Untrusted => format!("at most {}", grant.requested.summary()),
    };
    one_line(&format!("{change} by {}{widens}", grant.by))
}
