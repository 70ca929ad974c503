//! Files that changed during a run, in the git work tree that contains its directory.

use serde::{Deserialize, Serialize};

/// The most files that are listed; the rest is counted.
const FILES_MAX: usize = 1_000;
/// The most bytes of names: a line of the journal has at most 1 MiB.
const NAME_BYTES_MAX: usize = 256 << 10;

/// The files that changed, by their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The work tree that the paths are relative to.
    pub root: String,
    pub files: Vec<ChangedFile>,
    /// How many more files changed than are listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// The commits that were checked out before and after, if they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commits: Option<Commits>,
}

/// One file that changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChangedFile {
    pub path: String,
    #[serde(flatten)]
    pub change: FileChange,
}

/// The kind of a file's change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum FileChange {
    Added,
    Modified,
    Deleted,
    Renamed { from: String },
}

impl FileChange {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
            Self::Renamed { .. } => "renamed",
        }
    }
}

/// The commits that were checked out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commits {
    /// Absent if there was no commit yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Changes {
    /// Sorts the files and lists as many as the limits allow.
    pub fn bounded(root: String, mut files: Vec<ChangedFile>, commits: Option<Commits>) -> Self {
        files.sort();
        let mut bytes = 0;
        let named = files
            .iter()
            .take(FILES_MAX)
            .take_while(|file| {
                bytes += file.name_bytes();
                bytes <= NAME_BYTES_MAX
            })
            .count();
        let left_out = (files.len() - named) as u64;
        files.truncate(named);
        Self { root, files, left_out, commits }
    }

    /// Returns how many files changed in all.
    pub fn count(&self) -> u64 {
        self.files.len() as u64 + self.left_out
    }
}

impl ChangedFile {
    fn name_bytes(&self) -> usize {
        let from = match &self.change {
            FileChange::Renamed { from } => from.len(),
            FileChange::Added | FileChange::Modified | FileChange::Deleted => 0,
        };
        self.path.len() + from
    }
}

/// A branch with the changes of a run in a work tree of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    pub name: String,
    /// The commit that the run began with.
    pub base: String,
    /// The last commit of the branch.
    pub tip: String,
}
