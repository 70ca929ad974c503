//! Runs each check on this repository and on a small bad example, which shows that the check can fail.

use std::path::{Path, PathBuf};

use crate::source_tree::SourceTree;
use crate::{
    arrows, cycles, differences, exceptions, files, forbidden_words, lexer, modules, privileges,
    repository_files, vocabulary,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the crate is two folders deep")
}

fn all_findings(tree: &SourceTree, root: &str) -> Vec<String> {
    [
        arrows::check(tree),
        cycles::check(tree),
        files::introductions(tree),
        files::lengths(tree),
        files::names(tree),
        forbidden_words::check(tree),
        modules::check(tree),
        privileges::unsafe_code(tree),
        privileges::spawning(tree),
        privileges::variables(tree),
        privileges::doors(tree),
        repository_files::dependencies(tree),
        repository_files::changelog(tree),
        repository_files::machine_paths(tree, root),
        repository_files::registries(tree),
        differences::check(tree),
        vocabulary::private_names(tree),
        vocabulary::repeated_types(tree),
    ]
    .concat()
}

#[test]
fn the_repository_is_tidy() {
    let root = root();
    let tree = SourceTree::read(&root).expect("the repository can be read");
    assert!(
        tree.get("crates/tidy/src/tests.rs").is_some(),
        "the repository was not found at {}",
        root.display()
    );
    let findings = all_findings(&tree, &root.display().to_string());
    let (new, stale) = exceptions::compare(&findings, &exceptions::read_known());
    assert!(new.is_empty(), "{} findings:\n{}", new.len(), new.join("\n"));
    assert!(
        stale.is_empty(),
        "take these out of exceptions.txt, they are no longer needed:\n{}",
        stale.join("\n")
    );
}

#[test]
fn exceptions_only_shrink() {
    assert!(exceptions::read_known().len() <= exceptions::EXCEPTIONS_MAX, "mend the finding instead");
    let findings = ["a.rs:7: bad".to_owned(), "b.rs:1: bad".to_owned()];
    let (new, stale) = exceptions::compare(&findings, &["a.rs: bad", "c.rs: bad"]);
    assert_eq!((new, stale), (vec!["b.rs:1: bad".to_owned()], vec!["c.rs: bad".to_owned()]));
}

/// Runs a check on files and compares all its findings.
#[track_caller]
fn check_finds(check: fn(&SourceTree) -> Vec<String>, bad: &[(&str, &str)], expected: &[&str]) {
    assert_eq!(check(&SourceTree::from_files(bad)), expected);
}

#[test]
fn arrows_point_down_only() {
    check_finds(
        arrows::check,
        &[
            (
                "crates/domain/Cargo.toml",
                "[dependencies]\nserde.workspace = true\njournal.workspace = true\n",
            ),
            (
                "crates/backends/Cargo.toml",
                "[dependencies]\ndomain = { path = \"x\" }\n[dev-dependencies]\njournal = 1\n",
            ),
            (
                "crates/config/Cargo.toml",
                "[package]\nname = \"tokio\"\n[target.'cfg(unix)'.dependencies.tokio]\n",
            ),
            ("crates/volery/Cargo.toml", "[dependencies]\n# rusqlite = 1\nclap = 1\nrusqlite = 1\n"),
            ("crates/tidy/Cargo.toml", "[build-dependencies]\nserde = 1\n[lib]\ndoctest = false\n"),
            ("crates/extra/Cargo.toml", ""),
        ],
        &[
            "crates/domain/Cargo.toml: domain must not know journal",
            "crates/backends/Cargo.toml: backends must not know journal",
            "crates/config/Cargo.toml: tokio belongs to engine, volery only",
            "crates/volery/Cargo.toml: rusqlite belongs to journal only",
            "crates/tidy/Cargo.toml: tidy has the standard library only",
            "crates/extra/Cargo.toml: the crate extra is not on the map in arrows.rs",
        ],
    );
}

