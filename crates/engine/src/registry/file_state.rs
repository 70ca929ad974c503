//! The state of the files that a reader of definitions has observed, so that its result can be reused while nothing
//! has changed.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};

/// The clocks of file systems are coarse: a file that changed so recently may change again without a trace.
const SETTLED_AFTER_MS: i64 = 2_000;

thread_local! {
    /// The observations of the reader on this thread; `None` outside of [`read_observed`].
    static OBSERVED: RefCell<Option<Vec<FileState>>> = const { RefCell::new(None) };
}

/// One observation of the disk.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FileState {
    /// A file, a folder or nothing, as its inode describes it.
    Entry { path: PathBuf, stamp: Option<Stamp> },
    /// The target of a path.
    LinkTarget { path: PathBuf, leads_to: Option<PathBuf> },
}

/// Changes with every change of a file, and with every name that is added to or removed from a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Stamp {
    fn from_path(path: &Path) -> Option<Self> {
        rustix::fs::stat(path).ok().map(|stat| Self::from(&stat))
    }

    /// The same by the name in an open folder: the kernel has less of a path to resolve.
    fn from_folder(folder: &OwnedFd, name: &std::ffi::OsStr) -> Option<Self> {
        rustix::fs::statat(folder, name, AtFlags::empty()).ok().map(|stat| Self::from(&stat))
    }
}

impl From<&Stat> for Stamp {
    fn from(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

impl FileState {
    /// Returns whether the observation still holds. `folder` is the open folder of the path, if it is open.
    fn is_unchanged(&self, folder: Option<&OwnedFd>) -> bool {
        match (self, folder) {
            (Self::Entry { path, stamp }, Some(folder)) => {
                path.file_name().and_then(|name| Stamp::from_folder(folder, name)) == *stamp
            }
            (Self::Entry { path, stamp }, None) => Stamp::from_path(path) == *stamp,
            (Self::LinkTarget { path, leads_to }, _) => path.canonicalize().ok() == *leads_to,
        }
    }

    fn folder(&self) -> Option<&Path> {
        match self {
            Self::Entry { path, .. } => path.parent(),
            Self::LinkTarget { .. } => None,
        }
    }

    /// Returns the size of the file.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Entry { stamp: Some(stamp), .. } => stamp.bytes,
            Self::Entry { stamp: None, .. } | Self::LinkTarget { .. } => 0,
        }
    }

    /// Returns whether any later change would be visible.
    pub(super) fn is_settled(&self, now_ms: i64) -> bool {
        match self {
            Self::Entry { stamp: Some(stamp), .. } => {
                let (seconds, nanoseconds) = stamp.changed;
                let milliseconds = i64::try_from(nanoseconds / 1_000_000).unwrap_or(0);
                seconds * 1_000 + milliseconds + SETTLED_AFTER_MS <= now_ms
            }
            Self::Entry { stamp: None, .. } | Self::LinkTarget { .. } => true,
        }
    }
}

/// Returns whether all observations still hold. This is faster if the entries of one folder are next to each other.
pub(super) fn are_unchanged(states: &[FileState]) -> bool {
    /// From so many entries on it is worth opening their folder.
    const OPENED_FROM: usize = 8;
    let mut groups = states.chunk_by(|one, two| one.folder() == two.folder());
    groups.all(|group| {
        let folder = group.first().and_then(FileState::folder).filter(|_| group.len() >= OPENED_FROM);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |folder| rustix::fs::openat(CWD, folder, flags, Mode::empty()).ok();
        // If the folder cannot be opened, its entries are checked by their paths.
        let folder: Option<OwnedFd> = folder.and_then(open);
        group.iter().all(|state| state.is_unchanged(folder.as_ref()))
    })
}

/// Observes a file or a folder that is about to be read, or does not exist.
pub(super) fn observe(path: &Path) {
    observe_with(|| FileState::Entry { path: path.to_owned(), stamp: Stamp::from_path(path) });
}

/// Observes a path whose links are about to be followed.
pub(super) fn observe_link_target(path: &Path) {
    observe_with(|| FileState::LinkTarget { path: path.to_owned(), leads_to: path.canonicalize().ok() });
}

fn observe_with(state: impl FnOnce() -> FileState) {
    OBSERVED.with_borrow_mut(|states| {
        if let Some(states) = states {
            states.push(state());
        }
    });
}

/// Repeats observations that still hold, for a reader that reuses what was read with them.
pub(super) fn observe_again(observed: &[FileState]) {
    OBSERVED.with_borrow_mut(|states| {
        if let Some(states) = states {
            states.extend_from_slice(observed);
        }
    });
}

/// Reads something, and returns the observations with it. Each observation is made before the file is read, so that a
/// change in between is detected. An enclosing reader gets the observations too.
pub(super) fn read_observed<T>(read: impl FnOnce() -> T) -> (T, Vec<FileState>) {
    let enclosing = OBSERVED.replace(Some(Vec::new()));
    let value = read();
    let observed = OBSERVED.replace(enclosing).unwrap_or_default();
    observe_again(&observed);
    (value, observed)
}
