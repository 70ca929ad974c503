//! Opens the state directory `$VOLERY_HOME`, or refuses it with a reason.
//!
//! The path comes from the caller, which reads it from the environment.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::durable::{Disk, create_private, fresh_path};
use crate::filesystem;

/// The directories in a home.
const SUBDIRECTORIES: [&str; 9] =
    ["runs", "open", "keys", "sessions", "rosters", "slots", "sockets", "trust", "trash"];
/// How many bytes `check_writable` writes to probe for free space.
const PROBE_BYTES: usize = 4096;

/// An opened home. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Home {
    path: Arc<Path>,
    disk: Disk,
}

/// Why a directory cannot be the home. The texts fit after "could not".
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    #[error("use {} as volery's home: it belongs to user {owner}, and this is user {user}", path.display())]
    ForeignOwner { path: PathBuf, owner: u32, user: u32 },
    #[error("use {} as volery's home: it is not a directory", path.display())]
    NotADirectory { path: PathBuf },
    #[error(
        "use {} as volery's home: it is on {filesystem}, where locks and durable writes cannot be relied on",
        path.display()
    )]
    Remote { path: PathBuf, filesystem: String },
    #[error("use {} as volery's home: it holds other files and other users may enter it", path.display())]
    Shared { path: PathBuf },
    #[error("write to volery's home {}: {why}", path.display())]
    Unwritable { path: PathBuf, why: Unwritable, source: io::Error },
    #[error("{attempt} {}", path.display())]
    Io { attempt: &'static str, path: PathBuf, source: io::Error },
}

/// The kinds of reasons why a home cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unwritable {
    #[error("the disk is full")]
    Full,
    #[error("the disk quota is used up")]
    Quota,
    #[error("the filesystem is read-only")]
    ReadOnly,
    #[error("permission is denied")]
    Denied,
}

impl Unwritable {
    pub(crate) fn from_kind(kind: io::ErrorKind) -> Option<Self> {
        match kind {
            io::ErrorKind::StorageFull => Some(Self::Full),
            io::ErrorKind::QuotaExceeded => Some(Self::Quota),
            io::ErrorKind::ReadOnlyFilesystem => Some(Self::ReadOnly),
            io::ErrorKind::PermissionDenied => Some(Self::Denied),
            _ => None,
        }
    }
}

impl HomeError {
    /// Returns a hint for the user.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::ForeignOwner { .. } => {
                "set VOLERY_HOME to a directory of your own, or run volery as the user who owns this one"
            }
            Self::NotADirectory { .. } => "set VOLERY_HOME to a directory, or move the file away",
            Self::Remote { .. } => "set VOLERY_HOME to a directory on a local disk",
            Self::Shared { .. } => {
                "set VOLERY_HOME to an empty directory, or chmod 700 this one if that is meant"
            }
            Self::Unwritable { why: Unwritable::Full | Unwritable::Quota, .. } => {
                "free some space, or set VOLERY_HOME to a directory on another disk"
            }
            Self::Unwritable { why: Unwritable::ReadOnly | Unwritable::Denied, .. } => {
                "set VOLERY_HOME to a directory that you can write to"
            }
            Self::Io { .. } => "check the path, or set VOLERY_HOME to another directory",
        }
    }
}

impl Home {
    /// Opens the home and creates missing directories, readable only by their owner.
    pub fn open(path: &Path) -> Result<Self, HomeError> {
        let home = Self::open_on(path, Disk::default())?;
        let disk = match has_one_log(&home.path) {
            true => home.disk.with_one_log(),
            false => home.disk,
        };
        Ok(Self { path: home.path, disk })
    }