#[test]
fn folders_do_not_depend_on_each_other() {
    check_finds(
        cycles::check,
        &[
            ("crates/a/src/main.rs", "mod one; mod two; use crate::one;"),
            ("crates/a/src/one/x.rs", "use crate::{env, wire::{self, Line}};"),
            ("crates/a/src/wire.rs", "fn f() { crate::two::g() }"),
            ("crates/a/src/two/mod.rs", "// crate::three\nuse crate::env;"),
            ("crates/a/src/two/y.rs", "use crate::{\n    env::{one, X},\n    one,\n};"),
            // Files may use each other; tests may use everything.
            ("crates/a/src/env.rs", "use crate::clock;"),
            ("crates/a/src/clock.rs", "use crate::env;"),
            ("crates/a/src/three/z.rs", "use crate::one;"),
            ("crates/a/src/one/tests.rs", "use crate::three;"),
            ("crates/b/src/one/x.rs", "use crate::two;\n#[cfg(test)]\nmod tests { use crate::three; }"),
            ("crates/b/src/two/x.rs", "use crate::three;"),
            ("crates/b/src/three/x.rs", "use crate::four; use crate::one_more;"),
        ],
        &["crates/a/src: the folders one, two depend on each other"],
    );
}

#[test]
fn files_say_what_they_are_for() {
    let bad =
        [("a.rs", "//! Good.\n"), ("b.rs", "use std::fs;\n//! Late.\n"), ("c.rs", ""), ("d.rs", "//!\n")];
    let must = "must begin with //! and what the file is for";
    check_finds(
        files::introductions,
        &bad,
        &[&format!("b.rs: {must}"), &format!("c.rs: {must}"), &format!("d.rs: {must}")],
    );
}

#[test]
fn files_are_short_unless_they_are_tests() {
    let (long, fits) = ("\n".repeat(files::LINES_MAX + 1), "\n".repeat(files::LINES_MAX));
    let bad = [("x/a.rs", long.as_str()), ("x/b.rs", &fits), ("x/tests.rs", &long), ("x/tests/c.rs", &long)];
    check_finds(files::lengths, &bad, &["x/a.rs: 701 lines are more than 700; split it by noun"]);
}

#[test]
fn names_say_something() {
    check_finds(
        files::names,
        &[
            ("crates/a/src/utils.rs", "//! x"),
            ("crates/a/src/run_info/mod.rs", "//! x"),
            ("crates/a/src/parser_part2.rs", "//! x"),
            (
                "crates/a/src/b.rs",
                "pub struct RunManager;\nenum Data {}\nmod common;\n// struct Info\nstruct Metadata;",
            ),
            ("crates/a/src/database.rs", "struct Database; type Encore = Core; let base = \"struct Core\";"),
        ],
        &[
            "crates/a/src/utils.rs: \"utils\" is not the name of anything",
            "crates/a/src/run_info/mod.rs: \"run_info\" is not the name of anything",
            "crates/a/src/parser_part2.rs: \"parser_part2\" is not the name of anything",
            "crates/a/src/b.rs:1: \"RunManager\" is not the name of anything",
            "crates/a/src/b.rs:2: \"Data\" is not the name of anything",
            "crates/a/src/b.rs:3: \"common\" is not the name of anything",
        ],
    );
}

#[test]
fn some_words_cannot_be_merged() {
    let later = concat!("FIX", "ME");
    let some_day = concat!("TO", "DO");
    let comments = format!("// {later}: x\n// {some_day}\n// {some_day}(issue 7): y\nlet a = \"{later}\";\n");
    check_finds(
        forbidden_words::check,
        &[
            (
                "a.rs",
                "#[ignore]\n#[allow(x)]\n#![allow(y)]\nfn f() { todo!() }\n// todo! #[ignore]\nlet a = \"todo!\";",
            ),
            ("b.rs", &comments),
            ("c.md", &format!("one\n{later}\n")),
        ],
        &[
            "a.rs:1: #[ignore: a test runs, or it is deleted",
            "a.rs:2: #[allow(: use #[expect(lint, reason = ...)]",
            "a.rs:3: #![allow(: use #![expect(lint, reason = ...)]",
            "a.rs:4: todo!: finish it",
            &format!("b.rs:1: {later} cannot be merged"),
            &format!("b.rs:2: a {some_day} needs the number of an issue"),
            &format!("c.md:2: {later} cannot be merged"),
        ],
    );
}

