//! `trash/`: a deleted run is moved here first, so that readers see it either complete or not at all.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use domain::id::RunId;
use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;

use super::run_files;
use super::sweep::{RetentionError, Sweeper};

/// How many runs are passed to `forget` at a time.
const BATCH: usize = 100;

/// Moves a run of a day to the trash.
pub(super) fn move_to_trash(home: BorrowedFd<'_>, day: BorrowedFd<'_>, id: RunId) -> io::Result<()> {
    match rustix::fs::mkdirat(home, "trash", Mode::from_raw_mode(0o700)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let name = id.to_string();
    let trash = run_files::open_directory(home, "trash")?.ok_or(ErrorKind::NotADirectory)?;
    match rustix::fs::renameat(day, &name, &trash, &name) {
        // Another sweep was faster.
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    // A deleted run needs no row in the index.
    run_files::unlink(home, format!("open/{name}"), AtFlags::empty())
}

/// Empties the trash: runs that this sweep moved there, and leftovers of others.
pub(super) fn empty(
    sweeper: &mut Sweeper<'_>,
    forget: &mut dyn FnMut(&[RunId]) -> bool,
) -> Result<(), RetentionError> {
    let trash = sweeper.request.home.join("trash");
    let names = list(sweeper, &trash)?;
    for batch in names.chunks(BATCH) {
        if sweeper.is_out_of_time(2) {
            break;
        }
        let ids: Vec<RunId> = batch.iter().filter_map(|name| name.parse().ok()).collect();
        if !ids.is_empty() && !forget(&ids) {
            sweeper.report.unfinished = true;
            continue;
        }
        for name in batch {
            let path = trash.join(name);
            match remove(&trash, name) {
                Ok(bytes) => sweeper.count_deleted(name.parse().ok(), bytes),
                Err(error) => sweeper.record_problem(path, &error),
            }
        }
    }
    Ok(())
}

pub(super) fn count(sweeper: &mut Sweeper<'_>) -> Result<(), RetentionError> {
    let trash = sweeper.request.home.join("trash");
    for name in list(sweeper, &trash)? {
        let bytes = entry_bytes(&trash, &name).map_err(|source| sweeper.fail(&trash, source))?;
        sweeper.count_deleted(name.parse().ok(), bytes);
    }
    Ok(())
}

fn list(sweeper: &Sweeper<'_>, trash: &Path) -> Result<Vec<String>, RetentionError> {
    let names = || -> io::Result<Vec<String>> {
        let home = std::fs::File::open(sweeper.request.home)?;
        let Some(trash) = run_files::open_directory(home.as_fd(), "trash")? else { return Ok(Vec::new()) };
        run_files::names(trash.as_fd())
    };
    match names() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        names => names.map_err(|source| sweeper.fail(trash, source)),
    }
}

/// Removes an entry and returns its bytes. Another sweep may do the same at the same time.
fn remove(trash: &Path, name: &str) -> io::Result<u64> {
    let bytes = entry_bytes(trash, name)?;
    let path = trash.join(name);
    let is_directory = match std::fs::symlink_metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        meta => meta?.is_dir(),
    };
    // `remove_dir_all` does not follow links.
    let removed = if is_directory { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(bytes),
        removed => removed.map(|()| bytes),
    }
}

fn entry_bytes(trash: &Path, name: &str) -> io::Result<u64> {
    let trash = std::fs::File::open(trash)?;
    match run_files::open_directory(trash.as_fd(), name)? {
        Some(directory) => run_files::bytes_below(directory.as_fd()),
        None => Ok(0),
    }
}
