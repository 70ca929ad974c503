//! Where a run's own work tree is, by git's record of it: an agent can move it, and what was moved is not gone.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use domain::run::Worktree;

use super::git::{Git, line};
use super::isolate::IsolationError;
use crate::plain_file;

/// The longest file that names a folder.
const PATH_BYTES_MAX: u64 = 64 << 10;
/// The most folders that a moved work tree is looked for in.
const FOLDERS_MAX: usize = 1_000;
/// The file in git's record that says that nothing in the folder is needed any more.
const SETTLED: &str = "volery-settled";

/// A work tree that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Where git keeps what it knows about it.
    pub(super) admin: PathBuf,
    pub(super) path: PathBuf,
}

/// Finds a work tree, by git's own record and not by what the tree says. `None` if it was never made, or is removed.
pub(super) fn find(
    git: &Git,
    worktree: &Worktree,
    deadline: Instant,
) -> Result<Option<Place>, IsolationError> {
    let path = Path::new(&worktree.path);
    let lost = || IsolationError::Lost(worktree.path.clone());
    let records = records(git, worktree, deadline)?;
    if let Some(admin) = record_of(&records, path) {
        if path.exists() {
            return Ok(Some(Place { admin, path: path.to_owned() }));
        }
        if is_unneeded(&admin) {
            return Ok(None);
        }
        let folders = path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
        let folders = folders.into_iter().flatten().filter_map(Result::ok).take(FOLDERS_MAX);
        let moved = folders.map(|entry| entry.path()).find(|folder| is_of(folder, &admin));
        return moved.map(|path| Some(Place { admin, path })).ok_or_else(lost);
    }
    // Git names a record like the folder was named, and writes into it where that is moved to.
    let admin = path.file_name().map(|name| records.join(name)).filter(|admin| admin.is_dir());
    if let Some(admin) = admin {
        let told = plain_file::text(&admin.join("gitdir"), PATH_BYTES_MAX).unwrap_or_default();
        let moved = Path::new(told.trim_end_matches('\n')).parent().map(Path::to_owned);
        // Who cannot write there cannot have moved it there.
        if let Some(path) = moved.filter(|moved| is_of(moved, &admin)) {
            return Ok(Some(Place { admin, path }));
        }
        if !path.exists() {
            return Err(lost());
        }
    }
    if path.exists() { Err(IsolationError::Unknown(worktree.path.clone())) } else { Ok(None) }
}

/// Removes a work tree that holds nothing that is needed.
pub(super) fn remove(
    git: &Git,
    worktree: &Worktree,
    place: &Place,
    deadline: Instant,
) -> Result<(), IsolationError> {
    let origin = Path::new(&worktree.origin);
    let ask = |words: &[&str]| {
        let words = words.iter().map(OsString::from).chain([place.path.clone().into()]);
        git.ask_words(origin, &words.collect::<Vec<_>>(), &[], deadline)
    };
    point_back(place)?;
    if place.path != Path::new(&worktree.path) {
        ask(&["worktree", "repair"])?;
    }
    // Git refuses a folder that does not name the record, and then nothing of it is gone.
    if is_of(&place.path, &place.admin) {
        // Without it, who comes after a removal that was cut short takes the folder for moved, or what is gone for deleted
        // by the agent. So it stays if this fails.
        let _ = std::fs::write(place.admin.join(SETTLED), "");
    }
    ask(&["worktree", "remove", "--force", "--force"])?;
    Ok(())
}

/// Brings back what a removal that was cut short took away, for who works there again.
pub(super) fn bring_back(git: &Git, place: &Place, deadline: Instant) -> Result<(), IsolationError> {
    if !is_settled(place) {
        return Ok(());
    }
    point_back(place)?;
    let inner = git.with_git_dir(place.admin.clone()).without_filters_of(&place.path, deadline)?;
    // The index is that of the last commit. What is there is not replaced.
    inner.ask(&place.path, &["checkout-index", "--all"], deadline)?;
    let mark = place.admin.join(SETTLED);
    let removed = std::fs::remove_file(&mark);
    removed.map_err(|source| IsolationError::Io { path: mark.display().to_string(), source })
}

/// Tells whether a removal was begun: everything is committed, and some of it may be gone from the folder.
pub(super) fn is_settled(place: &Place) -> bool {
    place.admin.join(SETTLED).exists()
}

/// Lets the folder say what it is, if nothing there does: git removes no other, and the agent may have removed that.
fn point_back(place: &Place) -> Result<(), IsolationError> {
    let pointer = place.path.join(".git");
    if pointer.symlink_metadata().is_ok() {
        return Ok(());
    }
    let written = std::fs::write(&pointer, format!("gitdir: {}\n", place.admin.display()));
    written.map_err(|source| IsolationError::Io { path: pointer.display().to_string(), source })
}

/// Takes away git's record of a work tree whose folder is not there. Not by pruning, which would take the records of all
/// others whose folders are away, such as those on a disk that is not connected.
pub(super) fn forget(git: &Git, worktree: &Worktree, deadline: Instant) {
    let Ok(records) = records(git, worktree, deadline) else { return };
    if let Some(admin) = record_of(&records, Path::new(&worktree.path)) {
        // What stays is named by git when the branch is used again.
        let _ = std::fs::remove_dir_all(admin);
    }
}

/// Returns where git keeps what it knows about work trees.
fn records(git: &Git, worktree: &Worktree, deadline: Instant) -> Result<PathBuf, IsolationError> {
    let origin = Path::new(&worktree.origin);
    let common = line(&git.ask(origin, &["rev-parse", "--git-common-dir"], deadline)?);
    Ok(origin.join(common).join("worktrees"))
}

/// Returns the record that names a folder.
fn record_of(records: &Path, path: &Path) -> Option<PathBuf> {
    // Git writes the path that links lead to.
    let (folder, name) = (path.parent()?, path.file_name()?);
    let whole = std::fs::canonicalize(folder).map_or_else(|_| path.to_owned(), |folder| folder.join(name));
    let wanted = [path.join(".git"), whole.join(".git")];
    let is_wanted = |admin: &PathBuf| {
        let told = plain_file::text(&admin.join("gitdir"), PATH_BYTES_MAX).unwrap_or_default();
        wanted.iter().any(|wanted| Path::new(told.trim_end_matches('\n')) == wanted)
    };
    let entries = std::fs::read_dir(records).ok()?;
    entries.filter_map(Result::ok).map(|entry| entry.path()).find(is_wanted)
}

/// Tells whether git was only about to make a work tree, or to remove one.
fn is_unneeded(admin: &Path) -> bool {
    let locked = plain_file::text(&admin.join("locked"), PATH_BYTES_MAX).unwrap_or_default();
    locked.trim() == "initializing" || admin.join(SETTLED).exists()
}

/// Tells whether a folder is the work tree of a record.
fn is_of(folder: &Path, admin: &Path) -> bool {
    let told = plain_file::text(&folder.join(".git"), PATH_BYTES_MAX).unwrap_or_default();
    let told = told.strip_prefix("gitdir: ").map(|told| folder.join(told.trim_end_matches('\n')));
    let whole = |path: &Path| std::fs::canonicalize(path).ok();
    told.and_then(|told| whole(&told)).is_some_and(|told| whole(admin) == Some(told))
}
