//! The only module that prints. Standard output carries data, standard error everything else.

use std::io::{self, IsTerminal, Write};

use domain::Timestamp;
use serde::Serialize;

use super::error::CommandError;
use crate::report::{
    ColorMode, INDENT, TextStyle, Tone, fit, one_line, sanitize_for_terminal, width, with_tilde, wrap_hanging,
};
use engine::EngineError;

/// Columns assumed for a terminal that does not report its width.
const DEFAULT_WIDTH: usize = 80;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    Text,
    /// One JSON document, also for errors.
    Json,
}

/// The properties of an output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamProperties {
    pub(crate) terminal: bool,
    /// The cursor can be moved and lines can be erased.
    pub(crate) redrawable: bool,
    pub(crate) color: ColorMode,
    pub(crate) width: Option<usize>,
}

impl StreamProperties {
    /// A file or a pipe.
    pub(crate) const PIPE: Self =
        Self { terminal: false, redrawable: false, color: ColorMode::Plain, width: None };

    fn detect(stream: &(impl IsTerminal + std::os::fd::AsFd), no_color: bool, dumb: bool) -> Self {
        if !stream.is_terminal() {
            return Self::PIPE;
        }
        let columns = rustix::termios::tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
        Self {
            terminal: true,
            redrawable: !dumb,
            color: if no_color || dumb { ColorMode::Plain } else { ColorMode::Ansi },
            // A terminal that does not know its width reports 0.
            width: Some(if columns > 0 { columns } else { DEFAULT_WIDTH }),
        }
    }
}

/// Returns whether standard output and standard error are the same file or pipe, as with `2>&1`.
fn streams_share_target() -> bool {
    let (Ok(data), Ok(notes)) = (rustix::fs::fstat(io::stdout()), rustix::fs::fstat(io::stderr())) else {
        return false;
    };
    (data.st_dev, data.st_ino) == (notes.st_dev, notes.st_ino)
}

/// The two streams of the program.
pub(crate) struct Out {
    data: Box<dyn Write>,
    notes: Box<dyn Write>,
    data_stream: StreamProperties,
    notes_stream: StreamProperties,
    format: OutputFormat,
    now: fn() -> Timestamp,
    home: Option<&'static str>,
    /// Data and notes go to the same file or pipe.
    shared_target: bool,
}

impl Out {
    /// Returns the streams of this process.
    pub(crate) fn for_process(format: OutputFormat) -> Self {
        let no_color = engine::env::get(engine::env::NO_COLOR).is_some();
        let dumb = engine::env::get(engine::env::TERM).is_none_or(|term| term == "dumb");
        Self {
            data: Box::new(io::stdout()),
            notes: Box::new(io::stderr()),
            data_stream: StreamProperties::detect(&io::stdout(), no_color, dumb),
            notes_stream: StreamProperties::detect(&io::stderr(), no_color, dumb),
            format,
            now: engine::clock::now,
            home: engine::env::home_text(),
            shared_target: streams_share_target(),
        }
    }

    pub(crate) fn format(&self) -> OutputFormat {
        self.format
    }

    /// Returns the style of standard output.
    pub(crate) fn style(&self) -> TextStyle {
        self.style_for(self.data_stream)
    }

    /// Returns the style of standard error.
    pub(crate) fn notes_style(&self) -> TextStyle {
        self.style_for(self.notes_stream)
    }

    fn style_for(&self, stream: StreamProperties) -> TextStyle {
        TextStyle { width: stream.width, color: stream.color, now: (self.now)(), home: self.home }
    }

    pub(crate) fn notes_stream(&self) -> StreamProperties {
        self.notes_stream
    }

    /// Writes rendered text to standard output.
    pub(crate) fn page(&mut self, text: &str) -> Result<(), CommandError> {
        self.data.write_all(text.as_bytes()).map_err(|error| CommandError::output(&error))
    }

