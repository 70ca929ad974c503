//! Draws the live display of active runs in place, on a terminal's standard error.

use std::time::{Duration, Instant};

use super::output::Out;
use crate::report::{LiveRow, frame};

/// The time between two frames: at most ten per second.
pub(crate) const REDRAW_EVERY: Duration = Duration::from_millis(100);

/// A display that is redrawn in place. Draws nothing if lines cannot be erased.
pub(crate) struct LiveDisplay {
    since: Instant,
    lines: usize,
    reported: Vec<(String, String)>,
}

impl LiveDisplay {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), lines: 0, reported: Vec::new() }
    }

    /// Draws the next frame. On a terminal that cannot redraw, prints each change of status once.
    pub(crate) fn draw(&mut self, rows: &[LiveRow], out: &mut Out) {
        let medium = out.notes_stream();
        match (medium.terminal, medium.redrawable) {
            (false, _) => {}
            (true, false) => self.report_changes(rows, out),
            (true, true) => {
                let tick = self.since.elapsed().as_millis() / REDRAW_EVERY.as_millis();
                let lines = frame(rows, usize::try_from(tick).unwrap_or(0), &out.notes_style());
                let frame_text = format!("{}{}\n", erase_lines(self.lines), lines.join("\n"));
                self.lines = lines.len();
                out.notes_page(if lines.is_empty() { "" } else { &frame_text });
            }
        }
    }

    /// Erases the display.
    pub(crate) fn erase(&mut self, out: &mut Out) {
        out.notes_page(&erase_lines(self.lines));
        self.lines = 0;
    }

    fn report_changes(&mut self, rows: &[LiveRow], out: &mut Out) {
        let now: Vec<(String, String)> =
            rows.iter().map(|row| (row.name.clone(), row.status.clone())).collect();
        for change in now.iter().filter(|change| !self.reported.contains(change)) {
            out.note(&format!("{} is {}", change.0, change.1));
        }
        self.reported = now;
    }
}

/// Returns the escape sequence that moves the cursor up by some lines and erases from there.
fn erase_lines(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!("\x1b[{lines}A\r\x1b[J") }
}
