//! The files of clients: resolved safely, and replaced atomically.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use backends::client_setup::ConfigScope;

/// The limit is generous because Claude Code stores its history in its configuration.
const BYTES_MAX: u64 = 64 << 20;
const BACKUPS_MAX: u32 = 1000;

/// A file as it was found.
#[derive(Debug, Clone)]
pub(crate) struct FoundFile {
    /// The path after following links.
    pub(crate) target: PathBuf,
    pub(crate) text: Option<String>,
    scope: ConfigScope,
}

/// Why a file is not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("it leads out of the project, to {}", .0.display())]
    LeadsOut(PathBuf),
    #[error("it is not a file")]
    NotAFile,
    #[error("it is too large for a configuration")]
    TooLarge,
    #[error("line {line}, column {column}: not UTF-8 text")]
    NotText { line: usize, column: usize },
    #[error("it is read-only")]
    ReadOnly,
    #[error("somebody else changed it meanwhile")]
    ChangedMeanwhile,
    #[error("could not {action}: {source}")]
    Failed { action: &'static str, source: io::Error },
}

/// Finds and reads a file. A project's file must be inside the project, also after following links.
pub(crate) fn find_config_file(
    path: &Path,
    scope: ConfigScope,
    project: &Path,
) -> Result<FoundFile, FileError> {
    let target = resolve(path).map_err(failed("find it"))?;
    if scope == ConfigScope::Project {
        let project = fs::canonicalize(project).map_err(failed("find the project"))?;
        if !target.starts_with(&project) {
            return Err(FileError::LeadsOut(target));
        }
    }
    let text = read(&target)?;
    Ok(FoundFile { target, text, scope })
}

/// Follows links in the existing part of a path; the rest stays unchanged.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    if path.symlink_metadata().is_ok() {
        return fs::canonicalize(path);
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok(resolve(parent)?.join(name)),
        _ => Ok(path.to_owned()),
    }
}

fn read(target: &Path) -> Result<Option<String>, FileError> {
    let metadata = match fs::metadata(target) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read it")(error)),
    };
    if !metadata.is_file() {
        return Err(FileError::NotAFile);
    }
    let file = fs::File::open(target).map_err(failed("read it"))?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed("read it"))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(FileError::TooLarge);
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned();
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        FileError::NotText { line: before.matches('\n').count() + 1, column }
    })?;
    Ok(Some(text))
}

impl FoundFile {
    /// Checks the file's mode before anything is written.
    pub(crate) fn check_writable(&self) -> Result<(), FileError> {
        match fs::metadata(&self.target) {
            // A rename would succeed, but a read-only file is meant to stay unchanged.
            Ok(metadata) if metadata.mode() & 0o222 == 0 => Err(FileError::ReadOnly),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Writes a backup next to the file. Returns its path.
    pub(crate) fn back_up(&self) -> Result<Option<PathBuf>, FileError> {
        let Some(text) = &self.text else { return Ok(None) };
        let name = self.target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for number in 1..BACKUPS_MAX {
            let number = if number == 1 { String::new() } else { format!("-{number}") };
            let path = self.target.with_file_name(format!("{name}.before-volery{number}"));
            match self.write_sibling(&path, text) {
                Ok(()) => return Ok(Some(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed("keep a copy of it")(error)),
            }
        }
        Err(failed("keep a copy of it")(io::ErrorKind::AlreadyExists.into()))
    }

    /// Returns the folders that must be created for the file, outermost first.
    pub(crate) fn missing_folders(&self) -> Vec<PathBuf> {
        let above = self.target.ancestors().skip(1).take_while(|folder| !folder.exists());
        let mut missing: Vec<PathBuf> = above.map(Path::to_owned).collect();
        missing.reverse();
        missing
    }

    /// Replaces the file.
    pub(crate) fn replace(&self, text: &str) -> Result<(), FileError> {
        self.check_unchanged()?;
        self.make_folders().map_err(failed("make its folder"))?;
        let name = self.target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let temporary = self.target.with_file_name(format!(".{name}.volery-{}", std::process::id()));
        let written = self.write_sibling(&temporary, text);
        let placed = written.and_then(|()| fs::rename(&temporary, &self.target));
        placed.map_err(|error| {
            // The first error matters more than a leftover temporary file.
            let _ = fs::remove_file(&temporary);
            failed("write it")(error)
        })
    }

    /// Removes the file, and the folders that were created for it if they are empty.
    pub(crate) fn remove(&self, made: &[PathBuf]) -> Result<(), FileError> {
        self.check_unchanged()?;
        fs::remove_file(&self.target).map_err(failed("remove it"))?;
        remove_folders(made);
        Ok(())
    }

    fn check_unchanged(&self) -> Result<(), FileError> {
        if read(&self.target)? == self.text { Ok(()) } else { Err(FileError::ChangedMeanwhile) }
    }

    fn make_folders(&self) -> io::Result<()> {
        let mode = if self.scope == ConfigScope::User { 0o700 } else { 0o755 };
        for folder in self.missing_folders() {
            DirBuilder::new().mode(mode).create(folder)?;
        }
        Ok(())
    }

    /// Writes a file in the same folder, with the same mode and owner.
    fn write_sibling(&self, path: &Path, text: &str) -> io::Result<()> {
        let like = fs::metadata(&self.target).ok();
        let new = if self.scope == ConfigScope::User { 0o600 } else { 0o644 };
        let mode = like.as_ref().map_or(new, |like| like.mode() & 0o7777);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode & 0o700).open(path)?;
        if let Some(like) = &like {
            let own = file.metadata()?;
            if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
                fchown(&file, Some(like.uid()), Some(like.gid()))?;
            }
        }
        file.set_permissions(Permissions::from_mode(mode))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }
}

/// Removes folders that were created, given outermost first, if they are empty.
pub(super) fn remove_folders(made: &[PathBuf]) {
    for folder in made.iter().rev() {
        // A folder that is not empty is in use by somebody else.
        let _ = fs::remove_dir(folder);
    }
}

fn failed(action: &'static str) -> impl FnOnce(io::Error) -> FileError {
    move |source| FileError::Failed { action, source }
}
