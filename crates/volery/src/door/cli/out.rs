//! The only place that prints. Standard output carries data, standard error everything else.

use std::io::{self, IsTerminal, Write};

use domain::Timestamp;
use serde::Serialize;

use super::error::CommandError;
use crate::app::AppError;
use crate::report::{Look, Paint, Tone, neutralise, one_line, width, with_tilde, wrap_after};

/// Columns of a terminal that does not know its own.
const WIDTH_UNKNOWN: usize = 80;
/// Before every further line of a note.
const INDENT: &str = "  ";
/// On a very narrow terminal notes are still this wide.
const COLUMNS_MIN: usize = 30;

/// How answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    /// One JSON document, errors too.
    Json,
}

/// What is known about a stream that we write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Medium {
    pub(crate) terminal: bool,
    /// The cursor can be moved and lines can be erased.
    pub(crate) redrawable: bool,
    pub(crate) paint: Paint,
    pub(crate) width: Option<usize>,
}

impl Medium {
    /// A file or a pipe.
    pub(crate) const PIPE: Self =
        Self { terminal: false, redrawable: false, paint: Paint::Plain, width: None };

    fn of(stream: &(impl IsTerminal + std::os::fd::AsFd), no_color: bool, dumb: bool) -> Self {
        if !stream.is_terminal() {
            return Self::PIPE;
        }
        let columns = rustix::termios::tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
        Self {
            terminal: true,
            redrawable: !dumb,
            paint: if no_color || dumb { Paint::Plain } else { Paint::Ansi },
            // A terminal that does not know its width says 0.
            width: Some(if columns > 0 { columns } else { WIDTH_UNKNOWN }),
        }
    }
}

/// Tells whether standard output and standard error are the same file or pipe, as with `2>&1`.
fn is_one_place() -> bool {
    let (Ok(data), Ok(notes)) = (rustix::fs::fstat(io::stdout()), rustix::fs::fstat(io::stderr())) else {
        return false;
    };
    (data.st_dev, data.st_ino) == (notes.st_dev, notes.st_ino)
}

/// The two streams of the program.
pub(crate) struct Out {
    data: Box<dyn Write>,
    notes: Box<dyn Write>,
    data_medium: Medium,
    notes_medium: Medium,
    format: Format,
    now: fn() -> Timestamp,
    home: Option<&'static str>,
    /// Data and notes go to the same file or pipe.
    one_place: bool,
}

impl Out {
    /// Returns the streams of this process.
    pub(crate) fn for_process(format: Format) -> Self {
        let no_color = crate::env::get(crate::env::NO_COLOR).is_some();
        let dumb = crate::env::get(crate::env::TERM).is_none_or(|term| term == "dumb");
        Self {
            data: Box::new(io::stdout()),
            notes: Box::new(io::stderr()),
            data_medium: Medium::of(&io::stdout(), no_color, dumb),
            notes_medium: Medium::of(&io::stderr(), no_color, dumb),
            format,
            now: crate::clock::now,
            home: crate::env::home_text(),
            one_place: is_one_place(),
        }
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Returns how data should look.
    pub(crate) fn look(&self) -> Look {
        self.look_on(self.data_medium)
    }

    /// Returns how notes should look.
    pub(crate) fn notes_look(&self) -> Look {
        self.look_on(self.notes_medium)
    }

    fn look_on(&self, medium: Medium) -> Look {
        Look { width: medium.width, paint: medium.paint, now: (self.now)(), home: self.home }
    }

    pub(crate) fn notes_medium(&self) -> Medium {
        self.notes_medium
    }

    /// Writes text that a renderer made.
    pub(crate) fn page(&mut self, text: &str) -> Result<(), CommandError> {
        self.data.write_all(text.as_bytes()).map_err(|error| CommandError::output(&error))
    }

    /// Writes a line of data.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), CommandError> {
        self.page(&format!("{}\n", one_line(text)))
    }

    /// Writes text of an agent: as it is into a pipe, made harmless on a terminal.
    pub(crate) fn agent_text(&mut self, text: &str) -> Result<(), CommandError> {
        match self.data_medium.terminal {
            true => self.page(&neutralise(text)),
            false => self.page(text),
        }
    }

    /// Ends agents' text with a line break where a note or the shell's prompt would follow it on the same line. In a file
    /// or pipe that both streams go to, the line break belongs to the notes: the data stay as they are.
    pub(crate) fn end_agent_text(&mut self, last: Option<char>) -> Result<(), CommandError> {
        if last.is_none_or(|last| last == '\n') {
            return Ok(());
        }
        if self.data_medium.terminal {
            return self.page("\n");
        }
        if self.one_place {
            self.flush()?;
            self.notes_page("\n");
        }
        Ok(())
    }

