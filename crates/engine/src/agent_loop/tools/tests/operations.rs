//! What the file tools answer, their bounds, and that a second try changes nothing.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::project::Project;
use crate::agent_loop::tools::{
    EditDigests, EditRequest, FileRoots, SearchRequest, ToolError, ToolOutput, append, edit, plan_edit,
    search,
};

fn error(result: Result<ToolOutput, ToolError>) -> String {
    ToolOutput::from(result.expect_err("it is refused")).text
}

#[test]
fn a_path_is_resolved_by_its_name_and_shown_relative_to_the_directory() {
    let project = Project::new();
    let shown = |path: &str| project.resolve(path).map(|path| path.shown().to_owned()).unwrap();
    assert_eq!(shown("a//b/./c/../d"), "a/b/d");
    assert_eq!(shown(&project.root.join("x").display().to_string()), "x");
    assert_eq!(shown("."), ".");
    let extra = project.extra.join("lib.rs");
    assert_eq!(shown("../extra/lib.rs"), extra.display().to_string());
    assert_eq!(project.resolve("../extra/lib.rs").unwrap().absolute(), extra);
    assert_eq!(project.resolve("").unwrap_err().to_string(), "the path is empty");
    // The directory itself may be reached through a link, by which the model may call it.
    let alias = project.base.join("alias");
    std::os::unix::fs::symlink(&project.root, &alias).unwrap();
    let roots = FileRoots::open(&alias, &[], &[]).unwrap();
    let target = roots.resolve(&alias.join("x").display().to_string()).unwrap();
    assert_eq!((target.shown(), target.absolute()), ("x", project.root.join("x").as_path()));
}

#[test]
fn a_file_is_read_in_parts_that_say_how_to_continue() {
    let mut text = String::new();
    for line in 1..=10_000 {
        writeln!(text, "line {line} äöü").unwrap();
    }
    let project =
        Project::new().with_file("small", "one\ntwo").with_file("empty", "").with_file("large", &text);
    assert_eq!(project.read("small").unwrap().text, "one\ntwo");
    assert_eq!(project.read("empty").unwrap().text, "[the file is empty]");
    assert_eq!(project.read_lines("small", 2, 5).unwrap().text, "two\n[lines 2 to 2 of 2 lines, 7 B]");
    let part = project.read_lines("large", 9, 2).unwrap().text;
    let size = domain::size::display_bytes(text.len() as u64);
    let rest =
        format!("line 9 äöü\nline 10 äöü\n[lines 9 to 10 of 10000 lines, {size}; continue with line 11]");
    assert_eq!(part, rest);
    assert_eq!(error(project.read_lines("small", 9, 1)), "small has 2 lines, so there is no line 9");
    // All parts together are the file.
    let (mut next, mut whole) = (Some(1), String::new());
    while let Some(line) = next {
        let answer = project.read_lines("large", line, u64::MAX).unwrap().text;
        assert!(answer.len() < 66 << 10, "{}", answer.len());
        let (part, note) = answer.rsplit_once("[lines").unwrap();
        whole.push_str(part);
        next = note
            .split_once("continue with line ")
            .map(|(_, rest)| rest.trim_end_matches(']').parse().unwrap());
    }
    assert_eq!(whole, text);
}

#[test]
fn long_lines_binary_files_and_other_encodings_are_named() {
    let project = Project::new()
        .with_file("long", format!("{}\nnext\n", "ä".repeat(100_000)))
        .with_file("binary", b"ELF\0\x01")
        .with_file("latin", b"caf\xe9\n");
    let long = project.read("long").unwrap().text;
    let end = "[lines 1 to 1 of 2 lines, 195.3 KiB; the last line shown is cut; continue with line 2]";
    assert!(long.ends_with(end), "{}", &long[long.len() - 120..]);
    assert_eq!(project.read_lines("long", 2, 1).unwrap().text, "next\n[lines 2 to 2 of 2 lines, 195.3 KiB]");
    assert_eq!(error(project.read("binary")), "binary is a binary file");
    assert_eq!(error(project.read("latin")), "latin is not UTF-8 text: byte 3 is invalid");
    assert_eq!(error(project.edit("binary", "ELF", "x")), "binary is a binary file");
    assert_eq!(error(project.read("absent/file")), "absent/file does not exist");
}

