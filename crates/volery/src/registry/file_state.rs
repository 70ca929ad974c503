//! What a reader of definitions looked at on disk, so that its result can be used again while nothing of it changed.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};

/// The file systems' clocks are coarse: a file that changed so recently may change again without a trace.
const SETTLED_AFTER_MS: i64 = 2_000;

thread_local! {
    /// What the reader on this thread has looked at; nothing while no reader is read_observed.
    static OBSERVED: RefCell<Option<Vec<FileState>>> = const { RefCell::new(None) };
}

/// One look at the disk, and what was there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FileState {
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
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        rustix::fs::stat(path).ok().map(|found| Self::from(&found))
    }

    /// The same by the name in an open folder: the kernel has less of a path to follow.
    fn within(folder: &OwnedFd, name: &std::ffi::OsStr) -> Option<Self> {
        rustix::fs::statat(folder, name, AtFlags::empty()).ok().map(|found| Self::from(&found))
    }
}

impl From<&Stat> for Stamp {
    fn from(found: &Stat) -> Self {
        Self {
            device: found.st_dev,
            inode: found.st_ino,
            bytes: u64::try_from(found.st_size).unwrap_or(0),
            modified: (found.st_mtime, found.st_mtime_nsec),
            changed: (found.st_ctime, found.st_ctime_nsec),
        }
    }
}

impl FileState {
    /// Tells whether what was seen is still so. `folder` is the folder that the path is in, where it is open.
    fn is_unchanged(&self, folder: Option<&OwnedFd>) -> bool {
        match (self, folder) {
            (Self::Entry { path, stamp }, Some(folder)) => {
                path.file_name().and_then(|name| Stamp::within(folder, name)) == *stamp
            }
            (Self::Entry { path, stamp }, None) => Stamp::of(path) == *stamp,
            (Self::Way { path, leads_to }, _) => path.canonicalize().ok() == *leads_to,
        }
    }

    /// Returns the folder of an entry.
    fn folder(&self) -> Option<&Path> {
        match self {
            Self::Entry { path, .. } => path.parent(),
            Self::Way { .. } => None,
        }
    }

    /// Tells whether any later change would show.
    pub(super) fn is_settled(&self, now_ms: i64) -> bool {
        match self {
            Self::Entry { stamp: Some(stamp), .. } => {
                let (seconds, nanoseconds) = stamp.changed;
                let milliseconds = i64::try_from(nanoseconds / 1_000_000).unwrap_or(0);
                seconds * 1_000 + milliseconds + SETTLED_AFTER_MS <= now_ms
            }
            Self::Entry { stamp: None, .. } | Self::Way { .. } => true,
        }
    }
}

/// Tells whether everything is as it was. Expects the looks in the order of [`read_observed`], where entries of one folder are
/// next to each other.
pub(super) fn are_unchanged(looks: &[FileState]) -> bool {
    /// From so many entries on it is worth opening their folder.
    const OPENED_FROM: usize = 8;
    let mut groups = looks.chunk_by(|one, two| one.folder() == two.folder());
    groups.all(|group| {
        let folder = group.first().and_then(FileState::folder).filter(|_| group.len() >= OPENED_FROM);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |folder| rustix::fs::openat(CWD, folder, flags, Mode::empty()).ok();
        // A folder that cannot be opened has entries that cannot be looked at, which then are looked at by their paths.
        let folder: Option<OwnedFd> = folder.and_then(open);
        group.iter().all(|look| look.is_unchanged(folder.as_ref()))
    })
}

/// Notes that a file or a folder is about to be read, or is not there.
pub(super) fn observe(path: &Path) {
    observe_with(|| FileState::Entry { path: path.to_owned(), stamp: Stamp::of(path) });
}

/// Notes that the links of a path are about to be followed.
pub(super) fn observe_link_target(path: &Path) {
    observe_with(|| FileState::Way { path: path.to_owned(), leads_to: path.canonicalize().ok() });
}

fn observe_with(look: impl FnOnce() -> FileState) {
    OBSERVED.with_borrow_mut(|looks| {
        if let Some(looks) = looks {
            looks.push(look());
        }
    });
}

/// Reads something, and returns with it what was looked at. Each look is noted before what it finds is read, so that a
/// change in between shows as one.
pub(super) fn read_observed<T>(read: impl FnOnce() -> T) -> (T, Vec<FileState>) {
    OBSERVED.set(Some(Vec::new()));
    let value = read();
    let mut seen = OBSERVED.take().unwrap_or_default();
    seen.sort();
    seen.dedup();
    (value, seen)
}
