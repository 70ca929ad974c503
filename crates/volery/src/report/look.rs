//! How a text may look: its width, whether it may be coloured, and what time it is.

use domain::Timestamp;

/// What a renderer must know about the place its text goes to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// Columns of the terminal; `None` where nothing is cut, as in a pipe.
    pub(crate) width: Option<usize>,
    pub(crate) paint: Paint,
    pub(crate) now: Timestamp,
    /// The user's home, which is written as `~`.
    pub(crate) home: Option<&'static str>,
}

impl Look {
    /// Returns a path as people write it: from the project if it lies there, from `~` if it lies at home.
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
}

/// Whether colours are used. They only repeat what the words say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Ansi,
}

/// What a colour stands for.
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
    /// Returns the tone of a run's status.
    pub(crate) fn of_status(status: &str) -> Self {
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

impl Paint {
    /// Returns the text in a tone.
    pub(crate) fn apply(self, tone: Tone, text: &str) -> String {
        match (self, tone.code()) {
            (Self::Ansi, Some(code)) if !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            (Self::Ansi | Self::Plain, _) => text.to_owned(),
        }
    }
}
