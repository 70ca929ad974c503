//! Finds programs on a search path.

use std::ffi::OsStr;
use std::path::PathBuf;

use rustix::fs::{Access, access};

/// Returns the path of a program on a search path.
pub fn find_program(name: &OsStr, path: &OsStr) -> Option<PathBuf> {
    let candidates = std::env::split_paths(path).map(|folder| folder.join(name));
    candidates
        .into_iter()
        .find(|found| found.is_absolute() && found.is_file() && access(found, Access::EXEC_OK).is_ok())
}
