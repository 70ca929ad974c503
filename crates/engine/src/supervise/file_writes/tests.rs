//! Tests where a rehearsal may write: below its directory, and never where git looks for programs to run.

use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;

fn write(directory: &Path, path: &str) -> Result<(), ErrorKind> {
    let directory = directory.to_str().expect("the folder's name is text");
    write_beneath(directory, path, "x", WriteMode::Append).map_err(|error| error.kind())
}

#[test]
fn files_are_written_below_the_directory_only() {
    let directory = tempfile::tempdir().expect("a folder");
    assert_eq!(write(directory.path(), "new/folder/file"), Ok(()));
    assert_eq!(write(directory.path(), "../file"), Err(ErrorKind::PermissionDenied));
    assert_eq!(write(directory.path(), "/tmp/file"), Err(ErrorKind::PermissionDenied));
}

#[test]
fn git_settings_and_hooks_are_not_written_by_any_name() {
    let directory = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(directory.path().join("part/.git/hooks")).expect("folders of a repository");
    symlink("part/.git", directory.path().join("link")).expect("a link");
    for path in ["part/.git/config", "part/.GIT/config", "part/.git/hooks/pre-commit", ".git"] {
        assert_eq!(write(directory.path(), path), Err(ErrorKind::PermissionDenied), "{path}");
    }
    assert!(write(directory.path(), "link/config").is_err());
    assert!(!directory.path().join("part/.git/config").exists());
}