#[test]
fn a_file_is_written_in_one_step_and_a_second_try_changes_nothing() {
    let project = Project::new();
    assert_eq!(project.write("new/dir/file", "one\n").unwrap().text, "created new/dir/file, 4 bytes");
    let path = project.root.join("new/dir/file");
    let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    mode(0o4751);
    // The temporary file of a try that was interrupted.
    let interrupted = project.root.join("new/dir/.volery-6b86b273ff34fce1.tmp");
    std::fs::write(&interrupted, "half").unwrap();
    for _ in 0..2 {
        assert_eq!(project.write("new/dir/file", "two\n").unwrap().text, "replaced new/dir/file, 4 bytes");
    }
    assert_eq!(project.content("new/dir/file"), "two\n");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o751);
    assert_eq!(std::fs::read_dir(project.root.join("new/dir")).unwrap().count(), 1, "{interrupted:?}");
    mode(0o444);
    assert_eq!(error(project.write("new/dir/file", "x")), "new/dir/file is read-only");
    let large = "x".repeat(5 << 20);
    let expected = "big: 5.0 MiB is more than the 4.0 MiB that this tool handles";
    assert_eq!(error(project.write("big", &large)), expected);
    assert!(!project.root.join("big").exists());
}

#[test]
fn text_is_appended() {
    let project = Project::new();
    let target = project.resolve("log").unwrap();
    for text in ["one\n", "two\n"] {
        append(&project.roots, &target, text).unwrap();
    }
    assert_eq!(project.content("log"), "one\ntwo\n");
}

#[test]
fn an_edit_needs_a_unique_text_and_says_what_is_wrong() {
    let project = Project::new().with_file("file", "a = 1\nb = 1\nc = 2\n");
    assert_eq!(project.edit("file", "c = 2", "c = 3").unwrap().text, "edited file in 1 place");
    assert_eq!(project.content("file"), "a = 1\nb = 1\nc = 3\n");
    let several = "the text to replace occurs 2 times in file (lines 1, 2); add surrounding lines until it is \
                   unique, or replace all";
    assert_eq!(error(project.edit("file", " = 1", " = 5")), several);
    let none = "the text to replace does not occur in file; read the file again and copy the text exactly, with its \
                indentation";
    assert_eq!(error(project.edit("file", "d = 1", "x")), none);
    assert_eq!(error(project.edit("file", "", "x")), "the text to replace is empty");
    assert_eq!(error(project.edit("file", "a", "a")), "the text to replace and the new text are the same");
    let all = EditRequest { old: " = 1", new: " = 5", replace_all: true, expected: None, call: "1" };
    let (output, _) = edit(&project.roots, &project.resolve("file").unwrap(), &all).unwrap();
    assert_eq!(output.text, "edited file in 2 places");
    assert_eq!(project.content("file"), "a = 5\nb = 5\nc = 3\n");
}

#[test]
fn an_edit_that_was_recorded_is_made_once() {
    // The new text contains the old one, so that a second edit would be possible.
    let project = Project::new().with_file("file", "one\n");
    let target = project.resolve("file").unwrap();
    let request = EditRequest { old: "one", new: "one two", replace_all: false, expected: None, call: "1" };
    let planned: EditDigests = plan_edit(&project.roots, &target, &request).unwrap();
    assert_eq!(project.content("file"), "one\n");
    let recorded = EditRequest { expected: Some(&planned), ..request };
    for expected in ["edited file in 1 place", "the edit of file was made already"] {
        let (output, digests) = edit(&project.roots, &target, &recorded).unwrap();
        assert_eq!((output.text.as_str(), &digests), (expected, &planned));
        assert_eq!(project.content("file"), "one two\n");
    }
    std::fs::write(project.root.join("file"), "one, by somebody else\n").unwrap();
    let refused = edit(&project.roots, &target, &recorded).map(|(output, _)| output);
    assert_eq!(error(refused), "file was changed by somebody else; read it again");
    assert_eq!(project.content("file"), "one, by somebody else\n");
}

