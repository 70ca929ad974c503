//! A project in a temporary directory, with another directory outside of it.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use crate::agent_loop::tools::{
    EditRequest, FileRoots, ReadRequest, ResolvedPath, SearchRequest, ToolError, ToolOutput, WriteRequest,
    edit, list, read, search, write,
};

pub(super) struct Project {
    _base: tempfile::TempDir,
    pub(super) base: PathBuf,
    /// The allowed directory.
    pub(super) root: PathBuf,
    /// A second allowed directory.
    pub(super) extra: PathBuf,
    /// Where nothing may be read or written.
    pub(super) outside: PathBuf,
    pub(super) roots: FileRoots,
}

impl Project {
    pub(super) fn new() -> Self {
        let temp_dir = tempfile::tempdir().expect("a folder");
        let base = temp_dir.path().canonicalize().expect("it exists");
        let at = |name: &str| base.join(name);
        let (root, extra, outside) = (at("project"), at("extra"), at("outside"));
        for folder in [&root, &extra, &outside, &root.join("state")] {
            std::fs::create_dir(folder).expect("a folder");
        }
        std::fs::write(outside.join("secret"), "SECRET\n").expect("it is writable");
        std::fs::write(root.join("state/record"), "SECRET\n").expect("it is writable");
        let roots = FileRoots::open(&root, std::slice::from_ref(&extra), &[root.join("state")]);
        Self { _base: temp_dir, roots: roots.expect("the directories exist"), base, root, extra, outside }
    }

    pub(super) fn with_file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.root.join(name);
        std::fs::create_dir_all(path.parent().expect("it is in the project")).expect("a folder");
        std::fs::write(path, content).expect("it is writable");
        self
    }

    pub(super) fn resolve(&self, path: &str) -> Result<ResolvedPath, ToolError> {
        self.roots.resolve(path)
    }

    pub(super) fn read(&self, path: &str) -> Result<ToolOutput, ToolError> {
        read(&self.roots, &self.resolve(path)?, ReadRequest::default())
    }

    pub(super) fn read_lines(&self, path: &str, first: u64, count: u64) -> Result<ToolOutput, ToolError> {
        let request = ReadRequest { first_line: Some(first), lines_max: Some(count) };
        read(&self.roots, &self.resolve(path)?, request)
    }

    pub(super) fn write(&self, path: &str, content: &str) -> Result<ToolOutput, ToolError> {
        write(&self.roots, &self.resolve(path)?, &WriteRequest { content, call: "1" })
    }

    pub(super) fn edit(&self, path: &str, old: &str, new: &str) -> Result<ToolOutput, ToolError> {
        let request = EditRequest { old, new, replace_all: false, expected: None, call: "1" };
        edit(&self.roots, &self.resolve(path)?, &request).map(|(output, _)| output)
    }

    pub(super) fn list(&self, path: &str) -> Result<ToolOutput, ToolError> {
        list(&self.roots, &self.resolve(path)?)
    }

    pub(super) fn search(&self, pattern: &str, glob: Option<&str>) -> Result<ToolOutput, ToolError> {
        let request = SearchRequest { pattern, is_literal: false, ignore_case: false, glob };
        search(&self.roots, &self.resolve(".")?, &request, &AtomicBool::new(false))
    }

    pub(super) fn content(&self, name: &str) -> String {
        std::fs::read_to_string(self.root.join(name)).expect("it is text")
    }
}
