//! The git work tree that holds a run's directory: what changes in it during the run, and separate work trees for
//! single runs.
//!
//! A repository is not trusted, and its configuration can name programs: filters, hooks, a monitor of the file
//! system, a transport. Every command that compares contents (`git status`, `git diff`, even `git diff-files` for a
//! file as new as the index) runs the filters that the repository names. So git is asked only for lists, `ls-files`
//! of tracked files and of files that are neither tracked nor ignored, and the metadata of a file shows whether it
//! changed: size, times, mode, inode. If these changed and the content may still be the same, `hash-object
//! --no-filters` decides.

mod compare;
mod git;
mod isolate;
mod settle;
mod snapshot;
mod worktree_record;

#[cfg(test)]
mod tests;

pub use git::{Git, GitError, work_tree_root};
pub use isolate::{IsolationError, inside_worktree, make_worktree, plan_worktree};
pub use settle::{Settled, settle_worktree};
pub use snapshot::Snapshot;
