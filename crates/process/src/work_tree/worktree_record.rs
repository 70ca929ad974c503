//! Locates a run's own work tree by git's record of it: an agent can move it, and a moved tree is not lost.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use domain::run::Worktree;

use super::git::{Git, line};
use super::isolate::IsolationError;
use system_files::regular_file;

/// The longest file that names a folder.
const PATH_BYTES_MAX: u64 = 64 << 10;
/// The most folders that are searched for a moved work tree.
const FOLDERS_MAX: usize = 1_000;
/// The file in git's record that marks that nothing in the folder is needed any more.
const SETTLED: &str = "volery-settled";

/// A work tree that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LocatedWorktree {
    /// The folder of git's record of it.
    pub(super) admin: PathBuf,
    pub(super) path: PathBuf,
}

/// Finds a work tree by git's own record, not by the content of the tree. `None` if it was never made, or is removed.
pub(super) fn find(
    git: &Git,
    worktree: &Worktree,
    deadline: Instant,
) -> Result<Option<LocatedWorktree>, IsolationError> {
    let path = Path::new(&worktree.path);
    let lost = || IsolationError::Lost(worktree.path.clone());
    let records = records(git, worktree, deadline)?;
    if let Some(admin) = find_record(&records, path) {
        if path.exists() {
            return Ok(Some(LocatedWorktree { admin, path: path.to_owned() }));
        }
        if is_unneeded(&admin) {
            return Ok(None);
        }
        let folders = path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
        let folders = folders.into_iter().flatten().filter_map(Result::ok).take(FOLDERS_MAX);
        let moved = folders.map(|entry| entry.path()).find(|folder| points_to(folder, &admin));
        return moved.map(|path| Some(LocatedWorktree { admin, path })).ok_or_else(lost);
    }
    // Git names a record after the original folder, and writes into it where the folder was moved to.
    let admin = path.file_name().map(|name| records.join(name)).filter(|admin| admin.is_dir());
    if let Some(admin) = admin {
        let content = regular_file::read_text(&admin.join("gitdir"), PATH_BYTES_MAX).unwrap_or_default();
        let moved = Path::new(content.trim_end_matches('\n')).parent().map(Path::to_owned);
        // An agent that cannot write there cannot have moved it there.
        if let Some(path) = moved.filter(|moved| points_to(moved, &admin)) {
            return Ok(Some(LocatedWorktree { admin, path }));
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
    located: &LocatedWorktree,
    deadline: Instant,
) -> Result<(), IsolationError> {
    let origin = Path::new(&worktree.origin);
    let run_git = |words: &[&str]| {
        let words = words.iter().map(OsString::from).chain([located.path.clone().into()]);
        git.run_args(origin, &words.collect::<Vec<_>>(), &[], deadline)
    };
    point_back(located)?;
    if located.path != Path::new(&worktree.path) {
        run_git(&["worktree", "repair"])?;
    }
    // Git refuses a folder that does not name the record, and then nothing of it is removed.
    if points_to(&located.path, &located.admin) {
        // Without this file, an attempt after an interrupted removal would take the folder for moved, or the removed
        // files for deleted by the agent. So the file stays if the removal fails.
        let _ = std::fs::write(located.admin.join(SETTLED), "");
    }
    run_git(&["worktree", "remove", "--force", "--force"])?;
    Ok(())
}

/// Restores the files that an interrupted removal took away, for a worker that continues there.
pub(super) fn bring_back(
    git: &Git,
    located: &LocatedWorktree,
    deadline: Instant,
) -> Result<(), IsolationError> {
    if !is_settled(located) {
        return Ok(());
    }
    point_back(located)?;
    let inner =
        git.with_git_dir(located.admin.clone()).without_repository_filters(&located.path, deadline)?;
    // The index is that of the last commit. Existing files are not replaced.
    inner.run(&located.path, &["checkout-index", "--all"], deadline)?;
    let mark = located.admin.join(SETTLED);
    let removed = std::fs::remove_file(&mark);
    removed.map_err(|source| IsolationError::Io { path: mark.display().to_string(), source })
}

/// Returns whether a removal has begun: everything is committed, and some files may be gone from the folder.
pub(super) fn is_settled(located: &LocatedWorktree) -> bool {
    located.admin.join(SETTLED).exists()
}

/// Recreates the folder's pointer to its record if it is missing: git removes no folder without one, and the agent
/// may have deleted it.
fn point_back(located: &LocatedWorktree) -> Result<(), IsolationError> {
    let pointer = located.path.join(".git");
    if pointer.symlink_metadata().is_ok() {
        return Ok(());
    }
    let written = std::fs::write(&pointer, format!("gitdir: {}\n", located.admin.display()));
    written.map_err(|source| IsolationError::Io { path: pointer.display().to_string(), source })
}

/// Deletes git's record of a work tree whose folder does not exist. Does not prune, which would delete the records of
/// all other missing folders, such as those on a disk that is not connected.
pub(super) fn forget(git: &Git, worktree: &Worktree, deadline: Instant) {
    let Ok(records) = records(git, worktree, deadline) else { return };
    if let Some(admin) = find_record(&records, Path::new(&worktree.path)) {
        // Git names a record that stays when the branch is used again.
        let _ = std::fs::remove_dir_all(admin);
    }
}

/// Returns the folder of git's records of work trees.
fn records(git: &Git, worktree: &Worktree, deadline: Instant) -> Result<PathBuf, IsolationError> {
    let origin = Path::new(&worktree.origin);
    let common = line(&git.run(origin, &["rev-parse", "--git-common-dir"], deadline)?);
    Ok(origin.join(common).join("worktrees"))
}

/// Returns the record that names a folder.
fn find_record(records: &Path, path: &Path) -> Option<PathBuf> {
    // Git writes the path without symbolic links.
    let (folder, name) = (path.parent()?, path.file_name()?);
    let whole = std::fs::canonicalize(folder).map_or_else(|_| path.to_owned(), |folder| folder.join(name));
    let expected = [path.join(".git"), whole.join(".git")];
    let is_match = |admin: &PathBuf| {
        let content = regular_file::read_text(&admin.join("gitdir"), PATH_BYTES_MAX).unwrap_or_default();
        expected.iter().any(|expected| Path::new(content.trim_end_matches('\n')) == expected)
    };
    let entries = std::fs::read_dir(records).ok()?;
    entries.filter_map(Result::ok).map(|entry| entry.path()).find(is_match)
}

/// Returns whether git was only about to make a work tree, or to remove one.
fn is_unneeded(admin: &Path) -> bool {
    let locked = regular_file::read_text(&admin.join("locked"), PATH_BYTES_MAX).unwrap_or_default();
    locked.trim() == "initializing" || admin.join(SETTLED).exists()
}

/// Returns whether a folder is the work tree of a record.
fn points_to(folder: &Path, admin: &Path) -> bool {
    let content = regular_file::read_text(&folder.join(".git"), PATH_BYTES_MAX).unwrap_or_default();
    let content = content.strip_prefix("gitdir: ").map(|content| folder.join(content.trim_end_matches('\n')));
    let whole = |path: &Path| std::fs::canonicalize(path).ok();
    content.and_then(|content| whole(&content)).is_some_and(|content| whole(admin) == Some(content))
}
