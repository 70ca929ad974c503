//! The path of this program.

use std::path::PathBuf;

/// Returns the path of this program, which also works after its file was replaced by another version.
pub fn path() -> std::io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    if path.exists() { Ok(path) } else { Ok(PathBuf::from("/proc/self/exe")) }
}
