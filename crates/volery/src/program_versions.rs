//! What vendors' programs answered when they were asked for their version, held in the state: each command of a shell
//! would else start the program once more. An answer holds while path, size, times and inode of the file are the same.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use backend::plain_file;
use serde::{Deserialize, Serialize};

use crate::{clock, env};

/// How many answers are held; the oldest is left out.
const ANSWERS_MAX: usize = 64;
const BYTES_MAX: u64 = 256 << 10;

/// A program as it was when it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Asked {
    pub argv: Vec<String>,
    bytes: u64,
    inode: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Asked {
    /// Returns what is asked when these words are started; nothing if the file is gone.
    pub fn new(argv: &[String]) -> Option<Self> {
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

/// One answer, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    program: Asked,
    version: String,
}

/// Returns what the program answered earlier, here or in another process.
pub fn known(asked: &Asked) -> Option<String> {
    let answers = read(&path()?);
    answers.into_iter().find(|answer| answer.program == *asked).map(|answer| answer.version)
}

/// Stores an answer. It is a cache: what cannot be stored is asked for again, and of two who store at once one wins.
pub fn store(asked: &Asked, version: &str) {
    let Some(path) = path() else { return };
    let mut answers = read(&path);
    answers.retain(|answer| answer.program.argv != asked.argv);
    answers.push(Answer { program: asked.clone(), version: version.to_owned() });
    let surplus = answers.len().saturating_sub(ANSWERS_MAX);
    answers.drain(..surplus);
    let temporary = path.with_extension(format!("{:x}", clock::new_tag()));
    let written = write(&temporary, &answers).and_then(|()| std::fs::rename(&temporary, &path));
    if written.is_err() {
        // Where nothing can be written, nothing may be there to remove.
        let _ = std::fs::remove_file(&temporary);
    }
}

/// Nothing where there is no state yet: asking for a version does not begin one.
fn path() -> Option<PathBuf> {
    env::state_home().filter(|home| home.is_dir()).map(|home| home.join("versions.json"))
}

/// Returns what is stored; a file that cannot be read or understood holds nothing.
fn read(path: &Path) -> Vec<Answer> {
    let bytes = plain_file::bytes(path, BYTES_MAX).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn write(path: &Path, answers: &[Answer]) -> std::io::Result<()> {
    let text = serde_json::to_vec(answers)?;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&text)
}
