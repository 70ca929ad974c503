//! Which directories are accepted as a home, and the errors for the others.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

use super::{Home, HomeError, Unwritable, check_owner, home_error};
use crate::durable::Faults;
use crate::fixtures::TestHome;

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn a_missing_home_is_created_for_its_owner_only() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("state/volery");
    let home = Home::open(&path).unwrap();
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&root.path().join("state")), 0o700);
    for directory in [home.runs_dir(), home.markers_dir(), home.keys_dir(), home.slots_dir()] {
        assert_eq!(mode(&directory), 0o700);
    }
    for directory in [home.sockets_dir(), home.trust_dir(), home.trash_dir()] {
        assert_eq!(mode(&directory), 0o700);
    }
    Home::open(&path).unwrap();
    home.check_writable().unwrap();
    let entries = fs::read_dir(&path).unwrap().count();
    assert_eq!(entries, 9, "the probe is gone");
}

#[test]
fn rights_of_others_are_taken_away() {
    let test = TestHome::new();
    fs::set_permissions(test.home.path(), Permissions::from_mode(0o755)).unwrap();
    Home::open(test.home.path()).unwrap();
    assert_eq!(mode(test.home.path()), 0o700);
}

#[test]
fn a_shared_directory_with_other_files_is_not_touched() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("letter"), "x").unwrap();
    fs::set_permissions(root.path(), Permissions::from_mode(0o755)).unwrap();
    let error = Home::open(root.path()).unwrap_err();
    assert!(matches!(error, HomeError::Shared { .. }), "{error:?}");
    assert_eq!(mode(root.path()), 0o755);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
}

#[test]
fn a_link_to_a_directory_of_ours_is_a_home() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("far")).unwrap();
    symlink(root.path().join("far"), root.path().join("near")).unwrap();
    Home::open(&root.path().join("near")).unwrap();
    assert!(root.path().join("far/runs").is_dir());
}

#[test]
fn a_directory_of_another_user_is_refused_with_what_to_do() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("theirs");
    fs::create_dir(&path).unwrap();
    // Only root can give a directory away; other users test with one of root's directories instead.
    let path = if chown(&path, Some(12_345), None).is_ok() { path } else { "/usr".into() };
    let error = Home::open(&path).unwrap_err();
    assert!(matches!(error, HomeError::ForeignOwner { .. }), "{error:?}");
    assert!(error.hint().contains("VOLERY_HOME"));
    assert!(!path.join("runs").exists());
    check_owner(&path, 5, 5).unwrap();
}

#[test]
fn a_file_is_not_a_home() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file");
    fs::write(&path, "x").unwrap();
    assert!(matches!(Home::open(&path).unwrap_err(), HomeError::NotADirectory { .. }));
}

#[test]
fn a_full_disk_is_distinguished() {
    let test = TestHome::new();
    let home = test.broken(Faults { bytes_before_full: Some(100), ..Faults::default() });
    let error = home.check_writable().unwrap_err();
    assert!(matches!(error, HomeError::Unwritable { why: Unwritable::Full, .. }), "{error:?}");
    assert!(error.to_string().ends_with("the disk is full"), "{error}");
    assert!(error.hint().contains("free some space"));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 9, "the probe is gone");
}

#[test]
fn a_failed_sync_of_the_probe_is_an_error() {
    let test = TestHome::new();
    let home = test.broken(Faults { syncs_before_failure: Some(0), ..Faults::default() });
    assert!(matches!(home.check_writable().unwrap_err(), HomeError::Io { .. }));
}

#[test]
fn obstacles_have_types() {
    use rustix::io::Errno;
    let kind = |errno: Errno| Unwritable::from_kind(std::io::Error::from(errno).kind());
    assert_eq!(kind(Errno::NOSPC), Some(Unwritable::Full));
    assert_eq!(kind(Errno::DQUOT), Some(Unwritable::Quota));
    assert_eq!(kind(Errno::ROFS), Some(Unwritable::ReadOnly));
    assert_eq!(kind(Errno::ACCESS), Some(Unwritable::Denied));
    assert_eq!(kind(Errno::IO), None);
    let error = home_error("create", "/x".as_ref(), Errno::ROFS.into());
    assert_eq!(error.to_string(), "write to volery's home /x: the filesystem is read-only");
}
