//! What a tool returns to the model: a text, or an error that says what to do instead.

use std::io;
use std::path::{Path, PathBuf};

use domain::size::display_bytes;

/// The answer to one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolOutput {
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

impl ToolOutput {
    pub(super) fn success(text: String) -> Self {
        Self { text, is_error: false }
    }
}

impl From<ToolError> for ToolOutput {
    fn from(error: ToolError) -> Self {
        Self { text: crate::error_chain::explain(&error), is_error: true }
    }
}

/// Why an operation was not carried out. The files are as they were.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    #[error("the path is empty")]
    EmptyPath,
    #[error("the path contains a NUL character")]
    NulInPath,
    #[error("the path has {0} bytes, which is longer than the system allows")]
    PathTooLong(usize),
    #[error("{path} is outside the directories of this run: {}", list_paths(roots))]
    Outside { path: String, roots: Vec<PathBuf> },
    #[error("{path} belongs to Volery itself, and no tool can reach it")]
    Protected { path: String },
    #[error(
        "{path} is in git's own directory, in which no tool writes; use git commands if they are allowed"
    )]
    InGitDirectory { path: String },
    #[error(
        "{link} is a symbolic link to {target}, and file tools do not follow links; use the path of the target itself"
    )]
    SymbolicLink { link: String, target: String },
    #[error("{path} is {kind}, not a regular file")]
    NotRegular { path: String, kind: &'static str },
    #[error("{path} is {kind}, not a directory")]
    NotDirectory { path: String, kind: &'static str },
    #[error("{path} has {links} names (hard links), of which some may be outside of the allowed directories")]
    HardLinks { path: String, links: u64 },
    #[error("{path} is a file of the kernel ({file_system}), not of the project")]
    KernelFile { path: String, file_system: &'static str },
    #[error("{path} may not be read")]
    Hidden { path: String },
    #[error("{path} does not exist")]
    NotFound { path: String },
    #[error("{path} is read-only")]
    ReadOnly { path: String },
    #[error("{path} was replaced while it was opened; try again")]
    Replaced { path: String },
    #[error("{path} is a binary file")]
    Binary { path: String },
    #[error("{path} is not UTF-8 text: byte {offset} is invalid")]
    NotText { path: String, offset: u64 },
    #[error("{path}: {} is more than the {} that this tool handles", display_bytes(*bytes), display_bytes(*bytes_max))]
    TooLarge { path: String, bytes: u64, bytes_max: u64 },
    #[error("{path} has {lines} lines, so there is no line {line}")]
    NoSuchLine { path: String, lines: u64, line: u64 },
    #[error("the text to replace is empty")]
    EmptyOldText,
    #[error("the text to replace and the new text are the same")]
    SameText,
    #[error(
        "the text to replace does not occur in {path}; read the file again and copy the text exactly, with its indentation"
    )]
    NoMatch { path: String },
    #[error(
        "the text to replace occurs {count} times in {path} (lines {lines}); add surrounding lines until it is unique, or replace all"
    )]
    SeveralMatches { path: String, count: usize, lines: String },
    #[error("{path} was changed by somebody else; read it again")]
    Changed { path: String },
    #[error("the pattern is not valid: {reason}")]
    Pattern { reason: String },
    #[error("the search was cancelled")]
    Cancelled,
    #[error("could not {attempt} {path}")]
    Io {
        attempt: &'static str,
        path: String,
        #[source]
        source: io::Error,
    },
}

fn list_paths(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Returns a path or a name as a message shows it: on one line, without invisible characters, and not too long.
pub(super) fn shown(path: &Path) -> String {
    const BYTES_MAX: usize = 300;
    let text = domain::invisible_text::escape_invisible(&path.to_string_lossy()).into_owned();
    match text.len() {
        0 => ".".to_owned(),
        1..=BYTES_MAX => text,
        _ => format!("{}…", domain::size::head(&text, BYTES_MAX)),
    }
}
