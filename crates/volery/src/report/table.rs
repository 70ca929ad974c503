//! A small table: columns as wide as their content, the flexible one cut to what the terminal leaves.

use super::look::{Look, Tone};
use super::text::{fit, one_line, width};

/// Spaces between columns.
const GAP: usize = 2;
/// The flexible column is never cut below this.
const FLEXIBLE_MIN: usize = 12;

/// On which side a column is flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
    /// Left, and cut when the terminal is too narrow. At most one per table.
    Flexible,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) align: Align,
}

impl Column {
    pub(crate) const fn left(title: &'static str) -> Self {
        Self { title, align: Align::Left }
    }

    pub(crate) const fn right(title: &'static str) -> Self {
        Self { title, align: Align::Right }
    }

    pub(crate) const fn flexible(title: &'static str) -> Self {
        Self { title, align: Align::Flexible }
    }
}

/// One field, always on one line.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(crate) fn new(text: &str) -> Self {
        Self::toned(text, Tone::Plain)
    }

    pub(crate) fn toned(text: &str, tone: Tone) -> Self {
        Self { text: one_line(text), tone }
    }

    /// Returns a run's status in its colour.
    pub(crate) fn status(status: &str) -> Self {
        Self::toned(status, Tone::of_status(status))
    }
}

/// Columns and rows.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// Returns the table as lines, each with its line break.
    pub(crate) fn render(&self, look: &Look) -> String {
        let widths = self.widths(look);
        let title = |column: &Column| Cell::toned(column.title, Tone::Faint);
        let head: Vec<Cell> = self.columns.iter().map(title).collect();
        std::iter::once(&head).chain(&self.rows).map(|row| self.line(row, &widths, look)).collect()
    }

    fn widths(&self, look: &Look) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|column| width(column.title)).collect();
        for row in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = width(&cell.text).max(*widest);
            }
        }
        let flexible = self.columns.iter().position(|column| column.align == Align::Flexible);
        if let (Some(total), Some(flexible)) = (look.width, flexible) {
            let others: usize = widths.iter().sum::<usize>() - widths[flexible] + GAP * (widths.len() - 1);
            widths[flexible] = widths[flexible].min(total.saturating_sub(others).max(FLEXIBLE_MIN));
        }
        widths
    }

    fn line(&self, row: &[Cell], widths: &[usize], look: &Look) -> String {
        let mut line = String::new();
        for ((cell, column), room) in row.iter().zip(&self.columns).zip(widths) {
            let text = fit(&cell.text, *room);
            let padding = " ".repeat(room.saturating_sub(width(&text)));
            let painted = look.paint.apply(cell.tone, &text);
            match column.align {
                Align::Left | Align::Flexible => line.push_str(&format!("{painted}{padding}")),
                Align::Right => line.push_str(&format!("{padding}{painted}")),
            }
            line.push_str(&" ".repeat(GAP));
        }
        format!("{}\n", line.trim_end())
    }
}