#[test]
fn a_directory_is_listed_in_order_and_within_bounds() {
    let project = Project::new().with_file("b/x", "").with_file(".hidden", "12345").with_file("a\nb", "");
    assert_eq!(project.list(".").unwrap().text, ".hidden  5 B\na\\nb  0 B\nb/\n");
    assert_eq!(error(project.list("b/x")), "b/x is a regular file, not a directory");
    std::fs::create_dir(project.root.join("many")).unwrap();
    assert_eq!(project.list("many").unwrap().text, "[the directory is empty]");
    for number in 0..1003 {
        std::fs::write(project.root.join(format!("many/{number:04}")), "").unwrap();
    }
    let many = project.list("many").unwrap().text;
    assert!(many.ends_with("0999  0 B\n[3 more entries; search with a glob to find others]"), "{many}");
}

#[test]
fn a_search_finds_lines_by_pattern_and_glob() {
    let project = Project::new()
        .with_file("src/a.rs", "fn one() {}\r\n// TODO: two\n\nfn Three() {}\n")
        .with_file("src/deep/b.rs", "// TODO: deep\n")
        .with_file("c.md", "TODO in text\n")
        .with_file(".git/c.rs", "TODO in git\n")
        .with_file("binary", b"TODO\0");
    let found = |pattern: &str, glob| project.search(pattern, glob).unwrap().text;
    let todos = "src/a.rs:2: // TODO: two\nsrc/deep/b.rs:1: // TODO: deep\n[2 matching lines in 2 files]";
    assert_eq!(found("TODO", Some("*.rs")), todos);
    assert_eq!(found("TODO", Some("src/*.rs")), "src/a.rs:2: // TODO: two\n[1 matching lines in 1 files]");
    assert_eq!(found(r"^fn \w+\(\) \{\}$", None).lines().count(), 3);
    assert_eq!(found("^$", Some("a.rs")), "src/a.rs:3: \n[1 matching lines in 1 files]");
    assert_eq!(found("nothing", None), "[no match in 4 files]");
    assert_eq!(found("(?i)three", None), "src/a.rs:4: fn Three() {}\n[1 matching lines in 1 files]");
    let literal = SearchRequest { pattern: "one() {", is_literal: true, ignore_case: true, glob: None };
    let target = project.resolve("src/a.rs").unwrap();
    let output = search(&project.roots, &target, &literal, &AtomicBool::new(false)).unwrap();
    assert_eq!(output.text, "src/a.rs:1: fn one() {}\n[1 matching lines in 1 files]");
    let cancelled =
        search(&project.roots, &project.resolve("src").unwrap(), &literal, &AtomicBool::new(true));
    assert_eq!(error(cancelled), "the search was cancelled");
}

#[test]
fn a_search_is_bounded_whatever_the_pattern() {
    let project = Project::new()
        .with_file("many", "x\n".repeat(1000))
        .with_file("wide", format!("{}needle{}\n", "a".repeat(5000), "b".repeat(5000)));
    let many = project.search("x", None).unwrap().text;
    assert_eq!(many.lines().count(), 201);
    let stopped = "stopped early: there are more matches; narrow the pattern, the directory or the glob]";
    assert!(many.ends_with(stopped), "{many}");
    let wide = project.search("needle", None).unwrap().text;
    assert!(wide.starts_with("wide:1: …a") && wide.contains("needle") && wide.len() < 400, "{wide}");
    for pattern in ["(", "a{1000}{1000}{1000}", "", &"a".repeat(2000), &"(".repeat(500)] {
        let refused = error(project.search(pattern, None));
        assert!(refused.starts_with("the pattern is not valid: "), "{refused}");
    }
    assert!(error(project.search("x", Some("[a"))).starts_with("the pattern is not valid: the glob: "));
    assert_eq!(project.search("(a*)*c", Some("wide")).unwrap().text, "[no match in 1 files]");
}

proptest! {
    #[test]
    fn no_name_resolves_to_something_outside(path in "(\\.\\./|\\./|/|a/|b|[.]{1,3}|~|%2e|\\\\|proc/self/root/){0,12}") {
        let project = Project::new();
        if let Ok(target) = project.resolve(&path) {
            let inside = [&project.root, &project.extra].into_iter().any(|root| target.absolute().starts_with(root));
            prop_assert!(inside, "{path:?} leads to {:?}", target.absolute());
            prop_assert!(target.absolute().components().all(|part| part != std::path::Component::ParentDir));
        }
    }
}
