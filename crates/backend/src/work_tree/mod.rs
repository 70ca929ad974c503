//! The git work tree that holds a run's directory: what changes in it while the run goes on, and one of the run's own.
//!
//! A repository is somebody's text, and its configuration can name programs: filters, hooks, a monitor of the file
//! system, a transport. Whatever compares contents (`git status`, `git diff`, even `git diff-files` for a file as new
//! as the index) runs the filters that the repository names. So git is asked only for lists, `ls-files` of what is
//! tracked and of what is neither tracked nor ignored, and whether a file changed is told by its own marks: size, times,
//! mode, inode. Where those moved and the content may still be the same, `hash-object --no-filters` decides.

mod compare;
mod git;
mod isolate;
mod place;
mod settle;
mod snapshot;

#[cfg(test)]
mod tests;

pub use git::{Git, GitError, root_of};
pub use isolate::{IsolationError, inside_worktree, make_worktree, plan_worktree};
pub use settle::{Settled, settle_worktree};
pub use snapshot::Snapshot;
