//! The directories that file tools may use, and the paths in them. Compares names only: whether a name leads there is
//! decided by the kernel when it is opened (`open.rs`).

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::error::{ToolError, shown};

/// The longest path that the kernel takes.
const PATH_BYTES_MAX: usize = 4095;

/// Decides whether a list or a search may show a file or a directory.
pub(crate) type Visibility = Box<dyn Fn(&Path, EntryKind) -> bool + Send + Sync>;

/// What an entry of a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Directory,
    /// Or anything else that is not a directory.
    File,
}

/// The allowed directories of a run, opened once: a directory that is renamed or replaced later makes no difference.
pub(crate) struct FileRoots {
    /// The run's own directory is the first.
    roots: Vec<Root>,
    protected: Vec<PathBuf>,
    /// `None`: everything that is not protected.
    visibility: Option<Visibility>,
}

#[derive(Debug)]
struct Root {
    /// As the caller names it, which may be through a link.
    given_path: PathBuf,
    path: PathBuf,
    directory: OwnedFd,
}

/// A path in an allowed directory. Whoever judges it, judges what is opened: the last step follows no link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolvedPath {
    root: usize,
    relative: PathBuf,
    absolute: PathBuf,
    shown: String,
}

impl ResolvedPath {
    /// Returns the path without links, as access rules judge it.
    pub(crate) fn absolute(&self) -> &Path {
        &self.absolute
    }

    /// Returns the path for messages: relative in the run's directory, absolute in others.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns the path below its root; empty for the root itself.
    pub(super) fn relative(&self) -> &Path {
        &self.relative
    }
}

impl FileRoots {
    /// Opens the directory of a run and its further directories. Nothing beneath a protected path can be reached, even
    /// if it is in one of them.
    pub(crate) fn open(directory: &Path, extra: &[PathBuf], protected: &[PathBuf]) -> io::Result<Self> {
        let all = std::iter::once(directory).chain(extra.iter().map(PathBuf::as_path));
        let roots = all.map(Root::open).collect::<io::Result<_>>()?;
        let protected = protected.iter().map(|path| resolve_existing(path)).collect();
        Ok(Self { roots, protected, visibility: None })
    }

    /// Hides entries of directories from lists and searches.
    #[must_use]
    pub(crate) fn with_visibility(self, visibility: Visibility) -> Self {
        Self { visibility: Some(visibility), ..self }
    }

    /// Returns whether a list or a search may show an entry.
    pub(super) fn is_visible(&self, absolute: &Path, kind: EntryKind) -> bool {
        !self.is_protected(absolute)
            && self.visibility.as_ref().is_none_or(|is_visible| is_visible(absolute, kind))
    }

    /// Returns where a path leads by its name: a relative one starts in the run's directory. `..` is taken from the
    /// name, which is exact, since no link is followed later.
    pub(crate) fn resolve(&self, path: &str) -> Result<ResolvedPath, ToolError> {
        if path.is_empty() {
            return Err(ToolError::EmptyPath);
        }
        if path.contains('\0') {
            return Err(ToolError::NulInPath);
        }
        if path.len() > PATH_BYTES_MAX {
            return Err(ToolError::PathTooLong(path.len()));
        }
        let outside = || ToolError::Outside {
            path: shown(Path::new(path)),
            roots: self.roots.iter().map(|root| root.path.clone()).collect(),
        };
        let own = self.roots.first().ok_or_else(outside)?;
        let absolute = without_dots(&own.path.join(path));
        let found = self.roots.iter().enumerate().find_map(|(index, root)| {
            let below =
                absolute.strip_prefix(&root.path).or_else(|_| absolute.strip_prefix(&root.given_path));
            below.ok().map(|relative| (index, root.path.join(relative), relative.to_owned()))
        });
        let (root, absolute, relative) = found.ok_or_else(outside)?;
        let resolved = ResolvedPath {
            root,
            shown: shown(if root == 0 { &relative } else { &absolute }),
            relative,
            // Joining an empty path appends a separator.
            absolute: without_dots(&absolute),
        };
        match self.is_protected(&resolved.absolute) {
            true => Err(ToolError::Protected { path: resolved.shown }),
            false => Ok(resolved),
        }
    }

    pub(super) fn is_protected(&self, absolute: &Path) -> bool {
        self.protected.iter().any(|protected| absolute.starts_with(protected))
    }

    pub(super) fn directory_of(&self, path: &ResolvedPath) -> &OwnedFd {
        let root = self.roots.get(path.root).or(self.roots.first());
        &root.expect("there is always the run's own directory").directory
    }
}

impl Root {
    fn open(named: &Path) -> io::Result<Self> {
        let path = named.canonicalize()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::open(&path, flags, Mode::empty())?;
        Ok(Self { given_path: without_dots(named), path, directory })
    }
}

/// Removes `.` and `..` by name. The parent of the root is the root.
fn without_dots(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            // At the root there is nothing to remove, as in the kernel.
            Component::ParentDir => {
                clean.pop();
            }
            Component::RootDir | Component::Prefix(_) | Component::Normal(_) => clean.push(component),
        }
    }
    clean
}

/// Resolves the links of the part of a path that exists: Volery's folders may not exist yet.
fn resolve_existing(path: &Path) -> PathBuf {
    let mut absent: Vec<&OsStr> = Vec::new();
    let mut existing = path;
    loop {
        if let Ok(mut resolved) = existing.canonicalize() {
            resolved.extend(absent.iter().rev());
            return resolved;
        }
        match (existing.file_name(), existing.parent()) {
            (Some(name), Some(parent)) => {
                absent.push(name);
                existing = parent;
            }
            _ => return without_dots(path),
        }
    }
}
