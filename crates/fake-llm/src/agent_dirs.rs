//! The folders of an agent that runs apart from everything of its user.

use std::io;
use std::path::{Path, PathBuf};

/// The folders of one execution, initially empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentDirs {
    /// The agent's home: settings, sessions, caches.
    pub home: PathBuf,
    /// The working directory.
    pub work: PathBuf,
    /// The folder for temporary files. It is not above the home, because some sandboxes hide everything below the
    /// temporary folder.
    pub temp_dir: PathBuf,
}

impl AgentDirs {
    /// Creates the folders below `root`.
    pub fn create(root: &Path) -> io::Result<Self> {
        let root = root.canonicalize()?;
        let folders =
            Self { home: root.join("home"), work: root.join("work"), temp_dir: root.join("temporary") };
        for folder in [&folders.home, &folders.work, &folders.temp_dir] {
            std::fs::create_dir_all(folder)?;
        }
        Ok(folders)
    }

    /// Writes files, given as name and content, into the home.
    pub fn write_home_files(&self, files: &[(String, String)]) -> io::Result<()> {
        for (name, content) in files {
            let path = self.home.join(name);
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(path, content)?;
        }
        Ok(())
    }
}
