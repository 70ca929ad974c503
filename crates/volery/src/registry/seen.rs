//! What a reader of definitions looked at on disk, so that its result can be used again while nothing of it changed.

use std::cell::RefCell;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file systems' clocks are coarse: a file that changed so recently may change again without a trace.
const SETTLED_AFTER_MS: i64 = 2_000;

thread_local! {
    /// What the reader on this thread has looked at; nothing while no reader is watched.
    static LOOKS: RefCell<Option<Vec<Seen>>> = const { RefCell::new(None) };
}

/// One look at the disk, and what was there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Seen {
    /// A file, a folder or nothing, as its inode describes it.
    Entry { path: PathBuf, stamp: Option<Stamp> },
    /// Where a path leads.
    Way { path: PathBuf, leads_to: Option<PathBuf> },
}

/// What changes with every change of a file, and with every name that is added to or removed from a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|found| Self::from(&found))
    }
}

impl From<&Metadata> for Stamp {
    fn from(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }
}

impl Seen {
    pub(super) fn is_unchanged(&self) -> bool {
        match self {
            Self::Entry { path, stamp } => Stamp::of(path) == *stamp,
            Self::Way { path, leads_to } => path.canonicalize().ok() == *leads_to,
        }
    }

    /// Tells whether any later change would show.
    pub(super) fn is_settled(&self, now_ms: i64) -> bool {
        match self {
            Self::Entry { stamp: Some(stamp), .. } => {
                let (seconds, nanoseconds) = stamp.changed;
                seconds * 1_000 + nanoseconds / 1_000_000 + SETTLED_AFTER_MS <= now_ms
            }
            Self::Entry { stamp: None, .. } | Self::Way { .. } => true,
        }
    }
}

/// Notes that a file or a folder is about to be read, or is not there.
pub(super) fn note(path: &Path) {
    note_with(|| Seen::Entry { path: path.to_owned(), stamp: Stamp::of(path) });
}

/// Notes that the links of a path are about to be followed.
pub(super) fn note_way(path: &Path) {
    note_with(|| Seen::Way { path: path.to_owned(), leads_to: path.canonicalize().ok() });
}

fn note_with(look: impl FnOnce() -> Seen) {
    LOOKS.with_borrow_mut(|looks| {
        if let Some(looks) = looks {
            looks.push(look());
        }
    });
}

/// Reads something, and returns with it what was looked at. Each look is noted before what it finds is read, so that a
/// change in between shows as one.
pub(super) fn watched<T>(read: impl FnOnce() -> T) -> (T, Vec<Seen>) {
    LOOKS.set(Some(Vec::new()));
    let value = read();
    let mut seen = LOOKS.take().unwrap_or_default();
    seen.sort();
    seen.dedup();
    (value, seen)
}
