//! The files that a check sees: those of the repository, or a few invented ones for a test.

use std::path::Path;
use std::sync::OnceLock;
use std::{fs, io};

use crate::lexer::{self, SourceParts};

/// Folders that are built or downloaded and contain no source.
const NOT_SOURCE: [&str; 4] = [".git", "target", ".cache", "node_modules"];

/// One text file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Relative to the root of the repository, with `/` between its parts.
    pub path: String,
    pub text: String,
    /// Read by the first check that needs them.
    parts: OnceLock<SourceParts>,
}

/// A set of files, in the order of their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceTree {
    pub files: Vec<SourceFile>,
}

impl SourceFile {
    fn new(path: String, text: String) -> Self {
        Self { path, text, parts: OnceLock::new() }
    }

    /// Returns the code, comments and strings of a Rust file.
    pub fn parts(&self) -> &SourceParts {
        self.parts.get_or_init(|| lexer::split(&self.text))
    }

    /// Returns whether the file is only for tests, examples or benchmarks.
    pub fn is_test(&self) -> bool {
        let folders = ["/tests/", "/examples/", "/benches/"];
        self.path.ends_with("/tests.rs") || folders.iter().any(|folder| self.path.contains(folder))
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

impl SourceTree {
    pub fn from_files(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| SourceFile::new((*path).to_owned(), (*text).to_owned());
        Self { files: files.iter().map(file).collect() }
    }

    /// Reads the repository below `root`; skips files that are not UTF-8.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.add_folder(root, "")?;
        tree.files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(tree)
    }

    /// Returns the Rust files of all crates.
    pub fn rust(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.is_rust())
    }

    pub fn get(&self, path: &str) -> Option<&SourceFile> {
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
                self.files.push(SourceFile::new(path, text));
            }
        }
        Ok(())
    }
}