#[test]
fn declared_names_use_ordinary_words() {
    let files = [
        (
            "crates/a/src/a.rs",
            "pub(crate) struct SaidLimits<'a> {\n    pub(super) asked: u8,\n    limit: Told,\n}\nfn told_twice(said: u8) {\n    \
             let kept = asked;\n}\nconst KEPT_MAX: u8 = 1; // told\nmod told;\n",
        ),
        ("crates/b/src/beside.rs", "fn untold(keeper: &str) { \"said\" }\n"),
        ("crates/b/src/desk/mod.rs", "fn doorway() {}\nfn known() {}\nfn known_keys() {}\n"),
    ];
    check_finds(
        |tree| vocabulary::compare_private_names(tree, 6),
        &files,
        &[
            "crates: 7 declared names are private by the lists in crates/tidy/src/vocabulary.rs, at most 6 may; \
             most are in crates/a/src/a.rs (SaidLimits, asked, told_twice, KEPT_MAX), crates/b/src/desk/mod.rs (known, desk), \
             crates/b/src/beside.rs (beside)",
        ],
    );
    check_finds(|tree| vocabulary::compare_private_names(tree, 7), &files, &[]);
    check_finds(
        |tree| vocabulary::compare_private_names(tree, 8),
        &files,
        &["crates/tidy/src/vocabulary.rs: lower PRIVATE_NAMES from 8 to 7"],
    );
}

#[test]
fn a_type_name_means_at_most_two_things() {
    let place = |path| (path, "pub(crate) struct Place<'a> {}\nimpl X { type Item = u8; }\nstruct Args;");
    check_finds(
        vocabulary::repeated_types,
        &[place("a.rs"), place("b.rs"), place("c.rs")],
        &["a.rs: the type Place is defined 3 times: a.rs, b.rs, c.rs"],
    );
    check_finds(vocabulary::repeated_types, &[place("a.rs"), place("b.rs")], &[]);
}

#[test]
fn no_file_is_forgotten() {
    let lost = "no mod line leads to this file";
    check_finds(
        modules::check,
        &[
            ("crates/a/Cargo.toml", "[[bench]]\npath = \"measure/speed.rs\"\n"),
            ("crates/a/measure/speed.rs", ""),
            ("crates/a/measure/lost.rs", ""),
            (
                "crates/a/src/lib.rs",
                "pub mod room;\nmod flat;\n// mod commented;\n#[cfg(test)]\nmod tests;\n",
            ),
            ("crates/a/src/tests.rs", ""),
            ("crates/a/src/commented.rs", ""),
            ("crates/a/src/flat.rs", "#[cfg(test)] mod tests;"),
            ("crates/a/src/flat/tests.rs", ""),
            ("crates/a/src/room/mod.rs", "mod inner;\n"),
            ("crates/a/src/room/inner.rs", ""),
            ("crates/a/src/room/tests.rs", ""),
            ("crates/a/tests/it/main.rs", "mod case;"),
            ("crates/a/tests/it/case.rs", ""),
            ("crates/a/tests/it/other.rs", ""),
            ("crates/a/examples/one.rs", ""),
        ],
        &[
            &format!("crates/a/measure/lost.rs: {lost}"),
            &format!("crates/a/src/commented.rs: {lost}"),
            &format!("crates/a/src/room/tests.rs: {lost}"),
            &format!("crates/a/tests/it/other.rs: {lost}"),
        ],
    );
}

