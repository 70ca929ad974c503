//! What changed on disk while a run went on, in the git work tree that holds its directory.

use serde::{Deserialize, Serialize};

/// The most files that are named; the rest is counted.
const FILES_MAX: usize = 1_000;
/// The most bytes of names: a line of the journal holds 1 MiB.
const NAME_BYTES_MAX: usize = 256 << 10;

/// The files that changed, by their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The work tree that the paths are relative to.
    pub root: String,
    pub files: Vec<ChangedFile>,
    /// How many more changed than are named.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// The commit that was checked out before and after, if that is another one.
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

/// What became of a file.
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

/// Where the checked-out branch stood.
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
    /// Puts files in order and names as many as may be named.
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

/// A branch that holds what a run did in a work tree of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    pub name: String,
    /// The commit that the run began with.
    pub base: String,
    /// The last commit of the branch.
    pub tip: String,
}
