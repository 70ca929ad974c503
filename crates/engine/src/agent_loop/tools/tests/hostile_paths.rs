//! Ways out of the allowed directories. Each is refused by every tool, with a reason that a model can use, and nothing
//! outside is read or changed.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat};

use super::project::Project;
use crate::agent_loop::tools::{FileRoots, ToolError, ToolOutput};

/// A project with everything that could lead somewhere else.
fn hostile() -> Project {
    let project = Project::new().with_file("src/a.txt", "text\n").with_file(".git/config", "[core]\n");
    let at = |name: &str| project.root.join(name);
    symlink(project.outside.join("secret"), at("link")).expect("a link");
    symlink(&project.outside, at("link-dir")).expect("a link");
    symlink("src", at("inside-dir")).expect("a link");
    symlink(project.outside.join("absent"), at("dangling")).expect("a link");
    symlink(".git", at("git-link")).expect("a link");
    symlink("/proc/self/root", at("magic")).expect("a link");
    symlink("loop", at("loop")).expect("a link");
    std::fs::hard_link(project.outside.join("secret"), at("hard")).expect("one file system");
    mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    // Stays as a file when it is dropped.
    drop(UnixListener::bind(at("socket")).expect("a socket"));
    project
}

fn reason(result: Result<ToolOutput, ToolError>) -> String {
    ToolOutput::from(result.expect_err("it is refused")).text
}

#[test]
fn every_way_out_is_refused_for_reading_writing_and_editing() {
    let project = hostile();
    let (root, outside) = (project.root.display(), project.outside.display());
    let out_of = |path: &str| {
        let extra = project.extra.display();
        format!("{path} is outside the directories of this run: {root}, {extra}")
    };
    let link = |link: &str, target: &str| {
        format!(
            "{link} is a symbolic link to {target}, and file tools do not follow links; use the path of the target itself"
        )
    };
    let secret = format!("{outside}/secret");
    let protected = "state/record belongs to Volery itself, and no tool can reach it".to_owned();
    let long_name = "n".repeat(300);
    let cases: Vec<(String, String)> = vec![
        ("src/../../outside/secret".into(), out_of("src/../../outside/secret")),
        ("../outside/secret".into(), out_of("../outside/secret")),
        ("src/../../../../../../etc/passwd".into(), out_of("src/../../../../../../etc/passwd")),
        ("/etc/passwd".into(), out_of("/etc/passwd")),
        (secret.clone(), out_of(&secret)),
        (format!("{root}/../outside/secret"), out_of(&format!("{root}/../outside/secret"))),
        (format!("{root}x/secret"), out_of(&format!("{root}x/secret"))),
        ("/proc/self/environ".into(), out_of("/proc/self/environ")),
        ("/dev/null".into(), out_of("/dev/null")),
        ("link".into(), link("link", &secret)),
        ("link-dir/secret".into(), link("link-dir", &outside.to_string())),
        ("inside-dir/a.txt".into(), link("inside-dir", "src")),
        ("src/../link-dir/secret".into(), link("link-dir", &outside.to_string())),
        ("dangling".into(), link("dangling", &format!("{outside}/absent"))),
        ("magic/etc/passwd".into(), link("magic", "/proc/self/root")),
        ("loop".into(), link("loop", "loop")),
        ("fifo".into(), "fifo is a named pipe, not a regular file".into()),
        ("socket".into(), "socket is a socket, not a regular file".into()),
        ("src".into(), "src is a directory, not a regular file".into()),
        (".".into(), ". is a directory, not a regular file".into()),
        ("src/a.txt/x".into(), "src/a.txt is a regular file, not a directory".into()),
        ("a\0b".into(), "the path contains a NUL character".into()),
        (String::new(), "the path is empty".into()),
        ("x/".repeat(3000), "the path has 6000 bytes, which is longer than the system allows".into()),
        ("state/record".into(), protected.clone()),
        ("src/../state/./record".into(), protected),
        ("state".into(), "state belongs to Volery itself, and no tool can reach it".into()),
    ];
    for (path, expected) in &cases {
        assert_eq!(&reason(project.read(path)), expected, "reading {path:?}");
        assert_eq!(&reason(project.write(path, "PLANTED")), expected, "writing {path:?}");
        assert_eq!(&reason(project.edit(path, "SECRET", "PLANTED")), expected, "editing {path:?}");
    }
    assert!(reason(project.write(&long_name, "x")).starts_with("the path has "));
    assert_eq!(std::fs::read_to_string(project.outside.join("secret")).unwrap(), "SECRET\n");
    assert_eq!(std::fs::read_dir(&project.outside).unwrap().count(), 1, "nothing was created");
    assert_eq!(project.content("state/record"), "SECRET\n");
}

