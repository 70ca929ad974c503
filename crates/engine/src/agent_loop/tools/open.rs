//! Opens files and directories beneath an allowed directory. The name that was judged is what is opened: the kernel
//! follows no link on the way, whatever is renamed or replaced meanwhile.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;

use super::error::{ToolError, shown};
use super::paths::{FileRoots, ResolvedPath};

/// How often a lookup is repeated that a rename elsewhere has disturbed.
const LOOKUPS_MAX: usize = 16;

const HANDLE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const READING: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a regular file for reading.
pub(super) fn open_file(roots: &FileRoots, path: &ResolvedPath) -> Result<(File, Stat), ToolError> {
    // First only a handle: even opening a pipe or a device has an effect on the process at its other end.
    let handle = open_beneath(roots, path, HANDLE)?;
    let found = stat(&handle, path)?;
    let kind = FileType::from_raw_mode(found.st_mode);
    if kind != FileType::RegularFile {
        return Err(ToolError::NotRegular { path: path.shown().to_owned(), kind: kind_name(kind) });
    }
    check_links(&found, path)?;
    check_file_system(handle.as_fd(), path)?;
    let opened = open_beneath(roots, path, READING)?;
    let stat = stat(&opened, path)?;
    match (stat.st_dev, stat.st_ino) == (found.st_dev, found.st_ino) {
        true => Ok((File::from(opened), stat)),
        false => Err(ToolError::Replaced { path: path.shown().to_owned() }),
    }
}

/// Opens a directory for reading.
pub(super) fn open_directory(roots: &FileRoots, path: &ResolvedPath) -> Result<OwnedFd, ToolError> {
    let directory = open_beneath(roots, path, READING | OFlags::DIRECTORY)?;
    check_file_system(directory.as_fd(), path)?;
    Ok(directory)
}

/// Returns what a path is, without following a link.
pub(super) fn kind_of(roots: &FileRoots, path: &ResolvedPath) -> Result<FileType, ToolError> {
    let handle = open_beneath(roots, path, HANDLE)?;
    Ok(FileType::from_raw_mode(stat(&handle, path)?.st_mode))
}

/// The directory of a file that is to be written, and the file's name in it.
pub(super) struct Parent {
    pub(super) directory: OwnedFd,
    pub(super) name: OsString,
}

/// Opens the directory of a file, and creates the directories on the way.
pub(super) fn open_parent(roots: &FileRoots, path: &ResolvedPath) -> Result<Parent, ToolError> {
    let is_directory = || ToolError::NotRegular { path: path.shown().to_owned(), kind: "a directory" };
    let name = path.relative().file_name().ok_or_else(is_directory)?.to_owned();
    let root = roots.directory_of(path);
    let mut directory = root.try_clone().map_err(|source| io_error("open", path, source))?;
    for part in path.relative().parent().into_iter().flat_map(Path::components) {
        let Component::Normal(part) = part else { continue };
        directory = match enter(directory.as_fd(), part) {
            Err(Errno::NOENT) => {
                match rustix::fs::mkdirat(&directory, part, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(explain(roots, path, errno)),
                }
                enter(directory.as_fd(), part)
            }
            entered => entered,
        }
        .map_err(|errno| explain(roots, path, errno))?;
    }
    check_file_system(directory.as_fd(), path)?;
    Ok(Parent { directory, name })
}

impl Parent {
    /// Returns the regular file that a new one would replace, if there is one.
    pub(super) fn existing(&self, roots: &FileRoots, path: &ResolvedPath) -> Result<Option<Stat>, ToolError> {
        let found = match statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(explain(roots, path, errno)),
            Ok(found) => found,
        };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile if found.st_mode & 0o222 == 0 => {
                Err(ToolError::ReadOnly { path: path.shown().to_owned() })
            }
            FileType::RegularFile => Ok(Some(found)),
            FileType::Symlink => Err(explain(roots, path, Errno::LOOP)),
            kind => Err(ToolError::NotRegular { path: path.shown().to_owned(), kind: kind_name(kind) }),
        }
    }
}

