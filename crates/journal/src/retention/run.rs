//! One run directory, by descriptor: when it ended, whether somebody holds it, and its output.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::SystemTime;

use domain::Timestamp;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::Deserialize;

/// No outcome that we write is longer.
const OUTCOME_BYTES_MAX: u64 = 4 << 20;

/// A file of spooled output.
#[derive(Debug)]
pub(super) struct Output {
    name: std::ffi::CString,
    pub(super) bytes: u64,
}

/// A look at the run's lock.
#[derive(Debug)]
pub(super) enum Lock {
    /// Ours until dropped; a run without a lock file has nobody who could hold it.
    Ours {
        _held: Option<OwnedFd>,
    },
    Theirs,
}

#[derive(Deserialize)]
struct EndedLine {
    at: Timestamp,
}

/// Opens a directory below another, or nothing when it is no directory.
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
        // A name that is not text is not ours, but it is there.
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Returns when the run ended; nothing when it has not.
pub(super) fn ended_at(run: BorrowedFd<'_>) -> io::Result<Option<Timestamp>> {
    let Some(file) = open_file(run, "outcome.json")? else { return Ok(None) };
    let file = File::from(file);
    let mut text = Vec::new();
    (&file).take(OUTCOME_BYTES_MAX).read_to_end(&mut text)?;
    match serde_json::from_slice::<EndedLine>(&text) {
        Ok(line) => Ok(Some(line.at)),
        // It is written after the end is durable, so what is left of it after a power failure still says that much.
        Err(_) => Ok(Timestamp::try_from(file.metadata()?.modified().unwrap_or(SystemTime::UNIX_EPOCH)).ok()),
    }
}

/// Takes the run's lock if nobody has it.
pub(super) fn lock(run: BorrowedFd<'_>) -> io::Result<Lock> {
    let Some(file) = open_file(run, "lock")? else { return Ok(Lock::Ours { _held: None }) };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Lock::Ours { _held: Some(file) }),
        Err(Errno::WOULDBLOCK) => Ok(Lock::Theirs),
        Err(error) => Err(error.into()),
    }
}

/// The folder of files that the agent was given.
const WORK: &std::ffi::CStr = c"work";
/// How many folders deep it is removed; what is deeper goes with the run.
const FOLDERS_MAX: usize = 64;

/// Returns the files of spooled output and the work folder, as far as they are there.
pub(super) fn outputs(run: BorrowedFd<'_>) -> io::Result<Vec<Output>> {
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
            outputs.push(Output { name: name.to_owned(), bytes: u64::try_from(stat.st_size).unwrap_or(0) });
        }
    }
    if let Some(work) = open_work(run)? {
        outputs.push(Output { name: WORK.to_owned(), bytes: bytes_below(work.as_fd())? });
    }
    Ok(outputs)
}

pub(super) fn remove_output(run: BorrowedFd<'_>, output: &Output) -> io::Result<()> {
    if output.name.as_c_str() != WORK {
        return unlink(run, &output.name, AtFlags::empty());
    }
    let Some(work) = open_work(run)? else { return Ok(()) };
    remove_below(work.as_fd(), FOLDERS_MAX)?;
    unlink(run, WORK, AtFlags::REMOVEDIR)
}

/// Removes all that is in a folder of files that the agent was given: an agent may have made more in it.
fn remove_below(folder: BorrowedFd<'_>, deep: usize) -> io::Result<()> {
    for name in names(folder)? {
        match open_directory(folder, &name)?.filter(|_| deep > 0) {
            Some(inner) => {
                remove_below(inner.as_fd(), deep - 1)?;
                unlink(folder, &name, AtFlags::REMOVEDIR)?;
            }
            None => unlink(folder, &name, AtFlags::empty())?,
        }
    }
    Ok(())
}

/// Opens the folder of files that the agent was given, if there is one; a link is none.
fn open_work(run: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(run, WORK, flags, Mode::empty()) {
        Ok(work) => Ok(Some(work)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Removes a name that others may remove at the same time.
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

/// Returns the bytes of all files in a directory and below.
pub(super) fn bytes_below(directory: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes = 0;
    let mut left = vec![directory.try_clone_to_owned()?];
    while let Some(directory) = left.pop() {
        for name in names(directory.as_fd())? {
            match rustix::fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                    left.extend(open_directory(directory.as_fd(), &name)?);
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
