//! Renders one frame of the live display: a line for each active run, and below it the end of its output.

use super::number_format::span;
use super::text::{fit, one_line, sanitize_for_terminal};
use super::text_style::{TextStyle, Tone};

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Lines of partial text shown for a run that is watched alone.
const TAIL_LINES: usize = 3;
/// Runs shown at once: a frame that is taller than the terminal cannot be redrawn.
const ROWS_MAX: usize = 12;
/// Columns of the longest status.
const STATUS_MAX: usize = 11;
/// Columns assumed if the terminal does not report its width.
const DEFAULT_WIDTH: usize = 80;

/// A run in a frame.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LiveRow {
    pub(crate) name: String,
    pub(crate) status: String,
    pub(crate) elapsed_ms: u64,
    pub(crate) activity: String,
    /// The activity is the end of the text.
    pub(crate) activity_is_text: bool,
    pub(crate) text_tail: String,
    pub(crate) ended: bool,
}

/// Returns the lines of a frame, none wider than the terminal. `tick` advances the spinner.
pub(crate) fn frame(rows: &[LiveRow], tick: usize, style: &TextStyle) -> Vec<String> {
    // The last column stays free, because some terminals wrap a line that fills it.
    let columns = style.width.unwrap_or(DEFAULT_WIDTH).saturating_sub(1);
    let names = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).min(24);
    let statuses = rows.iter().map(|row| row.status.chars().count()).max().unwrap_or(0).min(STATUS_MAX);
    let mut lines = Vec::new();
    for row in rows.iter().take(ROWS_MAX) {
        let symbol = match (row.ended, row.status.as_str()) {
            (true, "succeeded") => "✓",
            (true, _) => "✗",
            (false, _) => SPINNER[tick % SPINNER.len()],
        };
        let name = fit(&one_line(&row.name), names);
        let status = format!("{:<statuses$}", fit(&one_line(&row.status), statuses));
        let time = span(row.elapsed_ms);
        let head = format!("{symbol} {name:<names$}  ");
        let used = head.chars().count() + status.chars().count() + 2 + time.chars().count() + 2;
        // If the command watches only one run, the frame shows the run's text below.
        let is_shown_below = rows.len() == 1 && row.activity_is_text;
        let activity = if is_shown_below { String::new() } else { one_line(&row.activity) };
        let activity = fit(&activity, columns.saturating_sub(used));
        let status = style.color.apply(Tone::for_status(&row.status), &status);
        let activity = style.color.apply(Tone::Faint, &activity);
        lines.push(format!("{head}{status}  {time}  {activity}").trim_end().to_owned());
        if rows.len() == 1 {
            lines.extend(tail_lines(&row.text_tail, columns, style));
        }
    }
    if rows.len() > ROWS_MAX {
        lines.push(fit(&format!("… and {} more", rows.len() - ROWS_MAX), columns));
    }
    lines
}

fn tail_lines(tail: &str, columns: usize, style: &TextStyle) -> Vec<String> {
    let safe = sanitize_for_terminal(tail);
    let lines: Vec<&str> = safe.lines().filter(|line| !line.trim().is_empty()).collect();
    let visible = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    let cut = |line: &&str| style.color.apply(Tone::Faint, &fit(&format!("  │ {}", one_line(line)), columns));
    visible.iter().map(cut).collect()
}
