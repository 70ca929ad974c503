//! What was set up, kept in the state directory so that it can be taken back.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::edit::{Done, Syntax};

/// What was done to one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) client: String,
    pub(crate) target: PathBuf,
    /// The project for which it was asked; none for the user's own set-up.
    pub(crate) project: Option<PathBuf>,
    pub(crate) syntax: Syntax,
    pub(crate) done: Vec<Done>,
    /// The digest of what was written.
    pub(crate) after: String,
    pub(crate) before: Before,
    /// Taking it back piece by piece gives the text as it was, and not only what it said.
    #[serde(default)]
    pub(crate) exact: bool,
    /// Folders that were made for it, outermost first.
    pub(crate) folders: Vec<PathBuf>,
}

/// What was there before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Before {
    Nothing,
    /// A copy of it stands beside the file.
    Copy {
        path: PathBuf,
        digest: String,
    },
    /// Somebody has changed the file between two set-ups: what was done is taken back piece by piece.
    Mixed {
        path: Option<PathBuf>,
        /// There was no file before the first of them.
        #[serde(default)]
        made: bool,
    },
}

impl Before {
    /// Tells whether the file was made for us.
    pub(crate) fn is_made(&self) -> bool {
        matches!(self, Self::Nothing | Self::Mixed { made: true, .. })
    }
}

/// All records.
#[derive(Debug)]
pub(crate) struct Records {
    folder: PathBuf,
}

impl Records {
    pub(crate) fn below(state: &Path) -> Self {
        Self { folder: state.join("set-up") }
    }

    /// Returns those of `volery import`. Apart from the others, so that each command takes back only what it did.
    pub(crate) fn of_imports(state: &Path) -> Self {
        Self { folder: state.join("imports") }
    }

    /// Returns every record that can be read, in the order of the files.
    pub(crate) fn all(&self) -> Vec<Record> {
        let files = fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok);
        let records =
            files.filter_map(|file| serde_json::from_slice::<Record>(&fs::read(file.path()).ok()?).ok());
        let mut records: Vec<Record> = records.collect();
        records.sort_by(|one, other| one.target.cmp(&other.target));
        records
    }

    /// Returns the record of a file; one that cannot be read counts as none.
    pub(crate) fn of(&self, target: &Path) -> Option<Record> {
        let record: Record = serde_json::from_slice(&fs::read(self.path(target)).ok()?).ok()?;
        (record.target == target).then_some(record)
    }

    pub(crate) fn keep(&self, record: &Record) -> io::Result<()> {
        DirBuilder::new().mode(0o700).recursive(true).create(&self.folder)?;
        let path = self.path(&record.target);
        let temporary = path.with_extension(format!("new-{}", std::process::id()));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(&serde_json::to_vec_pretty(record)?)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    }

    pub(crate) fn forget(&self, target: &Path) -> io::Result<()> {
        fs::remove_file(self.path(target))
    }

    fn path(&self, target: &Path) -> PathBuf {
        let name: String = digest(&target.to_string_lossy()).chars().take(32).collect();
        self.folder.join(format!("{name}.json"))
    }
}

/// Returns the digest of a text.
pub(crate) fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
