//! Two looks at a work tree, compared. Pure.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use domain::run::{ChangedFile, FileChange};

/// How much later than the clock says a file may have been marked.
const CLOCK_MARGIN_NS: i128 = 50_000_000;

/// The files of a work tree at some moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) files: BTreeMap<Vec<u8>, Seen>,
    pub(super) taken_ns: i128,
}

/// A file as it was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) mark: Mark,
    /// The name of its content, where the index vouches for it.
    pub(super) content: Option<String>,
}

/// What tells that a file is another one than before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) modified_ns: i128,
    /// Moves with every change, and cannot be set by whoever wants to hide one.
    pub(super) changed_ns: i128,
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// What differs between two looks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Compared {
    pub(super) files: Vec<ChangedFile>,
    /// Files that were written or touched and may have the content that they had.
    pub(super) doubtful: Vec<Vec<u8>>,
}

pub(super) fn compare(before: &Tree, after: &Tree) -> Compared {
    let mut compared = Compared::default();
    let mut gone: HashMap<Identity, Vec<&Vec<u8>>> = HashMap::new();
    for (path, was) in &before.files {
        match after.files.get(path) {
            None => gone.entry(identity(&was.mark)).or_default().push(path),
            Some(is) if is.mark == was.mark => {}
            Some(is) if may_be_same(was, is) => compared.doubtful.push(path.clone()),
            Some(_) => compared.files.push(modified(path)),
        }
    }
    for (path, is) in after.files.iter().filter(|(path, _)| !before.files.contains_key(*path)) {
        // A file that moved keeps its number, size and time.
        if let Some(from) = gone.get_mut(&identity(&is.mark)).and_then(Vec::pop) {
            let change = FileChange::Renamed { from: text(from) };
            compared.files.push(ChangedFile { path: text(path), change });
        } else if is.mark.changed_ns + CLOCK_MARGIN_NS >= before.taken_ns {
            compared.files.push(ChangedFile { path: text(path), change: FileChange::Added });
        }
        // Else it was there before and is only listed since, because it is no longer ignored.
    }
    let deleted = gone.into_values().flatten();
    let deleted = deleted.map(|path| ChangedFile { path: text(path), change: FileChange::Deleted });
    compared.files.extend(deleted);
    compared
}

pub(super) fn modified(path: &[u8]) -> ChangedFile {
    ChangedFile { path: text(path), change: FileChange::Modified }
}

fn may_be_same(was: &Seen, is: &Seen) -> bool {
    was.content.is_some() && was.mark.size == is.mark.size && was.mark.mode == is.mark.mode
}

/// What a file keeps when it is only moved.
type Identity = (u64, u64, u64, i128);

fn identity(mark: &Mark) -> Identity {
    (mark.device, mark.inode, mark.size, mark.modified_ns)
}

/// Returns a path as text. One that is none is quoted as git does it, so that no two look alike.
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
