//! `trash/`: where a deleted run goes first, so that it is whole or gone for everybody who looks.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use domain::id::RunId;
use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;

use super::run;
use super::sweep::{Broom, RetentionError};

/// How many runs are forgotten at a time.
const BATCH: usize = 100;

/// Moves a run of a day to the trash.
pub(super) fn throw_away(home: BorrowedFd<'_>, day: BorrowedFd<'_>, id: RunId) -> io::Result<()> {
    match rustix::fs::mkdirat(home, "trash", Mode::from_raw_mode(0o700)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let name = id.to_string();
    let trash = run::open_directory(home, "trash")?.ok_or(ErrorKind::NotADirectory)?;
    match rustix::fs::renameat(day, &name, &trash, &name) {
        // Another sweep was quicker.
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    // A run that is gone needs nobody to write its row.
    run::unlink(home, format!("open/{name}"), AtFlags::empty())
}

/// Removes what is in the trash: what this sweep moved there, and what is left of others.
pub(super) fn empty(
    broom: &mut Broom<'_>,
    forget: &mut dyn FnMut(&[RunId]) -> bool,
) -> Result<(), RetentionError> {
    let trash = broom.request.home.join("trash");
    let names = list(broom, &trash)?;
    for batch in names.chunks(BATCH) {
        if broom.is_out_of_time(2) {
            break;
        }
        let ids: Vec<RunId> = batch.iter().filter_map(|name| name.parse().ok()).collect();
        if !ids.is_empty() && !forget(&ids) {
            broom.report.unfinished = true;
            continue;
        }
        for name in batch {
            let path = trash.join(name);
            match remove(&trash, name) {
                Ok(bytes) => broom.count_deleted(name.parse().ok(), bytes),
                Err(error) => broom.note(path, &error),
            }
        }
    }
    Ok(())
}

/// Counts what is in the trash.
pub(super) fn count(broom: &mut Broom<'_>) -> Result<(), RetentionError> {
    let trash = broom.request.home.join("trash");
    for name in list(broom, &trash)? {
        let bytes = bytes_of(&trash, &name).map_err(|source| broom.fail(&trash, source))?;
        broom.count_deleted(name.parse().ok(), bytes);
    }
    Ok(())
}

fn list(broom: &Broom<'_>, trash: &Path) -> Result<Vec<String>, RetentionError> {
    let names = || -> io::Result<Vec<String>> {
        let home = std::fs::File::open(broom.request.home)?;
        let Some(trash) = run::open_directory(home.as_fd(), "trash")? else { return Ok(Vec::new()) };
        run::names(trash.as_fd())
    };
    match names() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        names => names.map_err(|source| broom.fail(trash, source)),
    }
}

/// Removes an entry and returns its bytes. Another sweep may do the same at the same time.
fn remove(trash: &Path, name: &str) -> io::Result<u64> {
    let bytes = bytes_of(trash, name)?;
    let path = trash.join(name);
    let is_directory = match std::fs::symlink_metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        meta => meta?.is_dir(),
    };
    // Removing all below a directory does not follow links.
    let removed = if is_directory { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(bytes),
        removed => removed.map(|()| bytes),
    }
}

fn bytes_of(trash: &Path, name: &str) -> io::Result<u64> {
    let trash = std::fs::File::open(trash)?;
    match run::open_directory(trash.as_fd(), name)? {
        Some(directory) => run::bytes_below(directory.as_fd()),
        None => Ok(0),
    }
}
