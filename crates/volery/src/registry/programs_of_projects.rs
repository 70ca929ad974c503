//! What vendors' programs would execute because files of a project say so: hooks, plug-ins, commands for keys. Shown
//! and hashed as what else a project would execute.

use std::io::Read;
use std::path::Path;

use backend::contract::{Backend, ProjectProgram};
use backend::plain_file;
use sha2::{Digest, Sha256};

/// Returns what any program would execute in the first of these folders, by the files of all of them.
pub fn found(folders: &[&Path]) -> Vec<ProjectProgram> {
    let folders = without_home(folders);
    let mut all: Vec<ProjectProgram> =
        backend::registry::all().flat_map(|backend| backend.project_programs(&folders)).collect();
    for program in all.iter_mut().filter(|program| program.is_program) {
        let digest = digest(&program.file).map_err(|error| error.to_string());
        program.unread = digest.as_ref().err().cloned();
        program.says = format!("{} ({})", program.says, digest.unwrap_or_else(|reason| reason));
    }
    // Several backends may drive one program, and not all of them can leave something out.
    all.sort();
    all.dedup_by(|one, two| (&one.file, &one.says) == (&two.file, &two.says));
    all
}

/// Returns what the program of one backend would execute there.
pub fn of(backend: &dyn Backend, folders: &[&Path]) -> Vec<ProjectProgram> {
    backend.project_programs(&without_home(folders))
}

/// Leaves out the home of the user, whose settings are theirs, also where it is a work tree of git.
fn without_home<'a>(folders: &[&'a Path]) -> Vec<&'a Path> {
    let home = crate::env::home();
    let real = home.as_ref().and_then(|home| home.canonicalize().ok());
    let is_home = |folder: &Path| {
        home.as_deref() == Some(folder) || (real.is_some() && folder.canonicalize().ok() == real)
    };
    folders.iter().copied().filter(|folder| !is_home(folder)).collect()
}

/// Returns the digest of what is found there now, wherever the project stands; nothing if there is nothing.
pub fn fingerprint(folders: &[&Path]) -> Option<String> {
    fingerprint_of(&found(folders), folders)
}

/// Returns the digest of what was found in these folders.
pub fn fingerprint_of(found: &[ProjectProgram], folders: &[&Path]) -> Option<String> {
    let root = folders.last()?;
    let mut digest = Sha256::new();
    for program in found {
        let file = program.file.strip_prefix(root).unwrap_or(&program.file);
        digest.update(file.as_os_str().as_encoded_bytes());
        digest.update([0]);
        digest.update(program.says.as_bytes());
        digest.update([0]);
    }
    (!found.is_empty()).then(|| hex(&digest.finalize()))
}

/// Returns the digest of a file, however large it is.
fn digest(path: &Path) -> std::io::Result<String> {
    let mut file = plain_file::open(path)?;
    let mut digest = Sha256::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hex(&digest.finalize())),
            read => digest.update(&piece[..read]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
