//! A cache of the versions that vendors' programs report, in the state directory: without it each command of a shell
//! would start the program again. An entry is valid while path, size, times and inode of the program's file are
//! unchanged.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use system_files::regular_file;

use crate::clock;
use crate::env;

/// How many versions are stored; the oldest is dropped.
const VERSIONS_MAX: usize = 64;
const BYTES_MAX: u64 = 256 << 10;

/// The file of a program at the time when its version was read.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct ProgramFile {
    pub argv: Vec<String>,
    bytes: u64,
    inode: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl ProgramFile {
    /// Returns the file that this command line starts; `None` if it does not exist.
    pub(crate) fn new(argv: &[String]) -> Option<Self> {
        let file = std::fs::metadata(argv.last()?).ok()?;
        Some(Self {
            argv: argv.to_vec(),
            bytes: file.len(),
            inode: file.ino(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct CachedVersion {
    program: ProgramFile,
    version: String,
}

/// Returns the version that the program reported earlier, to this or another process.
pub(crate) fn lookup(program: &ProgramFile) -> Option<String> {
    let versions = read(&path()?);
    versions.into_iter().find(|cached| cached.program == *program).map(|cached| cached.version)
}

/// Stores a version. An entry that cannot be stored is only asked for again, and of two concurrent writers one wins.
pub(crate) fn store(program: &ProgramFile, version: &str) {
    let Some(path) = path() else { return };
    let mut versions = read(&path);
    versions.retain(|cached| cached.program.argv != program.argv);
    versions.push(CachedVersion { program: program.clone(), version: version.to_owned() });
    let surplus = versions.len().saturating_sub(VERSIONS_MAX);
    versions.drain(..surplus);
    let temporary = path.with_extension(format!("{:x}", clock::new_tag()));
    let written = write(&temporary, &versions).and_then(|()| std::fs::rename(&temporary, &path));
    if written.is_err() {
        // If writing failed, there may be no file to remove.
        let _ = std::fs::remove_file(&temporary);
    }
}

/// Returns `None` without a state directory: asking for a version does not create one.
fn path() -> Option<PathBuf> {
    env::state_home().filter(|home| home.is_dir()).map(|home| home.join("versions.json"))
}

/// Returns the stored versions; none if the file cannot be read or parsed.
fn read(path: &Path) -> Vec<CachedVersion> {
    let bytes = regular_file::read_bytes(path, BYTES_MAX).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn write(path: &Path, versions: &[CachedVersion]) -> std::io::Result<()> {
    let text = serde_json::to_vec(versions)?;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&text)
}
