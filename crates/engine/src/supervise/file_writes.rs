//! File writes of a loop's calls. Paths stay beneath the run's directory, whatever they contain.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteMode {
    Replace,
    Append,
}

/// Writes a file beneath the directory, and creates the folders on the way.
pub(super) fn write_beneath(directory: &str, path: &str, text: &str, mode: WriteMode) -> io::Result<()> {
    let outside = || io::Error::new(io::ErrorKind::PermissionDenied, "the path leaves the run's directory");
    let path = Path::new(path);
    if path.as_os_str().is_empty() || !path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(outside());
    }
    // Git runs the programs that its settings and hooks name, for the next caller.
    if path.to_str().is_none_or(domain::policy::is_in_git_dir) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the path is in git's own folder"));
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder = rustix::fs::openat(CWD, directory, flags, Mode::empty())?;
    // No symbolic links: a link of the repository could lead to `.git`.
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
    flags |= match mode {
        WriteMode::Replace => OFlags::TRUNC,
        WriteMode::Append => OFlags::APPEND,
    };
    let file = rustix::fs::openat2(&folder, name, flags, Mode::from_raw_mode(0o644), beneath)?;
    File::from(file).write_all(text.as_bytes())
}

#[cfg(test)]
mod tests;
