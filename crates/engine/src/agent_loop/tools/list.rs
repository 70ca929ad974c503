//! Lists a directory.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, statat};

use super::error::{ToolError, ToolOutput, shown};
use super::open::{io_error, kind_name, kind_of, open_directory};
use super::paths::{EntryKind, FileRoots, ResolvedPath};

const ENTRIES_SHOWN: usize = 1000;
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// How many names are read; of a larger directory only these.
pub(super) const ENTRIES_READ: usize = 100_000;

/// Lists the entries of a directory in the order of their names, hidden ones included.
pub(crate) fn list(roots: &FileRoots, path: &ResolvedPath) -> Result<ToolOutput, ToolError> {
    let kind = kind_of(roots, path)?;
    if kind != FileType::Directory {
        return Err(ToolError::NotDirectory { path: path.shown().to_owned(), kind: kind_name(kind) });
    }
    let directory = open_directory(roots, path)?;
    let names = entry_names(&directory, path)?;
    let is_all = names.len() < ENTRIES_READ;
    let mut text = String::new();
    let mut shown_count = 0;
    let names = names
        .into_iter()
        .filter(|name| roots.is_visible(&path.absolute().join(name), entry_kind(&directory, name)));
    let names = names.collect::<Vec<_>>();
    for name in names.iter().take(ENTRIES_SHOWN) {
        if text.len() >= ANSWER_BYTES_MAX {
            break;
        }
        describe_entry(&directory, name, &mut text);
        shown_count += 1;
    }
    let more = names.len() - shown_count;
    if names.is_empty() {
        text.push_str("[the directory is empty]");
    } else if more > 0 {
        let least = if is_all { "" } else { "at least " };
        // Writing to a string cannot fail.
        let _ = write!(text, "[{least}{more} more entries; search with a glob to find others]");
    }
    Ok(ToolOutput::success(text))
}

/// Returns the names in a directory, sorted.
pub(super) fn entry_names(directory: &OwnedFd, path: &ResolvedPath) -> Result<Vec<OsString>, ToolError> {
    let unreadable = |errno: rustix::io::Errno| io_error("read the directory", path, errno.into());
    let mut names = Vec::new();
    for entry in Dir::read_from(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name.to_vec()));
        }
        if names.len() >= ENTRIES_READ {
            break;
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn entry_kind(directory: &OwnedFd, name: &OsString) -> EntryKind {
    let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    match found.map(|found| FileType::from_raw_mode(found.st_mode)) {
        Ok(FileType::Directory) => EntryKind::Directory,
        Ok(_) | Err(_) => EntryKind::File,
    }
}

/// Appends one line. An entry that is gone meanwhile has none.
fn describe_entry(directory: &OwnedFd, name: &OsString, text: &mut String) {
    let Ok(found) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
    let shown_name = shown(Path::new(name));
    let kind = FileType::from_raw_mode(found.st_mode);
    // Writing to a string cannot fail.
    let _ = match kind {
        FileType::Directory => writeln!(text, "{shown_name}/"),
        FileType::RegularFile => {
            let bytes = u64::try_from(found.st_size).unwrap_or(0);
            writeln!(text, "{shown_name}  {}", domain::size::display_bytes(bytes))
        }
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(directory, name, Vec::new());
            let target = target.map(|target| OsString::from_vec(target.into_bytes())).unwrap_or_default();
            writeln!(text, "{shown_name} -> {}  (symbolic link)", shown(Path::new(&target)))
        }
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => writeln!(text, "{shown_name}  ({})", kind_name(kind)),
    };
}
