//! Replaces a file in a project atomically, and only if Volery wrote the existing file. A file of PowerSpawn itself is
//! moved aside once.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};

use super::document::{OWN_MARK, POWERSPAWN_MARK};

/// How far into the file its mark may be.
const HEAD_BYTES: u64 = 1 << 10;
/// The new name of PowerSpawn's own file.
const BACKUP_NAME: &str = "IAC.before-volery.md";
/// How many names of a folder are checked for leftovers of killed writers.
const NAMES_MAX: usize = 10_000;
/// A younger file may belong to a live writer in another pid namespace.
const LEFTOVER_AGE: Duration = Duration::from_secs(60);

/// Replaces the file, or returns why it is left alone. Returns a notice if an existing file was moved.
pub(super) fn replace(folder: &Path, name: &str, text: &str) -> Result<Option<String>, String> {
    let path = folder.join(name);
    let notice = check_replaceable(folder, &path)?;
    // A writer holds the roster, so within one state directory no two write at once; the pid tells state directories
    // apart.
    let temporary = folder.join(format!(".{name}.{}.new", std::process::id()));
    let written = write(&temporary, text).and_then(|()| fs::rename(&temporary, &path));
    written.map_err(|error| {
        // The file may never have been created.
        let _ = fs::remove_file(&temporary);
        format!("{}: {error}", path.display())
    })?;
    sweep(folder, name);
    Ok(notice)
}

/// Removes temporary files of writers that were killed.
fn sweep(folder: &Path, name: &str) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.take(NAMES_MAX).flatten() {
        let found_name = entry.file_name();
        let writer = found_name.to_str().and_then(|found_name| {
            found_name.strip_prefix(&format!(".{name}."))?.strip_suffix(".new")?.parse::<u32>().ok()
        });
        let Some(writer) = writer.filter(|writer| !Path::new(&format!("/proc/{writer}")).exists()) else {
            continue;
        };
        let is_old = |metadata: &fs::Metadata| {
            metadata.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= LEFTOVER_AGE))
        };
        if fs::symlink_metadata(entry.path()).is_ok_and(|metadata| metadata.is_file() && is_old(&metadata)) {
            // Another process may have removed it.
            let _ = fs::remove_file(folder.join(format!(".{name}.{writer}.new")));
        }
    }
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    // A file that a crash has left under this name is Volery's; a symbolic link that somebody put there is not followed.
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    let mut file =
        options.write(true).create(true).truncate(true).mode(0o644).custom_flags(flags).open(path)?;
    file.write_all(text.as_bytes())
}

/// Checks that the existing file is Volery's, and moves PowerSpawn's aside. A file of somebody else is left alone, and a
/// symbolic link may lead anywhere.
fn check_replaceable(folder: &Path, path: &Path) -> Result<Option<String>, String> {
    let path_text = path.display();
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata.map_err(|error| format!("{path_text}: {error}"))?,
    };
    if metadata.file_type().is_symlink() {
        return Err(format!("{path_text} is a symbolic link, and is left alone"));
    }
    if !metadata.is_file() {
        return Err(format!("{path_text} is no file, and is left alone"));
    }
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let mut head = Vec::new();
    let read = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let read = read.and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    read.map_err(|error| format!("{path_text}: {error}"))?;
    let head = String::from_utf8_lossy(&head);
    if head.is_empty() || head.contains(OWN_MARK) {
        return Ok(None);
    }
    let moved = || renameat_with(CWD, path, CWD, folder.join(BACKUP_NAME), RenameFlags::NOREPLACE).is_ok();
    if head.contains(POWERSPAWN_MARK) && moved() {
        return Ok(Some(format!(
            "{path_text} was written by PowerSpawn itself; it is {BACKUP_NAME} from here on"
        )));
    }
    Err(format!("{path_text} was written by somebody else, and is left alone; move it away to have one"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn our_file_is_replaced_and_other_files_are_left_alone_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("IAC.md");
        let ours = format!("# IAC\n{OWN_MARK}\none\n");
        replace(dir.path(), "IAC.md", &ours).unwrap();
        replace(dir.path(), "IAC.md", &ours.replace("one", "two")).unwrap();
        assert!(fs::read_to_string(&path).unwrap().ends_with("two\n"));
        let theirs = "# Notes about agents\n";
        fs::write(&path, theirs).unwrap();
        let error = replace(dir.path(), "IAC.md", &ours).unwrap_err();
        assert!(error.contains("IAC.md was written by somebody else"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), theirs);
        fs::remove_file(&path).unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        fs::write(outside.path(), &ours).unwrap();
        symlink(outside.path(), &path).unwrap();
        assert!(replace(dir.path(), "IAC.md", "x").unwrap_err().contains("is a symbolic link"));
        assert_eq!(fs::read_to_string(outside.path()).unwrap(), ours);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(replace(dir.path(), "IAC.md", "x").unwrap_err().contains("is no file"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_file_that_a_crash_left_empty_is_ours() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("IAC.md"), "").unwrap();
        replace(dir.path(), "IAC.md", "x").unwrap();
    }

    #[test]
    fn a_file_of_powerspawn_is_moved_aside_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("IAC.md");
        let theirs = "# Inter Agent Context (IAC)\n\n> Auto-generated by PowerSpawn. Do not edit manually.\n";
        let ours = format!("{theirs}\n{OWN_MARK}\n");
        fs::write(&path, theirs).unwrap();
        let notice = replace(dir.path(), "IAC.md", &ours).unwrap().unwrap();
        assert!(notice.contains("it is IAC.before-volery.md from here on"), "{notice}");
        assert_eq!(fs::read_to_string(dir.path().join(BACKUP_NAME)).unwrap(), theirs);
        assert_eq!(replace(dir.path(), "IAC.md", &ours).unwrap(), None);
        fs::write(&path, "Auto-generated by PowerSpawn.").unwrap();
        assert!(replace(dir.path(), "IAC.md", &ours).is_err(), "the first one is not lost for a second");
        assert_eq!(fs::read_to_string(dir.path().join(BACKUP_NAME)).unwrap(), theirs);
    }

    #[test]
    fn only_leftovers_of_killed_writers_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let make = |name: &str| {
            let file = fs::File::create(dir.path().join(name)).unwrap();
            file.set_modified(old).unwrap();
        };
        // No process has so high a number.
        let mut expected = vec![
            format!(".IAC.md.{}.new", 1),
            ".IAC.md.x.new".to_owned(),
            ".other.md.4194999.new".to_owned(),
            "IAC.md.4194999.new".to_owned(),
        ];
        expected.iter().for_each(|name| make(name));
        make(".IAC.md.4194999.new");
        fs::write(dir.path().join(".IAC.md.4194998.new"), "young").unwrap();
        expected.extend([".IAC.md.4194998.new".to_owned(), "IAC.md".to_owned()]);
        replace(dir.path(), "IAC.md", "x").unwrap();
        let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string());
        let mut names: Vec<String> = names.map(Result::unwrap).collect();
        names.sort();
        expected.sort();
        assert_eq!(names, expected);
    }
}
