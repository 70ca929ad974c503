//! Puts a text in the place of a file in a project, whole or not at all, and only if what is there is ours. What PowerSpawn
//! itself has written there is moved aside once.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};

use crate::report::iac::{MARK, THEIR_MARK};

/// How far from its beginning a mark stands.
const HEAD_BYTES: u64 = 1 << 10;
/// Where the file of PowerSpawn itself goes.
const THEIRS: &str = "IAC.before-volery.md";
/// How many names of a folder are looked at for what a kill has left.
const NAMES_MAX: usize = 10_000;
/// What is younger may be another's, who counts processes otherwise.
const LEFT_AGE: Duration = Duration::from_secs(60);

/// Replaces the file, or says why it is left alone. Returns what was done beside that.
pub(super) fn replace(folder: &Path, name: &str, text: &str) -> Result<Option<String>, String> {
    let path = folder.join(name);
    let said = make_way(folder, &path)?;
    // Whoever writes holds the roster, so within one state no two write at once; the number tells states apart.
    let temporary = folder.join(format!(".{name}.{}.new", std::process::id()));
    let written = write(&temporary, text).and_then(|()| fs::rename(&temporary, &path));
    written.map_err(|error| {
        // It may never have been made.
        let _ = fs::remove_file(&temporary);
        format!("{}: {error}", path.display())
    })?;
    sweep(folder, name);
    Ok(said)
}

/// Removes what writers have left that were killed.
fn sweep(folder: &Path, name: &str) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.take(NAMES_MAX).flatten() {
        let found = entry.file_name();
        let writer = found.to_str().and_then(|found| {
            found.strip_prefix(&format!(".{name}."))?.strip_suffix(".new")?.parse::<u32>().ok()
        });
        let Some(writer) = writer.filter(|writer| !Path::new(&format!("/proc/{writer}")).exists()) else {
            continue;
        };
        let is_old = |found: &fs::Metadata| {
            found.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= LEFT_AGE))
        };
        if fs::symlink_metadata(entry.path()).is_ok_and(|found| found.is_file() && is_old(&found)) {
            // Somebody else may have done it.
            let _ = fs::remove_file(folder.join(format!(".{name}.{writer}.new")));
        }
    }
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    // What a crash has left under this name is a file of ours; a link that somebody put there is not followed.
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    let mut file =
        options.write(true).create(true).truncate(true).mode(0o644).custom_flags(flags).open(path)?;
    file.write_all(text.as_bytes())
}

/// A file that somebody else wrote is theirs, and a link may lead anywhere.
fn make_way(folder: &Path, path: &Path) -> Result<Option<String>, String> {
    let shown = path.display();
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(|error| format!("{shown}: {error}"))?,
    };
    if found.file_type().is_symlink() {
        return Err(format!("{shown} is a symbolic link, and is left alone"));
    }
    if !found.is_file() {
        return Err(format!("{shown} is no file, and is left alone"));
    }
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let mut head = Vec::new();
    let read = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let read = read.and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    read.map_err(|error| format!("{shown}: {error}"))?;
    let head = String::from_utf8_lossy(&head);
    if head.is_empty() || head.contains(MARK) {
        return Ok(None);
    }
    let moved = || renameat_with(CWD, path, CWD, folder.join(THEIRS), RenameFlags::NOREPLACE).is_ok();
    if head.contains(THEIR_MARK) && moved() {
        return Ok(Some(format!("{shown} was written by PowerSpawn itself; it is {THEIRS} from here on")));
    }
    Err(format!("{shown} was written by somebody else, and is left alone; move it away to have one"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn ours_is_replaced_and_what_is_not_ours_is_left_alone_and_named() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("IAC.md");
        let ours = format!("# IAC\n{MARK}\none\n");
        replace(place.path(), "IAC.md", &ours).unwrap();
        replace(place.path(), "IAC.md", &ours.replace("one", "two")).unwrap();
        assert!(fs::read_to_string(&path).unwrap().ends_with("two\n"));
        let theirs = "# Notes about agents\n";
        fs::write(&path, theirs).unwrap();
        let told = replace(place.path(), "IAC.md", &ours).unwrap_err();
        assert!(told.contains("IAC.md was written by somebody else"), "{told}");
        assert_eq!(fs::read_to_string(&path).unwrap(), theirs);
        fs::remove_file(&path).unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        fs::write(outside.path(), &ours).unwrap();
        symlink(outside.path(), &path).unwrap();
        assert!(replace(place.path(), "IAC.md", "x").unwrap_err().contains("is a symbolic link"));
        assert_eq!(fs::read_to_string(outside.path()).unwrap(), ours);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(replace(place.path(), "IAC.md", "x").unwrap_err().contains("is no file"));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_file_that_a_crash_left_empty_is_ours() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("IAC.md"), "").unwrap();
        replace(place.path(), "IAC.md", "x").unwrap();
    }

    #[test]
    fn what_powerspawn_itself_wrote_is_moved_aside_once() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("IAC.md");
        let theirs = "# Inter Agent Context (IAC)\n\n> Auto-generated by PowerSpawn. Do not edit manually.\n";
        let ours = format!("{theirs}\n{MARK}\n");
        fs::write(&path, theirs).unwrap();
        let said = replace(place.path(), "IAC.md", &ours).unwrap().unwrap();
        assert!(said.contains("it is IAC.before-volery.md from here on"), "{said}");
        assert_eq!(fs::read_to_string(place.path().join(THEIRS)).unwrap(), theirs);
        assert_eq!(replace(place.path(), "IAC.md", &ours).unwrap(), None);
        fs::write(&path, "Auto-generated by PowerSpawn.").unwrap();
        assert!(replace(place.path(), "IAC.md", &ours).is_err(), "the first one is not lost for a second");
        assert_eq!(fs::read_to_string(place.path().join(THEIRS)).unwrap(), theirs);
    }

    #[test]
    fn what_a_killed_writer_left_goes_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let make = |name: &str| {
            let file = fs::File::create(place.path().join(name)).unwrap();
            file.set_modified(old).unwrap();
        };
        // No process has so high a number.
        let mut kept = vec![
            format!(".IAC.md.{}.new", 1),
            ".IAC.md.x.new".to_owned(),
            ".other.md.4194999.new".to_owned(),
            "IAC.md.4194999.new".to_owned(),
        ];
        kept.iter().for_each(|name| make(name));
        make(".IAC.md.4194999.new");
        fs::write(place.path().join(".IAC.md.4194998.new"), "young").unwrap();
        kept.extend([".IAC.md.4194998.new".to_owned(), "IAC.md".to_owned()]);
        replace(place.path(), "IAC.md", "x").unwrap();
        let names = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string());
        let mut names: Vec<String> = names.map(Result::unwrap).collect();
        names.sort();
        kept.sort();
        assert_eq!(names, kept);
    }
}
