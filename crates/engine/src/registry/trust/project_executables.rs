//! What vendors' programs would execute because of files in a project: hooks, plug-ins, commands for keys. It is
//! shown and hashed together with the other executables of a project.

use std::io::Read;
use std::path::Path;

use backends::contract::{Backend, ProjectExecutable};
use backends::user_environment::ProjectFolders;
use sha2::{Digest, Sha256};
use system_files::regular_file;

/// Returns what any program would execute in the first of these folders, by the files of all of them.
pub fn find_all(folders: &[&Path]) -> Vec<ProjectExecutable> {
    let folders = ProjectFolders::new(|| without_home(folders));
    let mut all: Vec<ProjectExecutable> =
        backends::registry::all().flat_map(|backend| backend.project_executables(&folders)).collect();
    for program in all.iter_mut().filter(|program| program.content_is_executed) {
        let digest = digest(&program.file).map_err(|error| error.to_string());
        program.read_error = digest.as_ref().err().cloned();
        program.description = format!("{} ({})", program.description, digest.unwrap_or_else(|reason| reason));
    }
    // Several backends may drive one program, and not all of them can leave something out.
    all.sort();
    all.dedup_by(|one, two| (&one.file, &one.description) == (&two.file, &two.description));
    all
}

/// Returns what the program of one backend would execute there.
pub fn find_for(backend: &dyn Backend, folders: &ProjectFolders<'_>) -> Vec<ProjectExecutable> {
    backend.project_executables(&ProjectFolders::new(|| without_home(folders)))
}

/// Drops the home of the user, whose settings are trusted, even if it is a work tree of git.
fn without_home<'a>(folders: &[&'a Path]) -> Vec<&'a Path> {
    let home = crate::env::home();
    let real = home.as_ref().and_then(|home| home.canonicalize().ok());
    let is_home = |folder: &Path| {
        home.as_deref() == Some(folder) || (real.is_some() && folder.canonicalize().ok() == real)
    };
    folders.iter().copied().filter(|folder| !is_home(folder)).collect()
}

/// Returns the digest of the current executables, independent of the project's path; `None` if there are none.
pub fn current_fingerprint(folders: &[&Path]) -> Option<String> {
    fingerprint(&find_all(folders), folders)
}

/// Returns the digest of these executables.
pub fn fingerprint(executables: &[ProjectExecutable], folders: &[&Path]) -> Option<String> {
    let root = folders.last()?;
    let mut digest = Sha256::new();
    for program in executables {
        let file = program.file.strip_prefix(root).unwrap_or(&program.file);
        digest.update(file.as_os_str().as_encoded_bytes());
        digest.update([0]);
        digest.update(program.description.as_bytes());
        digest.update([0]);
    }
    (!executables.is_empty()).then(|| domain::hex::hex(&digest.finalize()))
}

/// Returns the digest of a file of any size.
fn digest(path: &Path) -> std::io::Result<String> {
    let mut file = regular_file::open(path)?;
    let mut digest = Sha256::new();
    let mut chunk = vec![0; 64 << 10];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(domain::hex::hex(&digest.finalize())),
            read => digest.update(&chunk[..read]),
        }
    }
}
