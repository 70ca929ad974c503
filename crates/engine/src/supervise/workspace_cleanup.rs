//! Removes empty folders that an agent's program leaves in the directory when its sandbox is killed, if they did not
//! exist before.

use std::path::{Path, PathBuf};

use backends::vendor::Quirk;
use domain::run::RunSpec;
use journal::RunDir;

use crate::launch::agent_process;

/// The folders that did not exist before, one path per line, in the run's work folder: for the process that ends the
/// run.
const ABSENT_DIRS_FILE: &str = "absent-before";

/// Records which of the folders that the program may leave do not exist.
pub(super) fn record_absent_dirs(dir: &RunDir, spec: &RunSpec) {
    let Some(backend) = backends::registry::by_kind(&spec.backend.kind) else { return };
    let directories = std::iter::once(&spec.directory).chain(&spec.setup.extra_directories);
    let left: Vec<&str> = backend
        .quirks()
        .iter()
        .filter_map(|quirk| {
            let Quirk::LeavesEmptyFolders(names) = quirk else { return None };
            Some(*names)
        })
        .flatten()
        .copied()
        .collect();
    let folders =
        directories.flat_map(|directory| left.iter().map(move |name| Path::new(directory).join(name)));
    let absent: Vec<PathBuf> = folders.filter(|folder| folder.symlink_metadata().is_err()).collect();
    let lines: String = absent.iter().filter_map(|path| Some(format!("{}\n", path.to_str()?))).collect();
    if !lines.is_empty() && !dir.work_dir().join(ABSENT_DIRS_FILE).exists() {
        // Without this file the folders stay, as they would without Volery.
        let _ = agent_process::write_file(dir, ABSENT_DIRS_FILE, lines.as_bytes());
    }
}

/// Removes the recorded folders that exist now and are empty.
pub(super) fn remove_empty_dirs(dir: &RunDir) {
    let path = dir.work_dir().join(ABSENT_DIRS_FILE);
    let Ok(lines) = std::fs::read_to_string(&path) else { return };
    for folder in lines.lines() {
        // A folder with content is somebody's work; this call does not remove it.
        let _ = std::fs::remove_dir(folder);
    }
    // Only once: folders that appear later are not the run's.
    let _ = std::fs::remove_file(path);
}
