//! What vendors' programs would execute because files of a project say so: hooks, plug-ins, commands for keys. Shown
//! and hashed as what else a project would execute.

use std::path::Path;

use backend::contract::ProjectProgram;
use sha2::{Digest, Sha256};

/// Returns what any program would execute in the first of these folders, by the files of all of them.
pub fn found(folders: &[&Path]) -> Vec<ProjectProgram> {
    let mut all: Vec<ProjectProgram> =
        backend::registry::all().flat_map(|backend| backend.project_programs(folders)).collect();
    for program in all.iter_mut().filter(|program| program.is_program) {
        let digest = std::fs::read(&program.file).map(|content| hex(&Sha256::digest(content)));
        program.says = format!("{} ({})", program.says, digest.unwrap_or_else(|error| error.to_string()));
    }
    // Several backends may drive one program, and not all of them can leave something out.
    all.sort();
    all.dedup_by(|one, two| (&one.file, &one.says) == (&two.file, &two.says));
    all
}

/// Returns the digest of the same, wherever the project stands; nothing if there is nothing.
pub fn fingerprint(folders: &[&Path]) -> Option<String> {
    let found = found(folders);
    let root = folders.last()?;
    let mut digest = Sha256::new();
    for program in &found {
        let file = program.file.strip_prefix(root).unwrap_or(&program.file);
        digest.update(file.as_os_str().as_encoded_bytes());
        digest.update([0]);
        digest.update(program.says.as_bytes());
        digest.update([0]);
    }
    (!found.is_empty()).then(|| hex(&digest.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
