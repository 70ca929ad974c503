//! Why a command did not do what was typed.

use std::io;

use crate::app::AppError;

/// What ends a command early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error(transparent)]
    App(#[from] AppError),
    /// Whoever read our output has gone: they have seen enough, so this is success.
    #[error("the reader of the output has gone")]
    ReaderGone,
}

impl CommandError {
    /// Wraps a failed write to standard output.
    pub(crate) fn output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderGone,
            _ => Self::App(AppError::internal(format!("could not write to standard output: {error}"))),
        }
    }
}