#[test]
fn a_file_with_another_name_is_not_read_or_edited_and_writing_only_replaces_the_name() {
    let project = hostile();
    let expected = "hard has 2 names (hard links), of which some may be outside of the allowed directories";
    assert_eq!(reason(project.read("hard")), expected);
    assert_eq!(reason(project.edit("hard", "SECRET", "PLANTED")), expected);
    project.write("hard", "new\n").expect("the name is in the project");
    assert_eq!(std::fs::read_to_string(project.outside.join("secret")).unwrap(), "SECRET\n");
    assert_eq!(project.content("hard"), "new\n");
}

#[test]
fn git_settings_are_read_and_not_written_by_any_name() {
    let project = hostile().with_file("part/.git/hooks/h", "x\n");
    assert_eq!(project.read(".git/config").unwrap().text, "[core]\n");
    for path in [".git/config", ".git", "part/.GIT/config", "part/.git/hooks/pre-commit", "src/../.git/x"] {
        let refused = reason(project.write(path, "PLANTED"));
        assert!(refused.contains("is in git's own directory"), "{path}: {refused}");
    }
    assert!(reason(project.edit(".git/config", "core", "x")).contains("is in git's own directory"));
    assert!(reason(project.write("git-link/config", "PLANTED")).contains("is a symbolic link to .git"));
    assert_eq!(project.content(".git/config"), "[core]\n");
}

#[test]
fn lists_and_searches_never_leave_the_directory() {
    let project = hostile();
    let searched = project.search("SECRET", None).unwrap().text;
    assert_eq!(searched, "[no match in 1 files; 1 files with several hard links were skipped]");
    for path in ["link-dir", "magic", "..", "/", "state"] {
        project.list(path).expect_err(path);
    }
    let listed = project.list(".").unwrap().text;
    assert!(!listed.contains("state"), "{listed}");
    let expected = format!("link -> {}/secret  (symbolic link)\n", project.outside.display());
    assert!(listed.contains(&expected), "{listed}");
    assert!(
        listed.contains("fifo  (a named pipe)\ngit-link -> .git  (symbolic link)\nhard  7 B\n"),
        "{listed}"
    );
}

#[test]
fn files_of_the_kernel_are_refused_even_in_an_allowed_directory() {
    let proc = FileRoots::open(std::path::Path::new("/proc"), &[], &[]).unwrap();
    let own = format!("{}/environ", std::process::id());
    let request = super::super::ReadRequest::default();
    for path in ["meminfo", own.as_str()] {
        let target = proc.resolve(path).unwrap();
        let refused = reason(super::super::read(&proc, &target, request));
        assert!(refused.contains("is a file of the kernel (proc)"), "{refused}");
    }
    let target = proc.resolve("sys/kernel/core_pattern").unwrap();
    let write = super::super::WriteRequest { content: "x", call: "1" };
    assert!(reason(super::super::write(&proc, &target, &write)).contains("(proc)"));
}

#[test]
fn a_device_is_not_opened() {
    let project = hostile();
    let device = rustix::fs::makedev(1, 3);
    let made = mknodat(CWD, project.root.join("null"), FileType::CharacterDevice, Mode::RUSR, device);
    if made.is_err() {
        eprintln!("SKIPPED: this user cannot make devices");
        return;
    }
    assert_eq!(reason(project.read("null")), "null is a character device, not a regular file");
    assert_eq!(reason(project.write("null", "x")), "null is a character device, not a regular file");
}

#[test]
fn a_directory_that_becomes_a_link_between_judging_and_opening_leads_nowhere() {
    let project = Project::new().with_file("real/secret", "harmless\n").with_file("sub/secret", "harmless\n");
    let sub = project.root.join("sub");
    let trap = project.base.join("trap");
    symlink(&project.outside, &trap).unwrap();
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // In each moment the name is the directory, or the link to the outside.
            while !stopped.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(CWD, &sub, CWD, &trap, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let mut reads = 0;
        for _ in 0..3000 {
            let target = project.resolve("sub/secret").unwrap();
            assert_eq!(target.absolute(), sub.join("secret"));
            let read = project.read("sub/secret");
            assert!(!read.as_ref().is_ok_and(|output| output.text.contains("SECRET")), "{read:?}");
            reads += usize::from(read.is_ok());
            // May land in the directory wherever it is at the moment, never behind the link.
            let _ = project.write("sub/planted", "PLANTED");
        }
        stopped.store(true, Ordering::Relaxed);
        assert!(reads > 0 && reads < 3000, "nothing changed meanwhile: {reads}");
    });
    assert_eq!(std::fs::read_dir(&project.outside).unwrap().count(), 1, "nothing was written outside");
}