#[test]
fn unsafe_code_has_its_places() {
    let block = "fn f() { unsafe { g() } }";
    check_finds(
        privileges::unsafe_code,
        &[
            ("crates/process/src/os/x.rs", block),
            ("crates/testkit/src/bin/fake-agent/main.rs", block),
            ("crates/journal/src/x.rs", block),
            ("crates/journal/src/y.rs", "// unsafe\n#![expect(unsafe_code)]\nlet a = \"unsafe\";"),
        ],
        &["crates/journal/src/x.rs:1: unsafe code belongs into crates/process/src/os/"],
    );
}

#[test]
fn processes_are_started_in_one_place() {
    let spawn = "\nlet child = std::process::Command::new(\"x\");";
    check_finds(
        privileges::spawning,
        &[
            ("crates/process/src/spawn.rs", spawn),
            ("crates/volery/tests/it/main.rs", spawn),
            ("crates/volery/src/app/tests.rs", spawn),
            ("crates/volery/src/app/start.rs", spawn),
        ],
        &["crates/volery/src/app/start.rs:2: processes are started in crates/process/src/ only"],
    );
}

#[test]
fn environment_variables_are_listed() {
    check_finds(
        privileges::variables,
        &[
            (
                "crates/engine/src/env.rs",
                "//! `VOLERY_DOCUMENTED`\nconst A: &str = \"VOLERY_HOME\";\n// \"VOLERY_IN_COMMENT\"",
            ),
            (
                "crates/volery/src/app.rs",
                "let a = \"set VOLERY_HOME or\\nVOLERY_OTHER\";\n// VOLERY_X\nlet VOLERY_Y = 1;",
            ),
            ("crates/journal/src/x.rs", "let a = r#\"VOLERY_IN_COMMENT VOLERY_DOCUMENTED\"#;"),
            ("crates/journal/src/tests.rs", "let a = \"VOLERY_TEST\";"),
        ],
        &[
            "crates/volery/src/app.rs:1: VOLERY_OTHER is not listed in crates/engine/src/env.rs",
            "crates/journal/src/x.rs:1: VOLERY_IN_COMMENT is not listed in crates/engine/src/env.rs",
        ],
    );
}

#[test]
fn doors_do_not_reach_into_each_other() {
    check_finds(
        privileges::doors,
        &[
            ("crates/volery/src/main.rs", "mod cli; mod mcp; use crate::mcp::serve;"),
            ("crates/volery/src/cli/run.rs", "use crate::cli::output;\nuse crate::mcp::serve;"),
            ("crates/volery/src/mcp/tool.rs", "use crate::cli::output;\n// crate::cli\n"),
            ("crates/volery/src/app.rs", "use crate::mcp;"),
        ],
        &[
            "crates/volery/src/cli/run.rs:2: the cli door must not use the mcp door",
            "crates/volery/src/mcp/tool.rs:1: the mcp door must not use the cli door",
        ],
    );
}

#[test]
fn dependencies_have_a_ceiling() {
    let lock = "[[package]]\nname = \"a\"\n".repeat(repository_files::PACKAGES_MAX + 1);
    check_finds(
        repository_files::dependencies,
        &[("Cargo.lock", &lock)],
        &[&format!(
            "Cargo.lock: {} packages are more than {}",
            repository_files::PACKAGES_MAX + 1,
            repository_files::PACKAGES_MAX
        )],
    );
    check_finds(repository_files::dependencies, &[], &["Cargo.lock: missing"]);
}

#[test]
fn what_changed_can_be_read() {
    check_finds(repository_files::changelog, &[("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n")], &[]);
    let missing = "CHANGELOG.md: has no section \"## Unreleased\"";
    check_finds(repository_files::changelog, &[("CHANGELOG.md", "# Changelog\n\n## 0.1.0\n")], &[missing]);
    check_finds(repository_files::changelog, &[], &["CHANGELOG.md: missing"]);
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    let tree = SourceTree::from_files(&[
        ("a.md", "see\n/srv/checkouts/volery/docs\n"),
        ("crates/a/src/b.rs", "let a = \"/root/x\";"),
        ("crates/a/src/tests.rs", "let a = \"/home/ada/x\"; let b = \"/srv/checkouts/volery\";"),
        ("crates/a/src/c.rs", "let a = \"/proc/self\";"),
    ]);
    let expected = ["a.md:2", "crates/a/src/b.rs:1", "crates/a/src/tests.rs:1"]
        .map(|location| format!("{location}: a path of somebody's machine"));
    assert_eq!(repository_files::machine_paths(&tree, "/srv/checkouts/volery"), expected);
    assert_eq!(
        repository_files::machine_paths(&SourceTree::from_files(&[("a.md", "/volery/x")]), "/volery"),
        Vec::<String>::new()
    );
}

