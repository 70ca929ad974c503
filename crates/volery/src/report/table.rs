//! A small table that fits its terminal: columns as wide as their content, cut or left out by priority where that is too wide.

use super::look::{Look, Tone};
use super::text::{fit, fit_end, one_line, width};

/// Spaces between columns.
const GAP: usize = 2;
/// The flexible column is not cut below this before others are left out.
const FLEXIBLE_MIN: usize = 12;
/// No text is cut below this.
const CUT_MIN: usize = 4;

/// On which side a column is flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// What happens to a column where the terminal is too narrow for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Narrow {
    /// It stays as it is.
    Whole,
    /// Its texts lose their ends, down to this width.
    Cut(usize),
    /// Its texts lose their beginnings, down to this width: the end of a path says most.
    CutStart(usize),
    /// It is left out; those with the highest number first.
    LeftOut(u8),
}

impl Narrow {
    fn least(self, natural: usize) -> usize {
        match self {
            Self::Cut(least) | Self::CutStart(least) => natural.min(least),
            Self::Whole | Self::LeftOut(_) => natural,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    align: Align,
    narrow: Narrow,
}

impl Column {
    pub(crate) const fn left(title: &'static str) -> Self {
        Self { title, align: Align::Left, narrow: Narrow::Whole }
    }

    pub(crate) const fn right(title: &'static str) -> Self {
        Self { title, align: Align::Right, narrow: Narrow::Whole }
    }

    /// A column whose texts are cut first.
    pub(crate) const fn flexible(title: &'static str) -> Self {
        Self::left(title).cut(FLEXIBLE_MIN)
    }

    /// The texts may be cut to this width, before any column is left out.
    pub(crate) const fn cut(self, least: usize) -> Self {
        Self { narrow: Narrow::Cut(least), ..self }
    }

    /// The same from their beginnings, for paths.
    pub(crate) const fn cut_start(self, least: usize) -> Self {
        Self { narrow: Narrow::CutStart(least), ..self }
    }

    /// The column may be left out; of several the one with the highest rank goes first.
    pub(crate) const fn left_out(self, rank: u8) -> Self {
        Self { narrow: Narrow::LeftOut(rank), ..self }
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
        let widths = self.widths(look.width);
        let title = |column: &Column| Cell::toned(column.title, Tone::Faint);
        let head: Vec<Cell> = self.columns.iter().map(title).collect();
        std::iter::once(&head).chain(&self.rows).map(|row| self.line(row, &widths, look)).collect()
    }

    /// Returns the width of each column; nothing for one that is left out.
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
            .map(|(column, natural)| Some(column.narrow.least(*natural)))
            .collect();
        while total(&widths) > room
            && let Some(expendable) = self.most_expendable(&widths)
        {
            widths[expendable] = None;
        }
        // Rather short texts than lines that wrap.
        while total(&widths) > room
            && let Some(given) = self.widest_cut(&mut widths)
        {
            *given -= 1;
        }
        // What is left goes to the columns that were cut, the first of them first.
        let mut left = room.saturating_sub(total(&widths));
        for (given, natural) in widths.iter_mut().zip(&natural) {
            if let Some(given) = given {
                let more = natural.saturating_sub(*given).min(left);
                *given += more;
                left -= more;
            }
        }
        widths
    }

    fn most_expendable(&self, widths: &[Option<usize>]) -> Option<usize> {
        let ranks = self.columns.iter().enumerate().filter_map(|(place, column)| match column.narrow {
            Narrow::LeftOut(rank) if widths[place].is_some() => Some((rank, place)),
            Narrow::LeftOut(_) | Narrow::Whole | Narrow::Cut(_) | Narrow::CutStart(_) => None,
        });
        ranks.max().map(|(_, place)| place)
    }

    /// Returns the width of the widest column that may be cut still further.
    fn widest_cut<'a>(&self, widths: &'a mut [Option<usize>]) -> Option<&'a mut usize> {
        let columns = self.columns.iter().zip(widths).filter(|(column, _)| match column.narrow {
            Narrow::Cut(_) | Narrow::CutStart(_) => true,
            Narrow::Whole | Narrow::LeftOut(_) => false,
        });
        columns.filter_map(|(_, given)| given.as_mut()).filter(|given| **given > CUT_MIN).max()
    }

    fn line(&self, row: &[Cell], widths: &[Option<usize>], look: &Look) -> String {
        let mut line = String::new();
        for ((cell, column), room) in row.iter().zip(&self.columns).zip(widths) {
            let Some(room) = *room else { continue };
            let text = match column.narrow {
                Narrow::CutStart(_) => fit_end(&cell.text, room),
                Narrow::Whole | Narrow::Cut(_) | Narrow::LeftOut(_) => fit(&cell.text, room),
            };
            let padding = " ".repeat(room.saturating_sub(width(&text)));
            let painted = look.paint.apply(cell.tone, &text);
            match column.align {
                Align::Left => line.push_str(&format!("{painted}{padding}")),
                Align::Right => line.push_str(&format!("{padding}{painted}")),
            }
            line.push_str(&" ".repeat(GAP));
        }
        format!("{}\n", line.trim_end())
    }
}

/// Returns how wide columns are with the gaps between them.
fn total(widths: &[Option<usize>]) -> usize {
    let shown = widths.iter().flatten();
    shown.clone().sum::<usize>() + GAP * shown.count().saturating_sub(1)
}
