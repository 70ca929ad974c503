//! Tests the reported changes of a work tree with a real git; nothing that the repository names is executed.

mod settling;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use domain::run::{Changes, FileChange};

use super::*;
use crate::CaptureError;

struct Repository {
    temp_dir: tempfile::TempDir,
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

#[expect(clippy::disallowed_methods, reason = "tests use the git of the machine")]
fn git() -> Git {
    let path = std::env::var_os("PATH").unwrap();
    Git::find(&path, Vec::new(), 7).expect("git is needed for these tests")
}

#[expect(clippy::disallowed_methods, reason = "a user's own git")]
fn user_git(directory: &Path, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=A", "-c", "user.email=a@example.org"]).args(words);
    let output = command.current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

impl Repository {
    fn new() -> Self {
        let repository = Self { temp_dir: tempfile::tempdir().unwrap() };
        repository.git(&["init", "--quiet", "--initial-branch", "main"]);
        repository
            .write("kept.txt", "kept\n")
            .write("sub/changed.txt", "before\n")
            .write(".gitignore", "ignored\n");
        repository.commit();
        repository
    }

    fn root(&self) -> &Path {
        self.temp_dir.path()
    }

    fn git(&self, words: &[&str]) {
        user_git(self.root(), words);
    }

    fn commit(&self) -> &Self {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", "x"]);
        self
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::take(&git(), self.root(), soon()).unwrap().expect("a work tree")
    }

    fn changes(&self, before: &Snapshot) -> Changes {
        before.changes(&git(), soon()).unwrap()
    }
}

fn describe(changes: &Changes) -> Vec<String> {
    let line = |file: &domain::run::ChangedFile| match &file.change {
        FileChange::Renamed { from } => format!("renamed {from} {}", file.path),
        change => format!("{} {}", change.as_str(), file.path),
    };
    changes.files.iter().map(line).collect()
}

#[test]
fn added_modified_deleted_and_renamed_files_are_reported() {
    let repository = Repository::new();
    repository.write("old name.txt", "moves\n").write("gone.txt", "goes\n").commit();
    let before = repository.snapshot();
    repository.write("new/file.txt", "new\n").write("sub/changed.txt", "after\n").write("ignored", "x\n");
    fs::remove_file(repository.root().join("gone.txt")).unwrap();
    fs::rename(repository.root().join("old name.txt"), repository.root().join("new\nname.txt")).unwrap();
    let changes = repository.changes(&before);
    assert_eq!(
        describe(&changes),
        [
            "deleted gone.txt",
            "renamed old name.txt new\nname.txt",
            "added new/file.txt",
            "modified sub/changed.txt"
        ]
    );
    assert_eq!((changes.left_out, changes.commits), (0, None));
}

#[test]
fn files_that_were_dirty_before_and_did_not_change_are_not_reported() {
    let repository = Repository::new();
    repository
        .write("sub/changed.txt", "dirty\n")
        .write("untracked.txt", "there\n")
        .write("again.txt", "there\n");
    let before = repository.snapshot();
    assert_eq!(describe(&repository.changes(&before)), Vec::<String>::new());
    repository.write("again.txt", "changed\n");
    assert_eq!(describe(&repository.changes(&before)), ["modified again.txt"]);
}

#[test]
fn files_committed_meanwhile_are_reported_with_the_commits() {
    let repository = Repository::new();
    repository.write("dirty.txt", "before the run\n");
    let before = repository.snapshot();
    repository.write("sub/changed.txt", "after\n").write("made.txt", "made\n").commit();
    let changes = repository.changes(&before);
    assert_eq!(describe(&changes), ["added made.txt", "modified sub/changed.txt"]);
    let commits = changes.commits.unwrap();
    assert!(commits.before.is_some() && commits.after.is_some() && commits.before != commits.after);
}

#[test]
fn a_file_rewritten_with_the_same_content_is_not_reported() {
    let repository = Repository::new();
    let before = repository.snapshot();
    repository.write("kept.txt", "kept\n");
    repository.git(&["checkout", "--quiet", "-b", "other"]);
    repository.write("sub/changed.txt", "other\n").commit();
    repository.git(&["checkout", "--quiet", "main"]);
    assert_eq!(describe(&repository.changes(&before)), Vec::<String>::new());
    repository.write("kept.txt", "lept\n");
    let before = repository.snapshot();
    repository.write("kept.txt", "kept\n");
    assert_eq!(describe(&repository.changes(&before)), ["modified kept.txt"]);
    // Also if the index does not know the content.
    repository.write("kept.txt", "lept\n").write("untracked.txt", "there\n");
    let before = Snapshot::load(&repository.snapshot().store()).unwrap();
    repository.write("kept.txt", "lept\n").write("untracked.txt", "there\n");
    assert_eq!(describe(&repository.changes(&before)), Vec::<String>::new());
    repository.write("untracked.txt", "where\n");
    assert_eq!(describe(&repository.changes(&before)), ["modified untracked.txt"]);
}

#[test]
fn a_change_with_the_old_file_time_is_reported() {
    let repository = Repository::new();
    let before = repository.snapshot();
    let path = repository.root().join("kept.txt");
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, "lept\n").unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    assert_eq!(describe(&repository.changes(&before)), ["modified kept.txt"]);
}

#[test]
fn files_that_are_only_ignored_or_no_longer_ignored_are_not_reported() {
    let repository = Repository::new();
    repository.write("ignored", "old\n").write("noise.log", "old\n");
    std::thread::sleep(Duration::from_millis(200));
    let before = repository.snapshot();
    repository.write(".gitignore", "*.log\n");
    assert_eq!(describe(&repository.changes(&before)), ["modified .gitignore"]);
}

#[test]
fn a_snapshot_can_be_stored_and_damage_to_it_is_noticed() {
    let repository = Repository::new();
    repository.write("with\ttab.txt", "x");
    let before = repository.snapshot();
    let stored = before.store();
    assert_eq!(Snapshot::load(&stored).as_ref(), Some(&before));
    for cut in 0..stored.len() {
        assert_ne!(Snapshot::load(&stored[..cut]).as_ref(), Some(&before), "{cut}");
    }
}

#[test]
fn a_missing_work_tree_is_not_an_error() {
    let temp_dir = tempfile::tempdir().unwrap();
    assert_eq!(Snapshot::take(&git(), temp_dir.path(), soon()).unwrap(), None);
    fs::write(temp_dir.path().join(".git"), "gitdir: /nowhere\n").unwrap();
    assert_eq!(Snapshot::take(&git(), temp_dir.path(), soon()).unwrap(), None);
    assert!(Git::find(temp_dir.path().as_os_str(), Vec::new(), 7).is_none());
}

#[test]
fn a_work_tree_that_git_refuses_to_read_is_not_treated_as_missing() {
    let repository = Repository::new();
    fs::write(repository.root().join(".git/index"), "no index").unwrap();
    let answer = Snapshot::take(&git(), repository.root(), soon());
    assert!(matches!(answer, Err(GitError::Refused { .. })), "{answer:?}");
}

/// Other systems have no such names.
#[cfg(target_os = "linux")]
#[test]
fn names_that_are_not_utf8_are_distinguished() {
    use std::os::unix::ffi::OsStrExt;
    let repository = Repository::new();
    let before = repository.snapshot();
    for name in [b"bad\xff\"\xc3\xa4".as_slice(), b"bad\xfe\"\xc3\xa4"] {
        fs::write(repository.root().join(std::ffi::OsStr::from_bytes(name)), "x").unwrap();
    }
    let described = describe(&repository.changes(&before));
    assert_eq!(described, [r#"added "bad\376\"\303\244""#, r#"added "bad\377\"\303\244""#]);
}

#[test]
fn a_repository_without_a_commit_is_followed_too() {
    let temp_dir = tempfile::tempdir().unwrap();
    let repository = Repository { temp_dir };
    repository.git(&["init", "--quiet"]);
    let before = repository.snapshot();
    repository.write("first.txt", "x");
    let changes = repository.changes(&before);
    assert_eq!(describe(&changes), ["added first.txt"]);
    assert_eq!(changes.commits, None);
}

/// Writes a program that leaves a mark when it is executed.
fn trap(repository: &Repository, name: &str) -> String {
    let path = repository.root().join(".git").join(name);
    let mark = repository.root().join(".git/executed");
    fs::write(&path, format!("#!/bin/sh\necho {name} >> '{}'\ncat\n", mark.display())).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn nothing_that_a_repository_names_is_executed() {
    let repository = Repository::new();
    let clean = trap(&repository, "clean");
    repository.write(".gitattributes", "* filter=trap diff=trap\n");
    for (name, value) in [
        ("filter.trap.clean", clean.as_str()),
        ("filter.trap.smudge", &trap(&repository, "smudge")),
        ("filter.trap.process", &trap(&repository, "process")),
        ("diff.trap.textconv", &trap(&repository, "textconv")),
        ("core.fsmonitor", &trap(&repository, "fsmonitor")),
        ("core.hooksPath", ".git/trapped-hooks"),
        ("core.pager", &trap(&repository, "pager")),
        ("core.worktree", "/"),
    ] {
        repository.git(&["config", name, value]);
    }
    let before = repository.snapshot();
    repository.write("kept.txt", "kept\n").write("sub/changed.txt", "after!\n").write("new.txt", "x");
    assert_eq!(describe(&repository.changes(&before)), ["added new.txt", "modified sub/changed.txt"]);
    assert_eq!(fs::read_to_string(repository.root().join(".git/executed")).ok(), None);
    // The trap works: a command that compares contents triggers it.
    repository.git(&["config", "--unset", "filter.trap.process"]);
    repository.git(&["config", "--unset", "core.worktree"]);
    repository.git(&["-c", "core.fsmonitor=false", "status"]);
    assert!(fs::read_to_string(repository.root().join(".git/executed")).unwrap().contains("clean"));
}

#[test]
fn a_snapshot_ends_when_its_time_is_over() {
    let repository = Repository::new();
    let over = Instant::now();
    assert!(Snapshot::take(&git(), repository.root(), over).is_err());
    // Git waits for a writer of this pipe, and there is none.
    let fifo = repository.root().join(".git/fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    repository.git(&["config", "core.excludesFile", fifo.to_str().unwrap()]);
    let begun = Instant::now();
    let answer = Snapshot::take(&git(), repository.root(), Instant::now() + Duration::from_millis(300));
    assert!(matches!(answer, Err(GitError::Run { source: CaptureError::TooLong, .. })), "{answer:?}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}
