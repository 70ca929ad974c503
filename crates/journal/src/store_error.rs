//! Errors of reading and writing the files of a run.

use std::io;
use std::path::{Path, PathBuf};

use domain::id::RunId;

use crate::home::Unwritable;

/// A failure with the files of a run. The messages fit after "could not".
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{attempt} {}", path.display())]
    Io { attempt: &'static str, path: PathBuf, source: io::Error },
    #[error("find the run {run}: there is no such directory in the journal")]
    NoSuchRun { run: RunId },
    #[error("read {}: it is not a run's directory", path.display())]
    NotARun { path: PathBuf },
    #[error(
        "read {}: it was written by a newer volery (format {found}, this one knows up to {known}); use that version",
        path.display()
    )]
    TooNew { path: PathBuf, found: u64, known: u32 },
    #[error("understand {}", path.display())]
    Malformed { path: PathBuf, source: serde_json::Error },
    #[error("use {}: it is not what the log says it is", path.display())]
    Damaged { path: PathBuf },
    #[error("read {}: it has more than {max} bytes", path.display())]
    FileTooLarge { path: PathBuf, max: u64 },
    #[error("record {bytes} bytes at once: the limit is {max}")]
    TooLarge { bytes: usize, max: usize },
    #[error("record a value nested more than {max} levels deep")]
    TooDeep { max: usize },
    #[error("write {} after an earlier failure: {first}", path.display())]
    Poisoned { path: PathBuf, first: String },
    #[error("add to {}: the run has ended", path.display())]
    Ended { path: PathBuf },
}

impl StoreError {
    /// Returns whether a smaller record might succeed.
    pub(crate) fn is_size_limit(&self) -> bool {
        matches!(self, Self::TooLarge { .. }) || self.is_full()
    }

    /// Returns whether the disk or the quota is full, which is no reason to distrust the disk.
    pub fn is_full(&self) -> bool {
        matches!(self.unwritable(), Some(Unwritable::Full | Unwritable::Quota))
    }

    /// Returns why the files cannot be written, if that is the reason.
    pub fn unwritable(&self) -> Option<Unwritable> {
        match self {
            Self::Io { source, .. } => Unwritable::from_kind(source.kind()),
            _ => None,
        }
    }
}

/// Returns a conversion of an I/O error that adds the attempted action and the path.
pub(crate) fn failed(attempt: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |source| StoreError::Io { attempt, path: path.to_owned(), source }
}
