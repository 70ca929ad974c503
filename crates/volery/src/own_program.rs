//! Where this very program stands.

use std::path::PathBuf;

/// Returns this very program, also after its file was replaced by another version.
pub fn path() -> std::io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    if path.exists() { Ok(path) } else { Ok(PathBuf::from("/proc/self/exe")) }
}