/// Opens a directory by its name in another. A link is an error.
pub(super) fn enter(directory: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat(directory, name, HANDLE | OFlags::DIRECTORY, Mode::empty())
}

/// Refuses files that have another name, which may be outside of what the run may reach.
pub(super) fn check_links(found: &Stat, path: &ResolvedPath) -> Result<(), ToolError> {
    // The type of this field differs between architectures.
    #[cfg_attr(target_arch = "x86_64", expect(clippy::useless_conversion, reason = "narrower elsewhere"))]
    let links = u64::from(found.st_nlink);
    match links {
        0 | 1 => Ok(()),
        links => Err(ToolError::HardLinks { path: path.shown().to_owned(), links }),
    }
}

pub(super) fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        FileType::Unknown => "an unknown kind of file",
    }
}

pub(super) fn io_error(attempt: &'static str, path: &ResolvedPath, source: std::io::Error) -> ToolError {
    ToolError::Io { attempt, path: path.shown().to_owned(), source }
}

fn stat(handle: &OwnedFd, path: &ResolvedPath) -> Result<Stat, ToolError> {
    fstat(handle).map_err(|errno| io_error("look at", path, errno.into()))
}

fn open_beneath(roots: &FileRoots, path: &ResolvedPath, flags: OFlags) -> Result<OwnedFd, ToolError> {
    let relative = match path.relative() {
        root if root.as_os_str().is_empty() => Path::new("."),
        relative => relative,
    };
    let root = roots.directory_of(path).as_fd();
    let opened = match has_openat2() {
        true => open_by_kernel(root, relative, flags),
        false => open_by_steps(root, relative, flags),
    };
    opened.map_err(|errno| explain(roots, path, errno))
}

/// Returns whether the kernel has `openat2`, and no filter of a container refuses it.
#[cfg(target_os = "linux")]
fn has_openat2() -> bool {
    use std::sync::OnceLock;

    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| open_by_kernel(rustix::fs::CWD, Path::new("."), HANDLE).is_ok())
}

#[cfg(not(target_os = "linux"))]
fn has_openat2() -> bool {
    false
}

#[cfg(target_os = "linux")]
fn open_by_kernel(root: BorrowedFd<'_>, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::{ResolveFlags, openat2};
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // With this flag, a handle would be one of the link itself instead of an error.
    let flags = flags - OFlags::NOFOLLOW;
    let mut last = Errno::AGAIN;
    for _ in 0..LOOKUPS_MAX {
        match openat2(root, relative, flags, Mode::empty(), resolve) {
            Err(errno @ (Errno::AGAIN | Errno::INTR)) => last = errno,
            opened => return opened,
        }
    }
    Err(last)
}

#[cfg(not(target_os = "linux"))]
fn open_by_kernel(root: BorrowedFd<'_>, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    open_by_steps(root, relative, flags)
}

/// For kernels without `openat2`: opens each directory on the way by its name, without following links. The path has
/// no `..`, so this never leaves the root.
fn open_by_steps(root: BorrowedFd<'_>, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut directory = enter(root, OsStr::new("."))?;
    let (Some(parent), Some(name)) = (relative.parent(), relative.file_name()) else {
        return openat(&directory, ".", flags, Mode::empty());
    };
    for part in parent.components() {
        directory = enter(directory.as_fd(), part.as_os_str())?;
    }
    let opened = openat(&directory, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
    // A mere handle can be one of the link itself.
    match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
        FileType::Symlink => Err(Errno::LOOP),
        _ => Ok(opened),
    }
}

