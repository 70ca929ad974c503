//! Finds the programs of vendors for this user, and their versions.

use std::collections::HashMap;
use std::os::unix::fs::DirBuilderExt;
use std::sync::{LazyLock, Mutex, PoisonError};

use backends::program::{LocatedProgram, ProgramSpec, ProgramVersion};
use domain::launch::LaunchOverrides;

use crate::clock;
use crate::env;
use crate::programs::version_cache::{self, ProgramFile};

/// How many versions are cached: one for each program, and for each of its updates while this process lives.
const VERSIONS_MAX: usize = 64;

/// The versions of programs, including failures: this process asks each program once.
static VERSIONS: LazyLock<Mutex<HashMap<ProgramFile, ProgramVersion>>> = LazyLock::new(Mutex::default);

/// Finds the program that a run starts: the one that its launch names, else the one that its user's variable names,
/// else on the search path.
pub fn find(program: &ProgramSpec, launch: &LaunchOverrides) -> Option<LocatedProgram> {
    let path = env::get("PATH").unwrap_or_default();
    match (&launch.container, &launch.program) {
        (None, None) => program.find_for_user(&path, &env::get),
        (Some(_), _) | (_, Some(_)) => program.find_for_launch(launch, &path),
    }
}

/// Returns a warning about the version of the program that a run starts. A program in a container is not asked.
pub fn version_warning(program: &ProgramSpec, launch: &LaunchOverrides) -> Option<String> {
    if launch.container.is_some() {
        return None;
    }
    find(program, launch).and_then(|found| program.version_warning(&version(&found)))
}

/// Returns the version that the package of a program names, else the one that the program reports.
pub fn version(found: &LocatedProgram) -> ProgramVersion {
    if let Some(version) = &found.version {
        return ProgramVersion::Package(version.clone());
    }
    let Some(program) = ProgramFile::new(&found.argv) else {
        return ProgramVersion::Unknown("its file is gone".to_owned());
    };
    // The lock is held while the program runs, so that two callers do not ask it twice.
    let mut versions = VERSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(cached) = versions.get(&program) {
        return cached.clone();
    }
    let cached = match version_cache::lookup(&program) {
        Some(version) => ProgramVersion::SelfReported(version),
        None => query_version(found).inspect(|version| version_cache::store(&program, version)).map_or_else(
            // A program that reported nothing may only have been too slow: another process asks it again.
            ProgramVersion::Unknown,
            ProgramVersion::SelfReported,
        ),
    };
    if versions.len() >= VERSIONS_MAX {
        versions.clear();
    }
    versions.insert(program, cached.clone());
    cached
}

/// Asks for the version in an empty home, so that a program that unpacks itself or begins a log writes nowhere else.
fn query_version(found: &LocatedProgram) -> Result<String, String> {
    let tag = clock::new_tag();
    let home = std::env::temp_dir().join(format!("volery-version-{tag:x}"));
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&home)
        .map_err(|error| format!("there is no place to ask it in: {error}"))?;
    let answer = crate::programs::version_probe::probe_version(
        found,
        &env::get("PATH").unwrap_or_default(),
        &home,
        tag,
    );
    // A folder that cannot be removed is a temporary folder like any other.
    let _ = std::fs::remove_dir_all(&home);
    answer
}