    /// Writes a line of data.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), CommandError> {
        self.page(&format!("{}\n", one_line(text)))
    }

    /// Writes text of an agent: unchanged into a pipe, sanitized on a terminal.
    pub(crate) fn agent_text(&mut self, text: &str) -> Result<(), CommandError> {
        match self.data_stream.terminal {
            true => self.page(&sanitize_for_terminal(text)),
            false => self.page(text),
        }
    }

    /// Ends agents' text with a line break if a note or the shell's prompt would follow on the same line. If both streams
    /// share a file or pipe, the line break is written as a note, so that the data stay unchanged.
    pub(crate) fn end_agent_text(&mut self, last: Option<char>) -> Result<(), CommandError> {
        if last.is_none_or(|last| last == '\n') {
            return Ok(());
        }
        if self.data_stream.terminal {
            return self.page("\n");
        }
        if self.shared_target {
            self.flush()?;
            self.notes_page("\n");
        }
        Ok(())
    }

    /// Writes the one JSON document of a command.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), CommandError> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| EngineError::internal(format!("could not write the answer as JSON: {error}")))?;
        self.page(&text)?;
        self.page("\n")
    }

    /// Flushes standard output.
    pub(crate) fn flush(&mut self) -> Result<(), CommandError> {
        self.data.flush().map_err(|error| CommandError::output(&error))
    }

    /// Writes a note to standard error.
    pub(crate) fn note(&mut self, text: &str) {
        let text = self.wrap_line(0, &one_line(text));
        self.notes_page(&format!("{text}\n"));
    }

    /// Writes a step of an agent to standard error, on one line.
    pub(crate) fn step(&mut self, text: &str) {
        self.write_step(Tone::Faint, text);
    }

    /// Writes a step that failed.
    pub(crate) fn failed_step(&mut self, text: &str) {
        self.write_step(Tone::Bad, text);
    }

    fn write_step(&mut self, tone: Tone, text: &str) {
        let line = one_line(text);
        let line = self.notes_stream.width.map_or_else(|| line.clone(), |columns| fit(&line, columns));
        self.notes_page(&format!("{}\n", self.notes_stream.color.apply(tone, &line)));
    }

    pub(crate) fn warning(&mut self, text: &str) {
        self.write_labelled("warning", Tone::Careful, text);
    }

    /// Suggests the next step. Only for people: never printed with JSON.
    pub(crate) fn hint(&mut self, text: &str) {
        if self.format == OutputFormat::Text {
            self.write_labelled("hint", Tone::Busy, &one_line(text));
        }
    }

    /// Writes rendered text to standard error.
    pub(crate) fn notes_page(&mut self, text: &str) {
        // If standard error is closed, there is nowhere to report it, and the data matters more.
        let _ = self.notes.write_all(text.as_bytes()).and_then(|()| self.notes.flush());
    }

    /// Reports an error: as JSON on standard output, or as text on standard error.
    pub(crate) fn error(&mut self, error: &EngineError) {
        match self.format {
            OutputFormat::Json => {
                // If standard output is closed, the exit code still reports the error.
                let _ = self.json(&serde_json::json!({ "error": error })).and_then(|()| self.flush());
            }
            OutputFormat::Text => {
                self.write_labelled("error", Tone::Bad, &error.message);
                for hint in error.hint.iter().flat_map(|hint| hint.lines()) {
                    self.hint(hint);
                }
            }
        }
    }
}

impl Out {
    /// Writes a text after a label; its further lines are indented.
    fn write_labelled(&mut self, label: &str, tone: Tone, text: &str) {
        let mut columns = width(label) + ": ".len();
        let label = self.notes_stream.color.apply(tone, label);
        let safe = sanitize_for_terminal(text);
        let mut lines: Vec<String> = Vec::new();
        for line in safe.lines() {
            lines.push(self.wrap_line(columns, line));
            columns = INDENT.len();
        }
        self.notes_page(&format!("{label}: {}\n", lines.join(&format!("\n{INDENT}"))));
    }

    /// Formats one line of a note: with `~` for the home, and wrapped to the terminal. The first line starts at column
    /// `columns`. A line with its own indentation stays unchanged.
    fn wrap_line(&self, columns: usize, line: &str) -> String {
        let line = with_tilde(line, self.home);
        if line.starts_with(' ') { line } else { wrap_hanging(columns, &line, self.notes_stream.width) }
    }
}

#[cfg(test)]
mod captured {
    //! Streams that tests read back.

    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::{Out, OutputFormat, StreamProperties};

    /// What was written to both streams.
    #[derive(Clone, Default)]
    pub(crate) struct CapturedOutput {
        data: SharedBuffer,
        notes: SharedBuffer,
    }

    #[derive(Clone, Default)]
    struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for SharedBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no test panics while writing").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl SharedBuffer {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("no test panics while writing").clone())
                .expect("only text is written")
        }
    }

    impl CapturedOutput {
        pub(crate) fn data(&self) -> String {
            self.data.text()
        }

        pub(crate) fn notes(&self) -> String {
            self.notes.text()
        }
    }

    impl Out {
        pub(crate) fn captured(format: OutputFormat, stream: StreamProperties) -> (Self, CapturedOutput) {
            let captured = CapturedOutput::default();
            let out = Self {
                data: Box::new(captured.data.clone()),
                notes: Box::new(captured.notes.clone()),
                data_stream: stream,
                notes_stream: stream,
                format,
                now: || "2026-11-15T12:00:00Z".parse().expect("a valid moment"),
                home: None,
                shared_target: false,
            };
            (out, captured)
        }

        pub(crate) fn into_closed_pipe(format: OutputFormat) -> Self {
            struct Closed;
            impl Write for Closed {
                fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
                    Err(io::ErrorKind::BrokenPipe.into())
                }
                fn flush(&mut self) -> io::Result<()> {
                    Err(io::ErrorKind::BrokenPipe.into())
                }
            }
            let (mut out, _captured) = Self::captured(format, StreamProperties::PIPE);
            out.data = Box::new(Closed);
            out
        }
    }
}