/// Says in words why a path cannot be opened.
pub(super) fn explain(roots: &FileRoots, path: &ResolvedPath, errno: Errno) -> ToolError {
    let shown_path = path.shown().to_owned();
    match errno {
        Errno::LOOP | Errno::NOTDIR | Errno::XDEV | Errno::NOENT => match find_blocking_part(roots, path) {
            Some(error) => error,
            None if errno == Errno::NOENT => ToolError::NotFound { path: shown_path },
            None => ToolError::Replaced { path: shown_path },
        },
        Errno::NAMETOOLONG => ToolError::PathTooLong(path.absolute().as_os_str().len()),
        Errno::AGAIN => ToolError::Replaced { path: shown_path },
        errno => io_error("open", path, errno.into()),
    }
}

/// Finds the first part of a path that is a link, or a file where a directory is needed.
fn find_blocking_part(roots: &FileRoots, path: &ResolvedPath) -> Option<ToolError> {
    let mut directory = roots.directory_of(path).try_clone().ok()?;
    let parts: Vec<_> = path.relative().components().collect();
    let root = path.absolute().ancestors().nth(parts.len()).filter(|_| path.shown().starts_with('/'));
    let mut so_far = root.unwrap_or(Path::new("")).to_owned();
    for (index, part) in parts.iter().enumerate() {
        let name = part.as_os_str();
        so_far.push(name);
        let found = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => directory = enter(directory.as_fd(), name).ok()?,
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&directory, name, Vec::new()).ok()?;
                let target = shown(Path::new(OsStr::from_bytes(target.to_bytes())));
                return Some(ToolError::SymbolicLink { link: shown(&so_far), target });
            }
            kind if index + 1 < parts.len() => {
                return Some(ToolError::NotDirectory { path: shown(&so_far), kind: kind_name(kind) });
            }
            _ => return None,
        }
    }
    None
}

/// File systems that show the kernel's state as files: reading some of them has effects, and links in them lead anywhere.
#[cfg(target_os = "linux")]
const KERNEL_FILE_SYSTEMS: [(i64, &str); 9] = [
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0x6265_6570, "configfs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0xcafe_4a11, "bpf"),
];

#[cfg(target_os = "linux")]
pub(super) fn check_file_system(file: BorrowedFd<'_>, path: &ResolvedPath) -> Result<(), ToolError> {
    let found = rustix::fs::fstatfs(file).map_err(|errno| io_error("look at", path, errno.into()))?;
    #[cfg_attr(
        target_pointer_width = "64",
        expect(clippy::useless_conversion, reason = "narrower elsewhere")
    )]
    let kind = i64::from(found.f_type);
    match KERNEL_FILE_SYSTEMS.into_iter().find(|(magic, _)| *magic == kind) {
        None => Ok(()),
        Some((_, file_system)) => Err(ToolError::KernelFile { path: path.shown().to_owned(), file_system }),
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn check_file_system(_file: BorrowedFd<'_>, _path: &ResolvedPath) -> Result<(), ToolError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_refuse_what_the_kernel_refuses() {
        let base = tempfile::tempdir().unwrap();
        let root = base.path().join("root");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/file"), "x").unwrap();
        std::fs::write(base.path().join("secret"), "x").unwrap();
        std::os::unix::fs::symlink("..", root.join("up")).unwrap();
        std::os::unix::fs::symlink("a/b/file", root.join("link")).unwrap();
        std::os::unix::fs::symlink("a", root.join("dir")).unwrap();
        let directory = rustix::fs::open(&root, HANDLE | OFlags::DIRECTORY, Mode::empty()).unwrap();
        for (path, flags, opens) in [
            ("a/b/file", READING, true),
            ("a/b", HANDLE, true),
            (".", READING | OFlags::DIRECTORY, true),
            ("link", READING, false),
            ("link", HANDLE, false),
            ("dir/b/file", READING, false),
            ("up/secret", READING, false),
            ("a/absent", READING, false),
        ] {
            let by_kernel = open_by_kernel(directory.as_fd(), Path::new(path), flags);
            let by_steps = open_by_steps(directory.as_fd(), Path::new(path), flags);
            assert_eq!((by_kernel.is_ok(), by_steps.is_ok()), (opens, opens), "{path}");
        }
    }
}
