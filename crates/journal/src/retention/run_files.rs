//! File operations on one run directory, by descriptor: when it ended, whether it is locked, and its output.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::SystemTime;

use domain::Timestamp;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::Deserialize;

use crate::log;
use crate::run_dir::RunDir;

/// No outcome that we write is longer.
const OUTCOME_BYTES_MAX: u64 = 4 << 20;

/// A file of spooled output.
#[derive(Debug)]
pub(super) struct OutputFile {
    name: std::ffi::CString,
    pub(super) bytes: u64,
}

/// The result of trying to take the run's lock.
#[derive(Debug)]
pub(super) enum LockAttempt {
    /// Held until dropped. A run without a lock file has no holder.
    Acquired {
        _held: Option<OwnedFd>,
    },
    HeldElsewhere,
}

#[derive(Deserialize)]
struct EndedLine {
    at: Timestamp,
}

/// Opens a directory below another; `None` if it is not a directory.
pub(super) fn open_directory(parent: BorrowedFd<'_>, name: &str) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Ok(directory) => Ok(Some(directory)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the names in a directory.
pub(super) fn names(directory: BorrowedFd<'_>) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        // A name that is not UTF-8 is not Volery's, but it exists.
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Returns when the run ended; `None` if it has not. A worker that was killed after the end may have left no
/// `outcome.json`; then the log shows the end.
pub(super) fn ended_at(run: BorrowedFd<'_>, dir: &RunDir) -> io::Result<Option<Timestamp>> {
    let Some(file) = open_file(run, "outcome.json")? else {
        let Some(log) = open_file(run, "events.jsonl")? else { return Ok(None) };
        return log::ended_at(dir, File::from(log)).map_err(io::Error::other);
    };
    let file = File::from(file);
    let mut text = Vec::new();
    (&file).take(OUTCOME_BYTES_MAX).read_to_end(&mut text)?;
    match serde_json::from_slice::<EndedLine>(&text) {
        Ok(line) => Ok(Some(line.at)),
        // The file is written after the end is durable, so even a damaged one proves that the run ended.
        Err(_) => Ok(Timestamp::try_from(file.metadata()?.modified().unwrap_or(SystemTime::UNIX_EPOCH)).ok()),
    }
}

/// Takes the run's lock if it is free.
pub(super) fn lock(run: BorrowedFd<'_>) -> io::Result<LockAttempt> {
    let Some(file) = open_file(run, "lock")? else { return Ok(LockAttempt::Acquired { _held: None }) };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(LockAttempt::Acquired { _held: Some(file) }),
        Err(Errno::WOULDBLOCK) => Ok(LockAttempt::HeldElsewhere),
        Err(error) => Err(error.into()),
    }
}

/// The folder of files for the agent, such as its prompt.
const WORK: &std::ffi::CStr = c"work";
/// The maximum depth of folders to remove; deeper ones are removed with the run.
const FOLDERS_MAX: usize = 64;

/// Returns the existing files of spooled output and the work folder.
pub(super) fn outputs(run: BorrowedFd<'_>) -> io::Result<Vec<OutputFile>> {
    let mut outputs = Vec::new();
    for entry in Dir::read_from(run)? {
        let entry = entry?;
        let name = entry.file_name();
        let text = name.to_bytes();
        if !(text.starts_with(b"stdout") || text.starts_with(b"stderr") || text == b"worker.log") {
            continue;
        }
        let stat = match rustix::fs::statat(run, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            stat => stat?,
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            outputs
                .push(OutputFile { name: name.to_owned(), bytes: u64::try_from(stat.st_size).unwrap_or(0) });
        }
    }
    if let Some(work) = open_work(run)? {
        outputs.push(OutputFile { name: WORK.to_owned(), bytes: bytes_below(work.as_fd())? });
    }
    Ok(outputs)
}

pub(super) fn remove_output(run: BorrowedFd<'_>, output: &OutputFile) -> io::Result<()> {
    if output.name.as_c_str() != WORK {
        return unlink(run, &output.name, AtFlags::empty());
    }
    let Some(work) = open_work(run)? else { return Ok(()) };
    remove_below(work.as_fd(), FOLDERS_MAX)?;
    unlink(run, WORK, AtFlags::REMOVEDIR)
}

/// Removes the content of the work folder, to which an agent may have added files.
fn remove_below(folder: BorrowedFd<'_>, depth_left: usize) -> io::Result<()> {
    for name in names(folder)? {
        match open_directory(folder, &name)?.filter(|_| depth_left > 0) {
            Some(inner) => {
                remove_below(inner.as_fd(), depth_left - 1)?;
                unlink(folder, &name, AtFlags::REMOVEDIR)?;
            }
            None => unlink(folder, &name, AtFlags::empty())?,
        }
    }
    Ok(())
}

/// Opens the work folder if it exists and is not a link.
fn open_work(run: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(run, WORK, flags, Mode::empty()) {
        Ok(work) => Ok(Some(work)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Removes a name that other processes may remove at the same time.
pub(super) fn unlink(
    directory: BorrowedFd<'_>,
    name: impl rustix::path::Arg,
    flags: AtFlags,
) -> io::Result<()> {
    match rustix::fs::unlinkat(directory, name, flags) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the total size of all files in a directory tree.
pub(super) fn bytes_below(directory: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes = 0;
    let mut pending = vec![directory.try_clone_to_owned()?];
    while let Some(directory) = pending.pop() {
        for name in names(directory.as_fd())? {
            match rustix::fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                    pending.extend(open_directory(directory.as_fd(), &name)?);
                }
                Ok(stat) => bytes += u64::try_from(stat.st_size).unwrap_or(0),
                Err(_) => {}
            }
        }
    }
    Ok(bytes)
}

fn open_file(directory: BorrowedFd<'_>, name: &str) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Ok(file) => Ok(Some(file)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads the beginning of a file as text.
pub(super) fn read_small(directory: BorrowedFd<'_>, name: &str) -> io::Result<String> {
    let mut text = String::new();
    if let Some(file) = open_file(directory, name)? {
        File::from(file).take(64).read_to_string(&mut text)?;
    }
    Ok(text)
}

/// Writes a file that must not exist.
pub(super) fn write_small(directory: BorrowedFd<'_>, name: &str, text: &str) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o600))?;
    File::from(file).write_all(text.as_bytes())
}
