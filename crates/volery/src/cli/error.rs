//! Why a command failed.

use std::io;

use engine::EngineError;

/// What ends a command early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error(transparent)]
    App(#[from] EngineError),
    /// The reader of the command's output closed it, for example `head`: this counts as success.
    #[error("the reader of the output has gone")]
    ReaderGone,
}

impl CommandError {
    /// Wraps a failed write to standard output.
    pub(crate) fn output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderGone,
            _ => Self::App(EngineError::internal(format!("could not write to standard output: {error}"))),
        }
    }
}
