//! Draws the picture of runs that go on, in place, on a terminal's standard error.

use std::time::{Duration, Instant};

use super::out::Out;
use crate::report::{LiveRow, frame};

/// Between two pictures: at most ten a second.
pub(crate) const REDRAW_EVERY: Duration = Duration::from_millis(100);

/// A picture that is redrawn in place. Draws nothing where lines cannot be erased.
pub(crate) struct Live {
    since: Instant,
    lines: usize,
    told: Vec<(String, String)>,
}

impl Live {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), lines: 0, told: Vec::new() }
    }

    /// Replaces the picture. On a terminal that cannot redraw, tells each change of status once.
    pub(crate) fn draw(&mut self, rows: &[LiveRow], out: &mut Out) {
        let medium = out.notes_medium();
        match (medium.terminal, medium.redrawable) {
            (false, _) => {}
            (true, false) => self.tell(rows, out),
            (true, true) => {
                let tick = self.since.elapsed().as_millis() / REDRAW_EVERY.as_millis();
                let lines = frame(rows, usize::try_from(tick).unwrap_or(0), &out.notes_look());
                let picture = format!("{}{}\n", back_over(self.lines), lines.join("\n"));
                self.lines = lines.len();
                out.notes_page(if lines.is_empty() { "" } else { &picture });
            }
        }
    }

    /// Takes the picture away.
    pub(crate) fn erase(&mut self, out: &mut Out) {
        out.notes_page(&back_over(self.lines));
        self.lines = 0;
    }

    fn tell(&mut self, rows: &[LiveRow], out: &mut Out) {
        let now: Vec<(String, String)> =
            rows.iter().map(|row| (row.name.clone(), row.status.clone())).collect();
        for change in now.iter().filter(|change| !self.told.contains(change)) {
            out.note(&format!("{} is {}", change.0, change.1));
        }
        self.told = now;
    }
}

/// Returns what moves the cursor up over some lines and erases from there on.
fn back_over(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!("\x1b[{lines}A\r\x1b[J") }
}
