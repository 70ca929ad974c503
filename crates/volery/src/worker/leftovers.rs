//! Empty folders that an agent's program leaves in the directory when its sandbox is killed: removed at the run's end, if
//! they were not there before.

use std::path::{Path, PathBuf};

use domain::run::RunSpec;
use journal::RunDir;

use super::agent;

/// What was not there before, in the run's work folder: one path per line, for whoever ends the run.
const ABSENT: &str = "absent-before";

/// Notes which of the folders that the run's program may leave are not there.
pub(super) fn note(dir: &RunDir, spec: &RunSpec) {
    let Some(backend) = backend::registry::by_kind(&spec.backend.kind) else { return };
    let places = std::iter::once(&spec.directory).chain(&spec.setup.extra_directories);
    let folders =
        places.flat_map(|place| backend.leaves().iter().map(move |name| Path::new(place).join(name)));
    let absent: Vec<PathBuf> = folders.filter(|folder| folder.symlink_metadata().is_err()).collect();
    let lines: String = absent.iter().filter_map(|path| Some(format!("{}\n", path.to_str()?))).collect();
    if !lines.is_empty() && !dir.work_dir().join(ABSENT).exists() {
        // Without the note the folders stay, as they would without us.
        let _ = agent::write_file(dir, ABSENT, lines.as_bytes());
    }
}

/// Removes those that are there now and empty.
pub(super) fn remove(dir: &RunDir) {
    let path = dir.work_dir().join(ABSENT);
    let Ok(lines) = std::fs::read_to_string(&path) else { return };
    for folder in lines.lines() {
        // One that holds something is somebody's work, and is not removed by this.
        let _ = std::fs::remove_dir(folder);
    }
    // Only once: what appears later is not the run's.
    let _ = std::fs::remove_file(path);
}
