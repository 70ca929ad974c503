//! Where the programs of vendors are, for this user, and of which version.

use std::collections::HashMap;
use std::os::unix::fs::DirBuilderExt;
use std::sync::{LazyLock, Mutex, PoisonError};

use backend::program::{Found, Program, Version, ask_version};
use domain::launch::Launch;

use crate::program_versions::{self, Asked};
use crate::{clock, env};

/// How many answers are remembered; one for each program, and for each of its updates while this process lives.
const ANSWERS_MAX: usize = 64;

/// What programs said of their version, also that they said nothing: this process asks each once.
static ANSWERS: LazyLock<Mutex<HashMap<Asked, Version>>> = LazyLock::new(Mutex::default);

/// Finds what a run starts: what its launch names, else the program where its user's variable says it is, else on the
/// search path.
pub fn find(program: &Program, launch: &Launch) -> Option<Found> {
    let path = env::get("PATH").unwrap_or_default();
    match (&launch.container, &launch.program) {
        (None, None) => program.find_for(&path, &env::get),
        (Some(_), _) | (_, Some(_)) => program.find_as(launch, &path),
    }
}

/// Returns what is worth saying about the version of what a run starts. What stands in a container is not asked.
pub fn doubt(program: &Program, launch: &Launch) -> Option<String> {
    if launch.container.is_some() {
        return None;
    }
    find(program, launch).and_then(|found| program.doubt(&version(&found)))
}

/// Returns the version that the package of a program names, else what the program says when it is asked.
pub fn version(found: &Found) -> Version {
    if let Some(version) = &found.version {
        return Version::Package(version.clone());
    }
    let Some(asked) = Asked::new(&found.argv) else {
        return Version::Untold("its file is gone".to_owned());
    };
    // Held while the program is asked, so that two who want to know do not ask twice.
    let mut answers = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(answer) = answers.get(&asked) {
        return answer.clone();
    }
    let answer = match program_versions::known(&asked) {
        Some(version) => Version::Own(version),
        None => ask(found).inspect(|version| program_versions::store(&asked, version)).map_or_else(
            // A program that told nothing may only have been too slow: another process asks it again.
            Version::Untold,
            Version::Own,
        ),
    };
    if answers.len() >= ANSWERS_MAX {
        answers.clear();
    }
    answers.insert(asked, answer.clone());
    answer
}

/// Asks in an empty home, so that a program that unpacks itself or begins a log does so nowhere else.
fn ask(found: &Found) -> Result<String, String> {
    let tag = clock::new_tag();
    let home = std::env::temp_dir().join(format!("volery-version-{tag:x}"));
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&home)
        .map_err(|error| format!("there is no place to ask it in: {error}"))?;
    let told = ask_version(found, &env::get("PATH").unwrap_or_default(), &home, tag);
    // What cannot be removed is a temporary folder like any other.
    let _ = std::fs::remove_dir_all(&home);
    told
}
