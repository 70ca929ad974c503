//! The files that a check sees: those of the repository, or a handful made up for a test.

use std::path::Path;
use std::{fs, io};

/// Folders that are built or downloaded, and therefore nobody's source.
const NOT_SOURCE: [&str; 4] = [".git", "target", ".cache", "node_modules"];

/// One text file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Relative to the root of the repository, with `/` between its parts.
    pub path: String,
    pub text: String,
}

/// A set of files, in the order of their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    pub files: Vec<File>,
}

impl File {
    /// Tells whether the file is only for tests, examples or benchmarks.
    pub fn is_test(&self) -> bool {
        let folders = ["/tests/", "/examples/", "/benches/"];
        self.path.ends_with("/tests.rs") || folders.iter().any(|folder| self.path.contains(folder))
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

impl Tree {
    /// Makes a tree from paths and texts.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File { path: (*path).to_owned(), text: (*text).to_owned() };
        Self { files: files.iter().map(file).collect() }
    }

    /// Reads the repository below `root`; files that are no text are left out.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.add_folder(root, "")?;
        tree.files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(tree)
    }

    /// Returns the Rust files of all crates.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is_rust())
    }

    pub fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    fn add_folder(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() && !NOT_SOURCE.contains(&name.as_str()) {
                self.add_folder(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file()
                && let Ok(text) = String::from_utf8(fs::read(entry.path())?)
            {
                self.files.push(File { path, text });
            }
        }
        Ok(())
    }
}