#[test]
fn no_file_chooses_a_package_registry() {
    let standard = "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n";
    let other = "source = \"sparse+https://index.example.org/\"\n";
    let address = ["https://regis", "try.example.org/x"].concat();
    check_finds(
        repository_files::registries,
        &[
            ("Cargo.lock", &format!("{standard}{other}")),
            ("package-lock.json", &format!("{{\"resolved\": \"{address}\"}}")),
            ("README.md", "a registry, see https://example.org/registry\n"),
        ],
        &[
            "Cargo.lock:2: the address of a package registry",
            "package-lock.json:1: the address of a package registry",
        ],
    );
}

#[test]
fn code_comments_and_strings_are_separated() {
    let text = "a /* b /* c */ d */ e // f\n'x' '\\'' 'life \"s\\\"t\" r#\"u\"v\"# br\"w\" \"\u{e9}\" var\"x\" '\"' z";
    let parts = lexer::split(text);
    assert_eq!(
        parts.code.split_whitespace().collect::<String>(),
        "ae'''''life\"\"r#\"\"#br\"\"\"\"var\"\"''z"
    );
    assert_eq!(parts.comments.trim(), "/* b /* c */ d */   // f");
    let strings: Vec<&str> = parts.strings.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(strings, ["s\\\"t", "u\"v", "w", "\u{e9}", "x"]);
    assert!(parts.strings.iter().all(|(line, _)| *line == 2));
    // Whatever the text is, every line stays where it is.
    for broken in ["\"", "'", "r#\"", "/*", "'\\", "b'", "\"\\", "r\"x", "'\u{e9}"] {
        assert_eq!(lexer::split(broken).code.lines().count(), broken.lines().count(), "{broken}");
    }
    assert_eq!(lexer::lines_with("xa a\na_ a(a)\n", "a"), [1, 2]);
}

#[test]
fn a_page_has_the_differences_that_tests_state_and_no_others() {
    let test =
        "/// Differs from hen: the shell | runs | is denied,\n///    as its page says\n#[test]\nfn f() {}\n";
    let page = |rows: &str| {
        format!(
            "# Hen\n\n{}\n\n| what | there | here |\n|---|---|---|\n{rows}\n{}\n\nMore.\n",
            differences::BEGIN,
            differences::END
        )
    };
    let row = "| the shell | runs | is denied, as its page says |\n";
    let path = "docs/coming-from-hen.md";
    check_finds(differences::check, &[("a.rs", test), (path, &page(row))], &[]);
    let old = "docs/coming-from-hen.md: the table of differences is old: run scripts/differences";
    check_finds(differences::check, &[("a.rs", test), (path, &page(""))], &[old]);
    check_finds(differences::check, &[("a.rs", ""), (path, &page(row))], &[old]);
    check_finds(
        differences::check,
        &[("a.rs", test), (path, "# Hen\n")],
        &["docs/coming-from-hen.md: the marks of the table of differences are missing"],
    );
    check_finds(
        differences::check,
        &[(
            "a.rs",
            "/// Differs from hen: a | b | c\nfn f() {}\n/// Differs from hen: a | b\n#[test]\nfn g() {}\n",
        )],
        &[
            "a.rs:1: a difference that stands above no test",
            "a.rs:3: a difference is written as SYSTEM: what | there | here",
        ],
    );
}
