//! Extracts the first lines of a run's task and the length of the rest.

use domain::size::display_bytes;

use super::text::{fit, one_line};
use engine::RunView;

/// The most columns of one line.
const LINE_COLUMNS: usize = 200;

pub(super) struct PromptExcerpt {
    /// The lines, without invisible characters.
    pub(super) lines: Vec<String>,
    bytes_left: u64,
}

impl PromptExcerpt {
    pub(super) fn new(run: &RunView, lines_max: usize) -> Self {
        let mut lines = Vec::new();
        let mut shown_bytes = 0;
        for line in run.prompt.split_inclusive('\n').take(lines_max) {
            let visible = one_line(line);
            let fitted = fit(&visible, LINE_COLUMNS);
            let is_cut = fitted != visible;
            if !(lines.is_empty() && fitted.is_empty()) {
                lines.push(fitted);
            }
            shown_bytes += if is_cut { LINE_COLUMNS } else { line.len() };
            if is_cut {
                break;
            }
        }
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        let bytes_left = run.prompt_bytes.saturating_sub(shown_bytes as u64);
        // The length of the rest does not count white space at the end.
        let is_blank = run.prompt.get(shown_bytes..).is_some_and(|rest| rest.trim().is_empty());
        let is_whole = run.prompt.len() as u64 == run.prompt_bytes;
        Self { lines, bytes_left: if is_blank && is_whole { 0 } else { bytes_left } }
    }

    /// Returns the length of the part that is not shown.
    pub(super) fn rest(&self) -> Option<String> {
        (self.bytes_left > 0).then(|| format!("… {} more", display_bytes(self.bytes_left)))
    }
}