    /// Opens the home on a specific disk; tests pass one that fails.
    pub fn open_on(path: &Path, disk: Disk) -> Result<Self, HomeError> {
        let path = std::path::absolute(path).map_err(|error| home_error("find", path, error))?;
        if !path.exists() {
            create_directory(&path)?;
        }
        let metadata = fs::metadata(&path).map_err(|error| home_error("look at", &path, error))?;
        if !metadata.is_dir() {
            return Err(HomeError::NotADirectory { path });
        }
        check_owner(&path, metadata.uid(), rustix::process::geteuid().as_raw())?;
        check_filesystem(&path, metadata.dev())?;
        if metadata.mode() & 0o077 != 0 {
            restrict_permissions(&path)?;
        }
        let home = Self { path: path.into(), disk };
        home.create_subdirectories()?;
        Ok(home)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn runs_dir(&self) -> PathBuf {
        self.path.join("runs")
    }

    /// Returns the directory with a marker for each run whose end the index may not have recorded.
    pub fn markers_dir(&self) -> PathBuf {
        self.path.join("open")
    }

    pub fn keys_dir(&self) -> PathBuf {
        self.path.join("keys")
    }

    pub fn sessions_dir(&self) -> PathBuf {
        self.path.join(crate::sessions::FOLDER)
    }

    /// Returns the directory with the list of runs that each project shows.
    pub fn rosters_dir(&self) -> PathBuf {
        self.path.join("rosters")
    }

    pub fn slots_dir(&self) -> PathBuf {
        self.path.join("slots")
    }

    pub fn sockets_dir(&self) -> PathBuf {
        self.path.join("sockets")
    }

    pub fn trust_dir(&self) -> PathBuf {
        self.path.join("trust")
    }

    pub fn tokens_dir(&self) -> PathBuf {
        self.path.join("tokens")
    }

    /// Returns the directory that deleted runs are moved to first.
    pub fn trash_dir(&self) -> PathBuf {
        self.path.join("trash")
    }

    /// Checks that a run could be recorded: creates, writes, syncs and removes a small file.
    pub fn check_writable(&self) -> Result<(), HomeError> {
        let path = fresh_path(&self.path, "probe");
        let probed = create_private(&path).and_then(|file| {
            self.disk.write_all(&file, &[0; PROBE_BYTES])?;
            self.disk.sync(&file)
        });
        // A probe that was never created cannot be removed; one that remains only costs a page.
        let _ = fs::remove_file(&path);
        probed.map_err(|error| home_error("write to", &self.path, error))
    }

    /// Returns the home of a run's directory without checking that either exists.
    pub(crate) fn unchecked(path: &Path) -> Self {
        Self { path: path.into(), disk: Disk::default() }
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    fn create_subdirectories(&self) -> Result<(), HomeError> {
        let mut created = false;
        for name in SUBDIRECTORIES {
            let path = self.path.join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => created = true,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(home_error("create", &path, error)),
            }
        }
        if created {
            for path in [Some(self.path()), self.path.parent()].into_iter().flatten() {
                // Volery may not be allowed to read the parent; then its owner's writes make it durable.
                match fs::File::open(path).and_then(|directory| self.disk.sync(&directory)) {
                    Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
                        return Err(home_error("make durable", path, error));
                    }
                    Ok(()) | Err(_) => {}
                }
            }
        }
        Ok(())
    }
}

fn create_directory(path: &Path) -> Result<(), HomeError> {
    DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(path)
        .map_err(|error| home_error("create", path, error))
}

/// Removes other users' permissions, unless the directory is clearly something else, such as root's `/tmp`.
fn restrict_permissions(path: &Path) -> Result<(), HomeError> {
    let empty = fs::read_dir(path).map_err(|error| home_error("look into", path, error))?.next().is_none();
    if !empty && !path.join("runs").is_dir() {
        return Err(HomeError::Shared { path: path.to_owned() });
    }
    fs::set_permissions(path, Permissions::from_mode(0o700))
        .map_err(|error| home_error("take other users' rights from", path, error))
}

fn check_owner(path: &Path, owner: u32, user: u32) -> Result<(), HomeError> {
    if owner == user { Ok(()) } else { Err(HomeError::ForeignOwner { path: path.to_owned(), owner, user }) }
}

#[cfg(target_os = "linux")]
fn check_filesystem(path: &Path, device: u64) -> Result<(), HomeError> {
    let stat = rustix::fs::statfs(path).map_err(|error| home_error("look at", path, error.into()))?;
    // The field is signed and of the machine's word size; the magic numbers have 32 bits.
    let magic = (stat.f_type as u64) & 0xffff_ffff;
    let table = match magic {
        filesystem::FUSE => fs::read_to_string("/proc/self/mountinfo").unwrap_or_default(),
        _ => String::new(),
    };
    let mount_type = filesystem::mount_type(&table, (rustix::fs::major(device), rustix::fs::minor(device)));
    match filesystem::unsupported_filesystem(magic, mount_type) {
        Some(filesystem) => Err(HomeError::Remote { path: path.to_owned(), filesystem }),
        None => Ok(()),
    }
}

/// Returns whether the filesystem logs all its changes in order. XFS does, and so does the ext family with a journal,
/// which has an entry in `/proc` for each such filesystem. Returns `false` if that cannot be determined.
#[cfg(target_os = "linux")]
fn has_one_log(path: &Path) -> bool {
    let (Ok(stat), Ok(metadata)) = (rustix::fs::statfs(path), fs::metadata(path)) else { return false };
    match (stat.f_type as u64) & 0xffff_ffff {
        filesystem::XFS => true,
        filesystem::EXT => {
            let device = metadata.dev();
            let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
            let entry = fs::read_link(format!("/sys/dev/block/{major}:{minor}"));
            let name = entry.ok().and_then(|entry| Some(entry.file_name()?.to_str()?.to_owned()));
            // The journal is always inode 8, unless it is on a separate device.
            name.is_some_and(|name| Path::new(&format!("/proc/fs/jbd2/{name}-8")).exists())
        }
        _ => false,
    }
}

#[cfg(not(target_os = "linux"))]
fn has_one_log(_path: &Path) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn check_filesystem(_path: &Path, _device: u64) -> Result<(), HomeError> {
    // Filesystems have no portable numbers; `doctor` reports this as a weaker guarantee.
    Ok(())
}

fn home_error(attempt: &'static str, path: &Path, source: io::Error) -> HomeError {
    let path = path.to_owned();
    match Unwritable::from_kind(source.kind()) {
        Some(why) => HomeError::Unwritable { path, why, source },
        None => HomeError::Io { attempt, path, source },
    }
}

#[cfg(test)]
mod tests;
