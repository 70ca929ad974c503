//! Compares two states of a work tree. Pure.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use domain::run::{ChangedFile, FileChange};

/// How much later than the clock a file time may be.
const CLOCK_MARGIN_NS: i128 = 50_000_000;

/// The files of a work tree at some moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TreeState {
    pub(super) files: BTreeMap<Vec<u8>, FileState>,
    pub(super) taken_ns: i128,
}

/// The state of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FileState {
    pub(super) stamp: FileStamp,
    /// The hash of its content, if the index knows it.
    pub(super) content: Option<String>,
}

/// The metadata that shows whether a file changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FileStamp {
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) modified_ns: i128,
    /// Moves with every change, and cannot be set to hide one.
    pub(super) changed_ns: i128,
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// The difference between two states.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) files: Vec<ChangedFile>,
    /// Files that were written or touched and may have the same content as before.
    pub(super) doubtful: Vec<Vec<u8>>,
}

pub(super) fn compare(before: &TreeState, after: &TreeState) -> Comparison {
    let mut comparison = Comparison::default();
    let mut gone: HashMap<Identity, Vec<&Vec<u8>>> = HashMap::new();
    for (path, was) in &before.files {
        match after.files.get(path) {
            None => gone.entry(identity(&was.stamp)).or_default().push(path),
            Some(is) if is.stamp == was.stamp => {}
            Some(is) if may_be_same(was, is) => comparison.doubtful.push(path.clone()),
            Some(_) => comparison.files.push(modified(path)),
        }
    }
    for (path, is) in after.files.iter().filter(|(path, _)| !before.files.contains_key(*path)) {
        // A file that moved keeps its inode, size and time.
        if let Some(from) = gone.get_mut(&identity(&is.stamp)).and_then(Vec::pop) {
            let change = FileChange::Renamed { from: text(from) };
            comparison.files.push(ChangedFile { path: text(path), change });
        } else if is.stamp.changed_ns + CLOCK_MARGIN_NS >= before.taken_ns {
            comparison.files.push(ChangedFile { path: text(path), change: FileChange::Added });
        }
        // Otherwise it existed before and is listed only because it is no longer ignored.
    }
    let deleted = gone.into_values().flatten();
    let deleted = deleted.map(|path| ChangedFile { path: text(path), change: FileChange::Deleted });
    comparison.files.extend(deleted);
    comparison
}

pub(super) fn modified(path: &[u8]) -> ChangedFile {
    ChangedFile { path: text(path), change: FileChange::Modified }
}

fn may_be_same(was: &FileState, is: &FileState) -> bool {
    was.content.is_some() && was.stamp.size == is.stamp.size && was.stamp.mode == is.stamp.mode
}

/// What a file keeps when it is only moved.
type Identity = (u64, u64, u64, i128);

fn identity(stamp: &FileStamp) -> Identity {
    (stamp.device, stamp.inode, stamp.size, stamp.modified_ns)
}

/// Returns a path as text. One that is not UTF-8 is quoted as git does it, so that no two look alike.
fn text(path: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(path) {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for byte in path {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => quoted.push(char::from(*byte)),
            // Writing to a text cannot fail.
            _ => drop(write!(quoted, "\\{byte:03o}")),
        }
    }
    quoted.push('"');
    quoted
}
