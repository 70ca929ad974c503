//! A page for people: labels with their values, and blocks of text.

use domain::permission::{Grant, GrantSource};

use super::look::{Look, Tone};
use super::text::{neutralise, one_line, wrap};

/// Columns that the labels of a page take.
const LABEL: usize = 12;

/// Renders what is known about one thing: a title, and below it the facts that are known.
pub(crate) fn facts(title: &str, facts: &[(&str, String)], look: &Look) -> String {
    let mut page = Page::new(look);
    page.text.push_str(&format!("{}\n", look.paint.apply(Tone::Strong, &one_line(title))));
    for (label, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        page.fact(label, &one_line(value));
    }
    page.text
}

/// A page that is being written.
pub(super) struct Page<'a> {
    pub(super) text: String,
    pub(super) look: &'a Look,
}

impl<'a> Page<'a> {
    pub(super) fn new(look: &'a Look) -> Self {
        Self { text: String::new(), look }
    }

    /// Adds a line with a label; a long value is wrapped beside it.
    pub(super) fn fact(&mut self, label: &str, value: &str) {
        let padded = format!("{label:<LABEL$}");
        let label = self.look.paint.apply(Tone::Faint, &padded);
        let lines = match self.look.width {
            // A painted value is not broken: its escape codes have no width.
            Some(width) if !value.contains('\x1b') => wrap(value, width.saturating_sub(LABEL).max(20)),
            Some(_) | None => vec![value.to_owned()],
        };
        let value = lines.join(&format!("\n{}", " ".repeat(LABEL)));
        self.text.push_str(&format!("{label}{value}\n"));
    }

    /// Adds a text of several lines below a title; nothing if it is empty.
    pub(super) fn block(&mut self, title: &str, body: &str) {
        if body.is_empty() {
            return;
        }
        let title = self.look.paint.apply(Tone::Faint, title);
        self.text.push_str(&format!("\n{title}\n"));
        for line in neutralise(body).trim_end().lines() {
            self.text.push_str(&format!("  {line}\n"));
        }
    }
}

/// Returns who changed a permission, and how.
pub(super) fn grant_line(grant: &Grant) -> String {
    let widens = match grant.widens.is_empty() {
        true => String::new(),
        false => format!("; allows more than before: {}", grant.widens.join(", ")),
    };
    let asked = match grant.source {
        GrantSource::Configuration | GrantSource::Caller => grant.asked.as_asked(),
        GrantSource::Parent | GrantSource::Untrusted => format!("at most {}", grant.asked.in_words()),
    };
    one_line(&format!("{asked} by {}{widens}", grant.by))
}