    /// Writes the one JSON document of a command.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), CommandError> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| AppError::internal(format!("could not write the answer as JSON: {error}")))?;
        self.page(&text)?;
        self.page("\n")
    }

    /// Writes what was produced so far to where it goes.
    pub(crate) fn flush(&mut self) -> Result<(), CommandError> {
        self.data.flush().map_err(|error| CommandError::output(&error))
    }

    /// Tells something on standard error.
    pub(crate) fn note(&mut self, text: &str) {
        let text = self.wrapped(0, &one_line(text));
        self.notes_page(&format!("{text}\n"));
    }

    pub(crate) fn warning(&mut self, text: &str) {
        self.labelled("warning", Tone::Careful, text);
    }

    /// Tells what could be done next. For people: never with JSON.
    pub(crate) fn hint(&mut self, text: &str) {
        if self.format == Format::Text {
            self.labelled("hint", Tone::Busy, &one_line(text));
        }
    }

    /// Writes text that a renderer made to standard error.
    pub(crate) fn notes_page(&mut self, text: &str) {
        // Nobody can be told that standard error is closed, and the data matters more.
        let _ = self.notes.write_all(text.as_bytes()).and_then(|()| self.notes.flush());
    }

    /// Reports an error: as JSON on standard output, or in words on standard error.
    pub(crate) fn error(&mut self, error: &AppError) {
        match self.format {
            Format::Json => {
                // The exit code still tells when standard output is closed.
                let _ = self.json(&serde_json::json!({ "error": error })).and_then(|()| self.flush());
            }
            Format::Text => {
                self.labelled("error", Tone::Bad, &error.message);
                for hint in error.hint.iter().flat_map(|hint| hint.lines()) {
                    self.hint(hint);
                }
            }
        }
    }
}

impl Out {
    /// Writes a text of one or more lines after a word; the further lines are indented.
    fn labelled(&mut self, word: &str, tone: Tone, text: &str) {
        let mut columns = width(word) + ": ".len();
        let word = self.notes_medium.paint.apply(tone, word);
        let safe = neutralise(text);
        let mut lines: Vec<String> = Vec::new();
        for line in safe.lines() {
            lines.push(self.wrapped(columns, line));
            columns = INDENT.len();
        }
        self.notes_page(&format!("{word}: {}\n", lines.join(&format!("\n{INDENT}"))));
    }

    /// Returns one line of a note as people read it: with `~` for their home, and in as many lines as the terminal needs.
    /// The first begins after so many columns. A line that has its own blanks is left as it is.
    fn wrapped(&self, columns: usize, line: &str) -> String {
        let line = with_tilde(line, self.home);
        match self.notes_medium.width {
            Some(max) if columns + width(&line) > max && !line.starts_with(' ') => {
                let max = max.saturating_sub(INDENT.len()).max(COLUMNS_MIN);
                wrap_after(columns.saturating_sub(INDENT.len()), &line, max).join(&format!("\n{INDENT}"))
            }
            Some(_) | None => line,
        }
    }
}

#[cfg(test)]
mod captured {
    //! Streams that tests read back.

    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::{Format, Medium, Out};

    /// What was written to both streams.
    #[derive(Clone, Default)]
    pub(crate) struct Captured {
        data: Shared,
        notes: Shared,
    }

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no test panics while writing").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Shared {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("no test panics while writing").clone())
                .expect("only text is written")
        }
    }

    impl Captured {
        pub(crate) fn data(&self) -> String {
            self.data.text()
        }

        pub(crate) fn notes(&self) -> String {
            self.notes.text()
        }
    }

    impl Out {
        pub(crate) fn captured(format: Format, medium: Medium) -> (Self, Captured) {
            let captured = Captured::default();
            let out = Self {
                data: Box::new(captured.data.clone()),
                notes: Box::new(captured.notes.clone()),
                data_medium: medium,
                notes_medium: medium,
                format,
                now: || "2026-11-15T12:00:00Z".parse().expect("a valid moment"),
                home: None,
                one_place: false,
            };
            (out, captured)
        }

        pub(crate) fn into_closed_pipe(format: Format) -> Self {
            struct Closed;
            impl Write for Closed {
                fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
                    Err(io::ErrorKind::BrokenPipe.into())
                }
                fn flush(&mut self) -> io::Result<()> {
                    Err(io::ErrorKind::BrokenPipe.into())
                }
            }
            let (mut out, _captured) = Self::captured(format, Medium::PIPE);
            out.data = Box::new(Closed);
            out
        }
    }
}
