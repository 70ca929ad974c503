//! Records of edited files, stored in the state directory so that edits can be undone.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use backends::client_setup::Syntax;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::edit::AppliedEdit;

/// The edits of one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) client: String,
    pub(crate) target: PathBuf,
    /// The project that the edit was made for; `None` for the user's configuration.
    pub(crate) project: Option<PathBuf>,
    pub(crate) syntax: Syntax,
    pub(crate) done: Vec<AppliedEdit>,
    /// The digest of the text that was written.
    pub(crate) after: String,
    pub(crate) before: PreviousContent,
    /// Undoing the edits one by one restores the exact text, not only its meaning.
    #[serde(default)]
    pub(crate) exact: bool,
    /// Folders that were created for the file, outermost first.
    pub(crate) folders: Vec<PathBuf>,
}

/// The content of a file before Volery's first edit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PreviousContent {
    Nothing,
    /// A backup is next to the file.
    Copy {
        path: PathBuf,
        digest: String,
    },
    /// Somebody changed the file between two of Volery's edits, which must be undone one by one.
    Mixed {
        path: Option<PathBuf>,
        /// There was no file before the first edit.
        #[serde(default)]
        made: bool,
    },
}

impl PreviousContent {
    /// Returns whether Volery created the file.
    pub(crate) fn was_created(&self) -> bool {
        matches!(self, Self::Nothing | Self::Mixed { made: true, .. })
    }
}

/// All records.
#[derive(Debug)]
pub(crate) struct Records {
    folder: PathBuf,
}

impl Records {
    pub(crate) fn for_setup(state: &Path) -> Self {
        Self { folder: state.join("set-up") }
    }

    /// Returns the records of `volery import`. Separate from the others, so that each command undoes only its own edits.
    pub(crate) fn for_imports(state: &Path) -> Self {
        Self { folder: state.join("imports") }
    }

    /// Returns every readable record, sorted by file.
    pub(crate) fn all(&self) -> Vec<Record> {
        let files = fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok);
        let records =
            files.filter_map(|file| serde_json::from_slice::<Record>(&fs::read(file.path()).ok()?).ok());
        let mut records: Vec<Record> = records.collect();
        records.sort_by(|one, other| one.target.cmp(&other.target));
        records
    }

    /// Returns the record of a file; an unreadable one counts as missing.
    pub(crate) fn find(&self, target: &Path) -> Option<Record> {
        let record: Record = serde_json::from_slice(&fs::read(self.path(target)).ok()?).ok()?;
        (record.target == target).then_some(record)
    }

    pub(crate) fn save(&self, record: &Record) -> io::Result<()> {
        DirBuilder::new().mode(0o700).recursive(true).create(&self.folder)?;
        let path = self.path(&record.target);
        let temporary = path.with_extension(format!("new-{}", std::process::id()));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(&serde_json::to_vec_pretty(record)?)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    }

    pub(crate) fn remove(&self, target: &Path) -> io::Result<()> {
        fs::remove_file(self.path(target))
    }

    fn path(&self, target: &Path) -> PathBuf {
        let name: String = digest(&target.to_string_lossy()).chars().take(32).collect();
        self.folder.join(format!("{name}.json"))
    }
}

/// Returns the digest of a text.
pub(crate) fn digest(text: &str) -> String {
    domain::hex::hex(&Sha256::digest(text.as_bytes()))
}
