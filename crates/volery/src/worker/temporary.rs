//! A folder for the temporary files of a vendor's program, which goes with the run: such programs leave caches,
//! sockets and unpacked libraries behind wherever `TMPDIR` points.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use domain::run::RunSpec;
use journal::RunDir;

use crate::env;

/// In the run's work folder: leads to the folder, for whoever ends the run.
const LINK: &str = "temporary";

/// Makes the folder of a run that drives a vendor's program, and returns the variable that tells the program. A second
/// start of the same run finds the first one's folder.
pub(super) fn make(dir: &RunDir, spec: &RunSpec) -> io::Result<Option<(OsString, OsString)>> {
    let of_vendor = backend::registry::by_kind(&spec.backend.kind).and_then(|backend| backend.program());
    if of_vendor.is_none() {
        return Ok(None);
    }
    let work = dir.work_dir();
    let link = work.join(LINK);
    let folder = match fs::read_link(&link) {
        Ok(known) => known,
        Err(_) => {
            let folder = parent().join(name(spec));
            DirBuilder::new().mode(0o700).recursive(true).create(&work)?;
            // The link first: what it leads to is found even if this process ends before the next line.
            symlink(&folder, &link)?;
            folder
        }
    };
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_own(&folder) => {}
        made => made?,
    }
    Ok(Some(("TMPDIR".into(), folder.into_os_string())))
}

/// Removes the folder, whichever worker made it.
pub(super) fn remove(dir: &RunDir, spec: &RunSpec) {
    let link = dir.work_dir().join(LINK);
    let Ok(folder) = fs::read_link(&link) else { return };
    // The link was ours when it was made; what it names now must still look like it.
    if folder.file_name() == Some(name(spec).as_ref()) && is_own(&folder) {
        // What cannot be removed is left to whoever cleans the folder above.
        let _ = fs::remove_dir_all(&folder);
    }
    let _ = fs::remove_file(&link);
}

/// Short, since programs put sockets there, whose paths have about a hundred bytes.
fn name(spec: &RunSpec) -> OsString {
    format!("volery-{}", spec.id.short()).into()
}

fn parent() -> PathBuf {
    let set = env::get("TMPDIR").map(PathBuf::from).filter(|path| path.is_absolute());
    set.unwrap_or_else(|| PathBuf::from("/tmp"))
}

/// Tells whether this is a directory of this user's, and not a link to one.
fn is_own(folder: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(folder)
        .is_ok_and(|found| found.is_dir() && found.uid() == own && found.mode() & 0o077 == 0)
}
