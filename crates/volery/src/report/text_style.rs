//! What renderers know about their output: its width, whether it may be coloured, and the current time.

use domain::Timestamp;

use super::text::{relative_to, with_tilde};

/// The properties of the output that a text is rendered for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextStyle {
    /// Columns of the terminal; `None` for a pipe or file, where nothing is cut.
    pub(crate) width: Option<usize>,
    pub(crate) color: ColorMode,
    pub(crate) now: Timestamp,
    /// The user's home, shown as `~`.
    pub(crate) home: Option<&'static str>,
}

impl TextStyle {
    /// Shortens a path: relative to the project if it is inside, with `~` if it is inside the home.
    pub(crate) fn short_path(&self, path: &str, project: Option<&str>) -> String {
        let inside = |folder: &str| path.strip_prefix(folder)?.strip_prefix('/');
        if let Some(rest) = project.and_then(inside) {
            return rest.to_owned();
        }
        match self.home {
            Some(home) if path == home => "~".to_owned(),
            Some(home) => inside(home).map_or_else(|| path.to_owned(), |rest| format!("~/{rest}")),
            None => path.to_owned(),
        }
    }

    /// Shortens the paths of a sentence like [`TextStyle::short_path`].
    pub(crate) fn short_paths(&self, sentence: &str, project: &str) -> String {
        with_tilde(&relative_to(sentence, project), self.home)
    }
}

/// Whether colours are used. A colour only repeats information that the text has too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColorMode {
    Plain,
    Ansi,
}

/// The meaning of a colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Strong,
    Faint,
    Good,
    Bad,
    Careful,
    Busy,
}

impl Tone {
    pub(crate) fn for_status(status: &str) -> Self {
        match status {
            "succeeded" => Self::Good,
            "failed" | "timed_out" | "over_budget" | "refused" | "interrupted" => Self::Bad,
            "partial" | "waiting" | "stopping" | "cancelled" => Self::Careful,
            "running" | "accepted" => Self::Busy,
            _ => Self::Plain,
        }
    }

    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Strong => Some("1"),
            Self::Faint => Some("2"),
            Self::Good => Some("32"),
            Self::Bad => Some("31"),
            Self::Careful => Some("33"),
            Self::Busy => Some("36"),
        }
    }
}

impl ColorMode {
    /// Returns the text in a tone.
    pub(crate) fn apply(self, tone: Tone, text: &str) -> String {
        match (self, tone.code()) {
            (Self::Ansi, Some(code)) if !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            (Self::Ansi | Self::Plain, _) => text.to_owned(),
        }
    }
}
