//! Counts the runs of a tree with numbered files in the root's directory; the first process to create a file gets its
//! number.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;

use crate::durable::create_private;
use crate::run_dir::RunDir;
use crate::store_error::{StoreError, failed};

/// Takes the next number for a descendant of the root; `None` if all are taken.
pub fn claim_descendant_number(root: &RunDir, numbers_max: u32) -> Result<Option<u32>, StoreError> {
    let folder = root.path().join("tree");
    match DirBuilder::new().mode(0o700).create(&folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed("create", &folder)(error)),
    }
    // Numbers are taken in order, so the search starts at the number of files, even if other processes take numbers
    // meanwhile.
    let taken = std::fs::read_dir(&folder).map_err(failed("read", &folder))?.count();
    for number in u32::try_from(taken).unwrap_or(u32::MAX)..numbers_max {
        let path = folder.join(number.to_string());
        match create_private(&path) {
            Ok(_) => return Ok(Some(number)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed("create", &path)(error)),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
