//! The files that a run changed, for a model. Bounded.

use domain::run::{Branch, Changes, FileChange};
use schemars::JsonSchema;
use serde::Serialize;

/// The most files in a result.
pub(super) const RESULT_FILES_MAX: usize = 50;
/// The most files in the answer of `get_run`.
pub(super) const GET_RUN_FILES_MAX: usize = 500;
/// The most bytes of file names in either.
const NAMES_BYTES_MAX: usize = 24 << 10;

/// The files that changed while the run went on.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub(super) struct ChangedFiles {
    /// How many in all.
    count: u64,
    /// What the paths are relative to.
    work_tree: String,
    files: Vec<ChangedFile>,
    /// How many are not named here; get_run names more.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<u64>,
    /// The run made commits: the one that was checked out before, and after.
    #[serde(skip_serializing_if = "Option::is_none")]
    head_before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    head_after: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct ChangedFile {
    path: String,
    /// added, modified, deleted or renamed.
    change: String,
    /// The path before, of a renamed file.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
}

/// A branch with what a run did in a work tree of its own.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct BranchReport {
    name: String,
    /// The commit that the run began with.
    base: String,
    /// What brings the work into the branch that is checked out.
    merge: String,
}

impl ChangedFiles {
    /// Names at most `max` of the files.
    pub(super) fn from_changes(changes: &Changes, max: usize) -> Self {
        let mut bytes = 0;
        let files = changes.files.iter().take(max).map(|file| ChangedFile {
            path: file.path.clone(),
            change: file.change.as_str().to_owned(),
            from: match &file.change {
                FileChange::Renamed { from } => Some(from.clone()),
                FileChange::Added | FileChange::Modified | FileChange::Deleted => None,
            },
        });
        let fits = |file: &ChangedFile| {
            bytes += file.path.len() + file.from.as_ref().map_or(0, String::len);
            bytes <= NAMES_BYTES_MAX
        };
        let files: Vec<ChangedFile> = files.take_while(fits).collect();
        let left_out = changes.count() - files.len() as u64;
        let (head_before, head_after) = match &changes.commits {
            Some(commits) => (commits.before.clone(), commits.after.clone()),
            None => (None, None),
        };
        Self {
            count: changes.count(),
            work_tree: changes.root.clone(),
            files,
            left_out: (left_out > 0).then_some(left_out),
            head_before,
            head_after,
        }
    }
}

impl From<&Branch> for BranchReport {
    fn from(branch: &Branch) -> Self {
        let Branch { name, base, tip: _ } = branch;
        Self { name: name.clone(), base: base.clone(), merge: format!("git merge {name}") }
    }
}
