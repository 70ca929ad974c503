//! What a loop's calls do in the run's directory. Paths stay beneath it, whatever they contain.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

/// Whether a file is replaced or added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteHow {
    Replace,
    Append,
}

/// Writes a file beneath the directory; folders on the way are made.
pub(super) fn write_beneath(directory: &str, path: &str, text: &str, how: WriteHow) -> io::Result<()> {
    let outside = || io::Error::new(io::ErrorKind::PermissionDenied, "the path leaves the run's directory");
    let path = Path::new(path);
    if path.as_os_str().is_empty() || !path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(outside());
    }
    // Git runs what its settings and hooks name, for whoever calls it next.
    if path.to_str().is_none_or(domain::permission::is_in_repository) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the path is in git's own folder"));
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder = rustix::fs::openat(CWD, directory, flags, Mode::empty())?;
    // No symbolic links: one of the repository's could lead to `.git`.
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    for part in path.parent().into_iter().flat_map(Path::components) {
        match rustix::fs::mkdirat(&folder, part.as_os_str(), Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        folder = rustix::fs::openat2(&folder, part.as_os_str(), flags, Mode::empty(), beneath)?;
    }
    let name = path.file_name().ok_or_else(outside)?;
    let mut flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    flags |= match how {
        WriteHow::Replace => OFlags::TRUNC,
        WriteHow::Append => OFlags::APPEND,
    };
    let file = rustix::fs::openat2(&folder, name, flags, Mode::from_raw_mode(0o644), beneath)?;
    File::from(file).write_all(text.as_bytes())
}

#[cfg(test)]
mod tests;
