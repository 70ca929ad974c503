//! A folder for the temporary files of a vendor's program, which is removed with the run: such programs leave caches,
//! sockets and unpacked libraries behind wherever `TMPDIR` points.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use domain::run::RunSpec;
use journal::RunDir;

use crate::env;

/// A symbolic link in the run's work folder to the folder, for the process that ends the run.
const LINK: &str = "temporary";

/// Creates the folder for a run of a vendor's program, and returns the variable for the program. A second start of
/// the same run uses the first one's folder.
pub(crate) fn create(dir: &RunDir, spec: &RunSpec) -> io::Result<Option<(OsString, OsString)>> {
    let program = backends::registry::by_kind(&spec.backend.kind).and_then(|backend| backend.program());
    match program {
        None => Ok(None),
        Some(_) => Ok(Some(("TMPDIR".into(), create_private(dir, spec)?.into_os_string()))),
    }
}

/// Creates a folder that only this user can read. It is removed with the run.
pub(crate) fn create_private(dir: &RunDir, spec: &RunSpec) -> io::Result<PathBuf> {
    let work = dir.work_dir();
    let link = work.join(LINK);
    let folder = match fs::read_link(&link) {
        Ok(known) => known,
        Err(_) => {
            let folder = temp_root().join(dir_name(spec));
            DirBuilder::new().mode(0o700).recursive(true).create(&work)?;
            // The link comes first: its target is found even if this process dies before the next line.
            symlink(&folder, &link)?;
            folder
        }
    };
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_private(&folder) => {}
        created => created?,
    }
    Ok(folder)
}

/// Removes the folder, of this or of an earlier worker.
pub(crate) fn remove(dir: &RunDir, spec: &RunSpec) {
    let link = dir.work_dir().join(LINK);
    let Ok(folder) = fs::read_link(&link) else { return };
    // Volery made the link; its target must still look like a directory that Volery made.
    if folder.file_name() == Some(dir_name(spec).as_ref()) && is_private(&folder) {
        // A folder that cannot be removed is left to the cleaning of the folder above.
        let _ = fs::remove_dir_all(&folder);
    }
    let _ = fs::remove_file(&link);
}

/// The name is short, since programs put sockets there, whose paths have about a hundred bytes.
fn dir_name(spec: &RunSpec) -> OsString {
    format!("volery-{}", spec.id.short()).into()
}

fn temp_root() -> PathBuf {
    let set = env::get("TMPDIR").map(PathBuf::from).filter(|path| path.is_absolute());
    set.unwrap_or_else(|| PathBuf::from("/tmp"))
}

/// Returns whether this is a private directory of this user, and not a link to one.
fn is_private(folder: &Path) -> bool {
    let uid = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(folder)
        .is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == uid && metadata.mode() & 0o077 == 0)
}
