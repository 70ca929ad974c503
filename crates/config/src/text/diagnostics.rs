//! Collects the diagnostics of one file, keeps their locations inside it, and bounds their number.

use std::cmp::Reverse;

use domain::diagnostic::{Diagnostic, Severity};
use domain::permission::RuleOrigin;
use domain::size;

use super::SourceLocation;

/// How many problems of one file are reported; the rest is counted.
const DIAGNOSTICS_MAX: usize = 100;
/// How much of a quoted text a message contains.
const QUOTE_BYTES_MAX: usize = 80;
/// The distance between offsets with a known number of preceding characters. A whole file may be one line, and
/// counting from its start for each location would take quadratic time.
const STEP_BYTES: usize = 1_024;

/// Returns a text in quotation marks, shortened so that a message stays a line.
pub(crate) fn quote(text: &str) -> String {
    let head = size::head(text, QUOTE_BYTES_MAX);
    if head.len() == text.len() { format!("{text:?}") } else { format!("{:?}", format!("{head}…")) }
}

/// The problems found so far in one file.
pub(crate) struct Diagnostics<'a> {
    file: &'a str,
    text: &'a str,
    line_starts: Vec<usize>,
    /// The number of characters before each step of the text.
    chars_before: Vec<usize>,
    reported: Vec<Diagnostic>,
    errors: usize,
    omitted: usize,
}

impl<'a> Diagnostics<'a> {
    /// Takes the whole text of the file, to which all locations refer.
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        let mut line_starts = vec![0];
        line_starts.extend(text.match_indices('\n').map(|(at, _)| at + 1));
        let mut chars_before = vec![0];
        let mut from = 0;
        for step in (STEP_BYTES..=text.len()).step_by(STEP_BYTES) {
            let to = text.floor_char_boundary(step);
            let before = chars_before.last().copied().unwrap_or_default();
            chars_before.push(before + text[from..to].chars().count());
            from = to;
        }
        Self { file, text, line_starts, chars_before, reported: Vec::new(), errors: 0, omitted: 0 }
    }

    pub(crate) fn error(&mut self, location: SourceLocation, message: impl Into<String>) {
        self.add(location, Diagnostic::error(self.file, message));
    }

    pub(crate) fn error_with_hint(
        &mut self,
        location: SourceLocation,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.add(location, Diagnostic::error(self.file, message).hint(hint));
    }

    pub(crate) fn warning(&mut self, location: SourceLocation, message: impl Into<String>) {
        self.add(location, Diagnostic::warning(self.file, message));
    }

    pub(crate) fn warning_with_hint(
        &mut self,
        location: SourceLocation,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.add(location, Diagnostic::warning(self.file, message).hint(hint));
    }

    /// Counts the errors so far.
    pub(crate) fn errors(&self) -> usize {
        self.errors
    }

    /// Returns the location of a byte offset.
    pub(crate) fn location_of(&self, offset: usize) -> SourceLocation {
        let offset = self.text.floor_char_boundary(offset);
        let row = self.line_starts.partition_point(|start| *start <= offset) - 1;
        let column = self.count_chars(self.line_starts[row], offset) + 1;
        SourceLocation { line: number(row + 1), column: number(column) }
    }

    /// Counts the characters between two offsets.
    fn count_chars(&self, from: usize, to: usize) -> usize {
        let before = |offset: usize| {
            let step = offset / STEP_BYTES;
            let start = self.text.floor_char_boundary(step * STEP_BYTES);
            self.chars_before[step] + self.text[start..offset].chars().count()
        };
        before(to) - before(from)
    }

    /// Returns a location as the origin of a rule.
    pub(crate) fn rule_origin(&self, location: SourceLocation) -> RuleOrigin {
        RuleOrigin::File { file: self.file.to_owned(), line: self.clamp_to_file(location).line }
    }

    /// Returns whether further diagnostics are only counted.
    pub(crate) fn is_full(&self) -> bool {
        self.reported.len() >= DIAGNOSTICS_MAX
    }

    /// Returns the diagnostics in the order of the file; of two at one location the error comes first.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        self.reported
            .sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column, Reverse(diagnostic.severity)));
        if self.omitted > 0 {
            let message = format!("{} more problems are not shown", self.omitted);
            self.reported.push(match self.errors {
                0 => Diagnostic::warning(self.file, message),
                _ => Diagnostic::error(self.file, message),
            });
        }
        self.reported
    }

    fn add(&mut self, location: SourceLocation, diagnostic: Diagnostic) {
        self.errors += usize::from(diagnostic.severity == Severity::Error);
        if self.is_full() {
            self.omitted += 1;
            return;
        }
        let SourceLocation { line, column } = self.clamp_to_file(location);
        self.reported.push(diagnostic.at(line, column));
    }

    /// Moves a location into the file: parsers report "unexpected end" on a line after the last one.
    fn clamp_to_file(&self, location: SourceLocation) -> SourceLocation {
        let line_number =
            usize::try_from(location.line).unwrap_or(usize::MAX).clamp(1, self.line_starts.len());
        // Editors do not show the empty line after a last line break.
        let ends_empty = line_number > 1 && self.line_starts[line_number - 1] == self.text.len();
        let row = if ends_empty { line_number - 2 } else { line_number - 1 };
        let start = self.line_starts[row];
        let end = self.line_starts.get(row + 1).map_or(self.text.len(), |next| next - 1);
        let width = self.count_chars(start, start + self.text[start..end].trim_end_matches('\r').len());
        let beyond = number(width + 1);
        let column = if row + 1 == line_number { location.column.clamp(1, beyond) } else { beyond };
        SourceLocation { line: number(row + 1), column }
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
