//! Collects the problems of one file, keeps their places inside it, and bounds their number.

use std::cmp::Reverse;

use domain::diagnostic::{Diagnostic, Severity};
use domain::size;

use super::Place;

/// How many problems of one file are reported; the rest is counted.
const FINDINGS_MAX: usize = 100;
/// How much of somebody's text a message repeats.
const QUOTE_BYTES_MAX: usize = 80;
/// How far apart the places are of which it is known how many letters come before them: a whole file may be one line.
const STEP_BYTES: usize = 1_024;

/// Returns a text in quotation marks, shortened so that a message stays a line.
pub(crate) fn quoted(text: &str) -> String {
    let head = size::head(text, QUOTE_BYTES_MAX);
    if head.len() == text.len() { format!("{text:?}") } else { format!("{:?}", format!("{head}…")) }
}

/// The problems found so far in one file.
pub(crate) struct Findings<'a> {
    file: &'a str,
    text: &'a str,
    line_starts: Vec<usize>,
    /// How many letters come before each step of the text.
    letters_before: Vec<usize>,
    found: Vec<Diagnostic>,
    errors: usize,
    left_out: usize,
}

impl<'a> Findings<'a> {
    /// Begins with the whole text of the file, to which all places refer.
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        let mut line_starts = vec![0];
        line_starts.extend(text.match_indices('\n').map(|(at, _)| at + 1));
        let mut letters_before = vec![0];
        let mut from = 0;
        for step in (STEP_BYTES..=text.len()).step_by(STEP_BYTES) {
            let to = text.floor_char_boundary(step);
            let before = letters_before.last().copied().unwrap_or_default();
            letters_before.push(before + text[from..to].chars().count());
            from = to;
        }
        Self { file, text, line_starts, letters_before, found: Vec::new(), errors: 0, left_out: 0 }
    }

    pub(crate) fn error(&mut self, place: Place, message: impl Into<String>) {
        self.add(place, Diagnostic::error(self.file, message));
    }

    pub(crate) fn error_with_hint(
        &mut self,
        place: Place,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.add(place, Diagnostic::error(self.file, message).hint(hint));
    }

    pub(crate) fn warning(&mut self, place: Place, message: impl Into<String>) {
        self.add(place, Diagnostic::warning(self.file, message));
    }

    pub(crate) fn warning_with_hint(
        &mut self,
        place: Place,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.add(place, Diagnostic::warning(self.file, message).hint(hint));
    }

    /// Counts the errors so far.
    pub(crate) fn errors(&self) -> usize {
        self.errors
    }

    /// Returns the place of a byte of the text.
    pub(crate) fn place_of(&self, offset: usize) -> Place {
        let offset = self.text.floor_char_boundary(offset);
        let row = self.line_starts.partition_point(|start| *start <= offset) - 1;
        let column = self.letters(self.line_starts[row], offset) + 1;
        Place { line: number(row + 1), column: number(column) }
    }

    /// Counts the letters between two places of the text.
    fn letters(&self, from: usize, to: usize) -> usize {
        let before = |offset: usize| {
            let step = offset / STEP_BYTES;
            let start = self.text.floor_char_boundary(step * STEP_BYTES);
            self.letters_before[step] + self.text[start..offset].chars().count()
        };
        before(to) - before(from)
    }

    /// Tells whether what is added now is only counted.
    pub(crate) fn is_full(&self) -> bool {
        self.found.len() >= FINDINGS_MAX
    }

    /// Returns the problems in the order of the file; of two at one place the error comes first.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        self.found.sort_by_key(|finding| (finding.line, finding.column, Reverse(finding.severity)));
        if self.left_out > 0 {
            let message = format!("{} more problems are not shown", self.left_out);
            self.found.push(match self.errors {
                0 => Diagnostic::warning(self.file, message),
                _ => Diagnostic::error(self.file, message),
            });
        }
        self.found
    }

    fn add(&mut self, place: Place, diagnostic: Diagnostic) {
        self.errors += usize::from(diagnostic.severity == Severity::Error);
        if self.is_full() {
            self.left_out += 1;
            return;
        }
        let Place { line, column } = self.inside(place);
        self.found.push(diagnostic.at(line, column));
    }

    /// Moves a place into the file: parsers put "unexpected end" on a line after the last one.
    fn inside(&self, place: Place) -> Place {
        let wanted = usize::try_from(place.line).unwrap_or(usize::MAX).clamp(1, self.line_starts.len());
        // The empty piece after a last line break is no line that an editor shows.
        let ends_empty = wanted > 1 && self.line_starts[wanted - 1] == self.text.len();
        let row = if ends_empty { wanted - 2 } else { wanted - 1 };
        let start = self.line_starts[row];
        let end = self.line_starts.get(row + 1).map_or(self.text.len(), |next| next - 1);
        let width = self.letters(start, start + self.text[start..end].trim_end_matches('\r').len());
        let beyond = number(width + 1);
        let column = if row + 1 == wanted { place.column.clamp(1, beyond) } else { beyond };
        Place { line: number(row + 1), column }
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
