//! A table that fits its terminal: columns are as wide as their content, and are cut or dropped by priority if that is too wide.

use super::text::{fit, fit_end, one_line, width};
use super::text_style::{TextStyle, Tone};

/// Spaces between columns.
const GAP: usize = 2;
/// The flexible column is not cut below this width before other columns are dropped.
const FLEXIBLE_MIN: usize = 12;
/// No text is cut below this.
const CUT_MIN: usize = 4;

/// On which side a column is flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// How a column shrinks if the terminal is too narrow for the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShrinkRule {
    /// Never shrinks.
    Whole,
    /// Texts are cut at their ends, down to this width.
    Cut(usize),
    /// Texts are cut at their beginnings, down to this width: the end of a path is its most telling part.
    CutStart(usize),
    /// The column is dropped; the highest number first.
    Droppable(u8),
}

impl ShrinkRule {
    fn least(self, natural: usize) -> usize {
        match self {
            Self::Cut(least) | Self::CutStart(least) => natural.min(least),
            Self::Whole | Self::Droppable(_) => natural,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    align: Align,
    shrink: ShrinkRule,
}

impl Column {
    pub(crate) const fn left(title: &'static str) -> Self {
        Self { title, align: Align::Left, shrink: ShrinkRule::Whole }
    }

    pub(crate) const fn right(title: &'static str) -> Self {
        Self { title, align: Align::Right, shrink: ShrinkRule::Whole }
    }

    /// Returns a column whose texts are cut first.
    pub(crate) const fn flexible(title: &'static str) -> Self {
        Self::left(title).cut(FLEXIBLE_MIN)
    }

    /// Allows to cut the texts to this width, before any column is dropped.
    pub(crate) const fn cut(self, least: usize) -> Self {
        Self { shrink: ShrinkRule::Cut(least), ..self }
    }

    /// Allows to cut the beginnings of the texts, for paths.
    pub(crate) const fn cut_start(self, least: usize) -> Self {
        Self { shrink: ShrinkRule::CutStart(least), ..self }
    }

    /// Allows to drop the column; of several, the one with the highest rank is dropped first.
    pub(crate) const fn droppable(self, rank: u8) -> Self {
        Self { shrink: ShrinkRule::Droppable(rank), ..self }
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
        Self::toned(status, Tone::for_status(status))
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
    pub(crate) fn render(&self, style: &TextStyle) -> String {
        let widths = self.widths(style.width);
        let title = |column: &Column| Cell::toned(column.title, Tone::Faint);
        let head: Vec<Cell> = self.columns.iter().map(title).collect();
        std::iter::once(&head).chain(&self.rows).map(|row| self.line(row, &widths, style)).collect()
    }

    /// Returns the width of each column; `None` for a dropped one.
    fn widths(&self, room: Option<usize>) -> Vec<Option<usize>> {
        let mut natural: Vec<usize> = self.columns.iter().map(|column| width(column.title)).collect();
        for row in &self.rows {
            for (widest, cell) in natural.iter_mut().zip(row) {
                *widest = width(&cell.text).max(*widest);
            }
        }
        let Some(room) = room else { return natural.into_iter().map(Some).collect() };
        let mut widths: Vec<Option<usize>> = self
            .columns
            .iter()
            .zip(&natural)
            .map(|(column, natural)| Some(column.shrink.least(*natural)))
            .collect();
        while total(&widths) > room
            && let Some(expendable) = self.most_expendable(&widths)
        {
            widths[expendable] = None;
        }
        // Short texts are easier to read than wrapped lines.
        while total(&widths) > room
            && let Some(allotted) = self.widest_cut(&mut widths)
        {
            *allotted -= 1;
        }
        // The remaining columns of the terminal go to the cut columns, from left to right.
        let mut left = room.saturating_sub(total(&widths));
        for (allotted, natural) in widths.iter_mut().zip(&natural) {
            if let Some(allotted) = allotted {
                let more = natural.saturating_sub(*allotted).min(left);
                *allotted += more;
                left -= more;
            }
        }
        widths
    }

    fn most_expendable(&self, widths: &[Option<usize>]) -> Option<usize> {
        let ranks = self.columns.iter().enumerate().filter_map(|(index, column)| match column.shrink {
            ShrinkRule::Droppable(rank) if widths[index].is_some() => Some((rank, index)),
            ShrinkRule::Droppable(_) | ShrinkRule::Whole | ShrinkRule::Cut(_) | ShrinkRule::CutStart(_) => {
                None
            }
        });
        ranks.max().map(|(_, index)| index)
    }

    /// Returns the width of the widest column that can be cut further.
    fn widest_cut<'a>(&self, widths: &'a mut [Option<usize>]) -> Option<&'a mut usize> {
        let columns = self.columns.iter().zip(widths).filter(|(column, _)| match column.shrink {
            ShrinkRule::Cut(_) | ShrinkRule::CutStart(_) => true,
            ShrinkRule::Whole | ShrinkRule::Droppable(_) => false,
        });
        columns.filter_map(|(_, allotted)| allotted.as_mut()).filter(|allotted| **allotted > CUT_MIN).max()
    }

    fn line(&self, row: &[Cell], widths: &[Option<usize>], style: &TextStyle) -> String {
        let mut line = String::new();
        for ((cell, column), room) in row.iter().zip(&self.columns).zip(widths) {
            let Some(room) = *room else { continue };
            let text = match column.shrink {
                ShrinkRule::CutStart(_) => fit_end(&cell.text, room),
                ShrinkRule::Whole | ShrinkRule::Cut(_) | ShrinkRule::Droppable(_) => fit(&cell.text, room),
            };
            let padding = " ".repeat(room.saturating_sub(width(&text)));
            let colored = style.color.apply(cell.tone, &text);
            match column.align {
                Align::Left => line.push_str(&format!("{colored}{padding}")),
                Align::Right => line.push_str(&format!("{padding}{colored}")),
            }
            line.push_str(&" ".repeat(GAP));
        }
        format!("{}\n", line.trim_end())
    }
}

/// Returns the total width of the columns, including the gaps.
fn total(widths: &[Option<usize>]) -> usize {
    let shown = widths.iter().flatten();
    shown.clone().sum::<usize>() + GAP * shown.count().saturating_sub(1)
}
