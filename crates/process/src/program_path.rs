//! Finds the program that an agent's command line names, and explains why one could not be executed.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::error::SpawnError;

/// The longest first line of a script that is looked at, as in the kernel.
const FIRST_LINE_BYTES: u64 = 256;

/// Returns the path of a program: as the agent's own PATH finds it, or relative to its directory. Programs that
/// `can_execute` refuses are passed over.
pub(super) fn resolve(
    name: &OsStr,
    env: &[(OsString, OsString)],
    directory: &Path,
    can_execute: &dyn Fn(&Path) -> bool,
) -> Result<PathBuf, SpawnError> {
    if name.is_empty() {
        return Err(SpawnError::Empty);
    }
    if name.as_bytes().contains(&b'/') {
        let program = directory.join(name);
        // One that does not exist is explained when it cannot be executed.
        return match can_execute(&program) || !program.exists() {
            true => Ok(program),
            false => Err(SpawnError::OutsideConfinement { program }),
        };
    }
    let Some((_, path)) = env.iter().rev().find(|(key, _)| key == "PATH") else {
        return Err(SpawnError::NoPath { program: name.to_owned() });
    };
    let (mut refused, mut outside) = (None, None);
    for folder in std::env::split_paths(path) {
        let candidate = directory.join(folder).join(name);
        if !candidate.is_file() {
            continue;
        }
        match access(&candidate, Access::EXEC_OK) {
            Ok(()) if can_execute(&candidate) => return Ok(candidate),
            Ok(()) => outside = outside.or(Some(candidate)),
            Err(_) => refused = refused.or(Some(candidate)),
        }
    }
    if let Some(program) = outside {
        return Err(SpawnError::OutsideConfinement { program });
    }
    match refused {
        Some(program) => Err(SpawnError::NotExecutable { program, reason: "permission denied" }),
        None => Err(SpawnError::NotInPath { program: name.to_owned(), path: path.clone() }),
    }
}

/// Explains an error of exec for this program.
pub(super) fn explain(program: &Path, error: io::Error) -> SpawnError {
    let program = program.to_owned();
    match error.raw_os_error() {
        Some(libc::ENOENT) if program.exists() => match interpreter(&program) {
            Some(interpreter) => SpawnError::NoInterpreter { program, interpreter },
            None => SpawnError::NotExecutable { program, reason: "its loader does not exist" },
        },
        Some(libc::ENOENT | libc::ENOTDIR) => SpawnError::NoProgram { program },
        Some(libc::EACCES) if program.is_dir() => {
            SpawnError::NotExecutable { program, reason: "it is a directory" }
        }
        Some(libc::EACCES | libc::EPERM) => {
            SpawnError::NotExecutable { program, reason: "permission denied" }
        }
        Some(libc::ENOEXEC) => SpawnError::NotExecutable {
            program,
            reason: "it is neither a program for this machine nor a script with a #! line",
        },
        Some(libc::ETXTBSY) => SpawnError::NotExecutable { program, reason: "it is being written" },
        Some(libc::E2BIG) => SpawnError::TooLong,
        _ => SpawnError::from_stage(super::os::LaunchStage::Exec, error),
    }
}

/// Returns the interpreter of a script that cannot be executed because `can_execute` refuses it.
pub(super) fn refused_interpreter(program: &Path, can_execute: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    interpreter(program)
        .map(PathBuf::from)
        .filter(|interpreter| interpreter.exists() && !can_execute(interpreter))
}

/// Returns the interpreter that a script's first line names, if it has such a line.
fn interpreter(program: &Path) -> Option<String> {
    let mut head = Vec::new();
    system_files::regular_file::open(program).ok()?.take(FIRST_LINE_BYTES).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    // A carriage return of a script from Windows is part of the name, and shows as such.
    line.trim_matches([' ', '\t']).split([' ', '\t']).next().map(str::to_owned)
}
