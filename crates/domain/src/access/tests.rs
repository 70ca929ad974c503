//! Decisions about uses, by rules written as text: `allow read src/**`.

use proptest::prelude::*;

use super::*;
use crate::policy::{Directory, ExecCommand, Use, UsePath};

fn rule(text: &str, line: u32) -> AccessRule {
    let mut words = text.split_whitespace();
    let effect = match words.next() {
        Some("allow") => AccessEffect::Allow,
        Some("ask") => AccessEffect::NeedsApproval,
        _ => AccessEffect::Deny,
    };
    let kind = words.next().unwrap();
    let rest: Vec<String> = words.map(ToOwned::to_owned).collect();
    let first = rest.first().cloned().unwrap_or_default();
    let subject = match kind {
        "read" => AccessSubject::Read(first),
        "write" => AccessSubject::Write(first),
        "exec" => AccessSubject::Exec(rest),
        "reach" => AccessSubject::Reach(first),
        "mcp" => AccessSubject::Mcp { server: first, tool: rest.get(1).cloned().unwrap_or_default() },
        "delegate" => AccessSubject::Delegate(first),
        "env" => AccessSubject::Env(first),
        "runtime" => AccessSubject::Runtime(first),
        "anything" => AccessSubject::Any,
        other => panic!("{other}"),
    };
    AccessRule { effect, subject, source: RuleSource { file: "d.md".to_owned(), line } }
}

fn layer(name: &str, rules: &[&str]) -> AccessLayer {
    let rules = rules.iter().zip(1..).map(|(text, line)| rule(text, line)).collect();
    AccessLayer { name: name.to_owned(), rules }
}

/// The rules of a run in `/work`, which the user calls `/link`.
fn access(layers: &[&[&str]]) -> Access {
    let layers: Vec<AccessLayer> =
        layers.iter().zip(["one", "two", "three"]).map(|(rules, name)| layer(name, rules)).collect();
    let directory = Directory { name: "/link".to_owned(), target: "/work".to_owned() };
    Access::new(&layers, directory, vec!["/state".to_owned(), "/work/own/".to_owned()])
}

/// `read src/a`, `write /etc/x`, `exec git log`, `reach example.org`.
fn use_of(text: &str) -> Use {
    let mut words = text.split_whitespace().map(ToOwned::to_owned);
    let kind = words.next().unwrap();
    let rest: Vec<String> = words.collect();
    let first = || rest.first().cloned().unwrap_or_default();
    let path = || {
        let target = match first() {
            name if name.starts_with('/') => name,
            name if name.is_empty() || name == "." => "/work".to_owned(),
            name => format!("/work/{name}"),
        };
        UsePath { name: Some(first()), target: Some(target) }
    };
    match kind.as_str() {
        "read" => Use::Read(path()),
        "list" => Use::List(path()),
        "search" => Use::Search(path()),
        "write" => Use::Write(path()),
        "exec" => Use::Exec(ExecCommand::Argv(rest)),
        "reach" => Use::Reach(Some(first())),
        "mcp" => Use::Mcp { server: first(), tool: rest.get(1).cloned() },
        "delegate" => Use::Delegate(Some(first())),
        "env" => Use::Env(first()),
        "runtime" => Use::Other(first()),
        other => panic!("{other}"),
    }
}

fn effect(rules: &[&str], of: &str) -> AccessEffect {
    access(&[rules]).decide(&use_of(of)).effect
}

#[track_caller]
fn check(rules: &[&str], allowed: &[&str], denied: &[&str]) {
    for of in allowed {
        assert_eq!(effect(rules, of), AccessEffect::Allow, "{rules:?}: {of}");
    }
    for of in denied {
        assert_eq!(effect(rules, of), AccessEffect::Deny, "{rules:?}: {of}");
    }
}

#[test]
fn a_star_stays_in_its_directory() {
    check(
        &["allow read src/*.rs", "allow read docs/**", "allow read a?c/[xy]*"],
        &["read src/a.rs", "read docs/a", "read docs/a/b/c.md", "read abc/x1", "read abc/y"],
        &["read src/a/b.rs", "read src/a.txt", "read docs", "read SRC/a.rs", "read abc/z", "read a/c/x"],
    );
    check(&["allow read **/*"], &["read a", "read .x/b/c"], &["read /etc/passwd", "read /workaround/a"]);
    check(&["allow read **/*.rs"], &["read a.rs", "read b/c/a.rs"], &["read a.rsx", "read /etc/a.rs"]);
    check(&["allow read a/**/b"], &["read a/b", "read a/x/y/b"], &["read a/xb", "read xa/b"]);
    check(
        &["allow read ./src//a", "allow read out/"],
        &["read src/a", "read out/x/y"],
        &["read a", "read out"],
    );
}

#[test]
fn a_class_never_crosses_into_a_directory() {
    check(&["allow read a[!x]b"], &["read ayb"], &["read a/b", "read axb"]);
    check(&["allow read a[.-0]b"], &["read a.b"], &["read a/b"]);
    check(&["allow read {a,b}/x"], &["read a/x", "read b/x"], &["read c/x"]);
    check(&["allow read src/{**,x}"], &["read src/x"], &["read src/a/b", "read etc/x"]);
}

#[test]
fn an_absolute_pattern_is_taken_at_its_word() {
    check(
        &["allow read /data/*.csv", "allow read /link/src/**", "allow read /work/docs/*"],
        &["read /data/a.csv", "read src/a/b", "read docs/a"],
        &["read data/a.csv", "read /data/x/a.csv", "read /link/src/a", "read docs"],
    );
    check(&["allow read /**"], &["read /etc/passwd", "read a"], &["read /state/runs/x"]);
}

#[test]
fn a_pattern_that_cannot_be_read_allows_nothing() {
    for pattern in ["src/../**", "..", "~", "~/x", "[", "{a", "{a/b,c}", "a\\", "", "a/../../**"] {
        let unusable = rule(&format!("allow read {pattern}"), 1);
        assert!(unusable.problem().is_some(), "{pattern}");
        let text = format!("allow read {pattern}");
        let text = [text.as_str()];
        check(&text, &[], &["read a", "read src/a", "read /etc/passwd", "list .", "read c", "read ~/x"]);
        let denial = format!("deny read {pattern}");
        check(&["allow anything", &denial], &["write a"], &["read a", "list ."]);
    }
    let long = format!("allow read {}", "a/".repeat(100));
    assert_eq!(rule(&long, 1).problem(), Some(RuleProblem::Path(PathPatternError::TooLong)));
    assert_eq!(rule("allow read src/**", 1).problem(), None);
}

#[test]
fn a_directory_is_listed_if_something_below_it_may_be_read() {
    check(
        &["allow read src/**/*.rs", "allow read docs/*"],
        &["list .", "list src", "list src/a/b", "list docs", "search .", "search src/a.rs"],
        &["list docs/a", "list etc", "list /", "list /work2", "search docs/a/b", "list src2"],
    );
    check(&["allow read src/**"], &["list src", "list src/a"], &["read src", "list docs"]);
    check(&["allow read a.txt"], &["list .", "search a.txt"], &["list a.txt", "list b"]);
    check(&["allow write **"], &["write a"], &["list .", "read a", "search .", "write ."]);
    check(&["allow read /data/x/*"], &["list /data", "list /data/x", "list /"], &["list /data/y", "list ."]);
}

#[test]
fn a_rule_that_denies_also_matches_in_doubt() {
    check(
        &["allow read **", "deny read secrets", "deny read **/*.pem", "deny read k?y"],
        &["list .", "read secrets2", "read a/secrets", "read kaay", "read a.pem/c"],
        &["read secrets/a/b", "list secrets", "read a.pem", "read a/b.pem", "read kéy", "read key"],
    );
    check(
        &["allow read **", "deny read src/**"],
        &["list .", "read a"],
        &["list src", "list src/a", "read src/a"],
    );
    check(&["allow read **", "deny read **/*"], &[], &["list .", "read a", "search ."]);
    // The name leads to another file than the one that the rule is about, or from it to another one.
    let rules = access(&[&["allow read **", "deny read secrets/**"]]);
    let read = |name: &str, target: &str| {
        let path = UsePath { name: Some(name.to_owned()), target: Some(target.to_owned()) };
        rules.decide(&Use::Read(path)).effect
    };
    assert_eq!(read("link/a", "/work/secrets/a"), AccessEffect::Deny);
    assert_eq!(read("secrets/a", "/work/data/a"), AccessEffect::Deny);
    assert_eq!(read("x/../secrets/a", "/work/data/a"), AccessEffect::Deny);
    assert_eq!(read("/link/secrets/a", "/work/data/a"), AccessEffect::Deny);
    assert_eq!(read("data/a", "/work/data/a"), AccessEffect::Allow);
}

#[test]
fn only_the_resolved_target_allows() {
    let rules = access(&[&["allow anything"]]);
    let decide = |name: &str, target: Option<&str>| {
        let path = UsePath { name: Some(name.to_owned()), target: target.map(ToOwned::to_owned) };
        rules.decide(&Use::Read(path)).basis
    };
    let unresolved = AccessBasis::BuiltIn(BuiltInDenial::UnresolvedPath);
    for target in
        [None, Some("src/a"), Some("/work/../etc"), Some("/work/./a"), Some("/work//a"), Some("/a\0b")]
    {
        assert_eq!(decide("src/a", target), unresolved, "{target:?}");
    }
    assert_ne!(decide("src/a", Some("/work/src/a")), unresolved);
    let inside = access(&[&["allow read src/**"]]);
    let link = UsePath { name: Some("src/passwd".to_owned()), target: Some("/etc/passwd".to_owned()) };
    assert_eq!(inside.decide(&Use::Read(link)).effect, AccessEffect::Deny);
}

#[test]
fn no_rule_lifts_the_built_in_denials() {
    let all = ["allow anything", "allow write **", "allow write .git/**", "allow read /state/**"];
    check(
        &all,
        &["read .git/config", "list .git", "write .gitignore", "read .volery/agents/a.md", "write a"],
        &[
            "write .git/config",
            "write .git",
            "write a/.GIT/hooks/x",
            "write .volery/config.toml",
            "write /x/.volery/a",
            "read /state",
            "read /state/runs/x",
            "list /state",
            "search /state/runs",
            "write /state/x",
            "read own/x",
        ],
    );
    let linked = UsePath { name: Some("gitdir/x".to_owned()), target: Some("/work/.git/x".to_owned()) };
    let link = UsePath { name: Some(".git/x".to_owned()), target: Some("/work/gitdir/x".to_owned()) };
    for path in [linked, link] {
        let verdict = access(&[&all]).decide(&Use::Write(path));
        assert_eq!(verdict.basis, AccessBasis::BuiltIn(BuiltInDenial::GitDirectory));
    }
}

#[test]
fn words_of_a_command_are_compared_one_by_one() {
    check(
        &["allow exec git"],
        &["exec git", "exec git log -1", "exec git ;"],
        &["exec ./git", "exec /tmp/git", "exec gitk", "exec Git", "exec", "exec sh -c git"],
    );
    check(
        &["allow exec git log **", "allow exec npm run test-*", "allow exec cargo test"],
        &["exec git log", "exec git log -1 -p", "exec npm run test-a", "exec cargo test"],
        &["exec git", "exec git push", "exec npm run test-a b", "exec npm run", "exec cargo test -p x"],
    );
    check(&["allow exec ./run.sh **"], &["exec ./run.sh a"], &["exec run.sh", "exec /work/run.sh"]);
    check(&["allow exec *"], &["exec anything at all"], &["exec ./x", "exec /bin/ls"]);
    check(&["allow anything"], &["exec /bin/ls"], &[]);
    let joined = |words: &[&str]| {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        access(&[&["allow exec git log **", "allow exec ls"]])
            .decide(&Use::Exec(ExecCommand::Argv(words)))
            .effect
    };
    assert_eq!(joined(&["git log"]), AccessEffect::Deny);
    assert_eq!(joined(&["git", "log x"]), AccessEffect::Deny);
    assert_eq!(joined(&["", "git", "log"]), AccessEffect::Deny);
    assert_eq!(joined(&["ls", "a\0b"]), AccessEffect::Deny);
}

#[test]
fn a_line_for_a_shell_is_never_allowed() {
    let all = access(&[&["allow anything", "allow exec **", "ask exec **"]]);
    for command in [ExecCommand::Line("git log".to_owned()), ExecCommand::Unknown, ExecCommand::Argv(vec![])]
    {
        assert_eq!(all.decide(&Use::Exec(command.clone())).effect, AccessEffect::Deny, "{command:?}");
    }
}

#[test]
fn a_denied_command_is_found_behind_others() {
    let rules = ["allow anything", "deny exec rm", "deny exec git push"];
    check(
        &rules,
        &["exec ls rm", "exec git log push"],
        &[
            "exec rm -rf x",
            "exec /bin/rm x",
            "exec git push",
            "exec git push --force",
            "exec env A=1 rm x",
            "exec sh -c rm",
            "exec timeout 5 git push origin",
        ],
    );
    check(&["allow exec git", "deny exec git push **"], &["exec git log"], &["exec git push a"]);
}

#[test]
fn other_uses_match_by_name() {
    check(
        &["allow reach example.org", "allow reach *.docs.example"],
        &["reach EXAMPLE.org.", "reach a.docs.example"],
        &["reach a.example.org", "reach docs.example", "reach xdocs.example", "reach evil.org"],
    );
    check(&["allow mcp db get_*"], &["mcp db get_x"], &["mcp db drop", "mcp other get_x", "mcp db"]);
    check(&["allow mcp db *"], &["mcp db", "mcp db drop"], &["mcp dbx drop"]);
    check(&["allow delegate web/*"], &["delegate web/search"], &["delegate web", "delegate x"]);
    check(&["allow env AWS_*"], &["env AWS_X"], &["env HOME"]);
    check(&["allow runtime search"], &["runtime search"], &["runtime load", "read a"]);
    assert_eq!(access(&[&["allow reach a.org"]]).decide(&Use::WebSearch).effect, AccessEffect::Deny);
    assert_eq!(access(&[&["allow reach *"]]).decide(&Use::WebSearch).effect, AccessEffect::Allow);
    for unknown in [Use::Reach(None), Use::Delegate(None)] {
        assert_eq!(
            access(&[&["allow reach *", "allow delegate *"]]).decide(&unknown).effect,
            AccessEffect::Deny
        );
    }
    for unusable in ["allow reach api*.org", "allow reach a/b", "allow mcp db", "allow env", "allow exec"] {
        assert!(rule(unusable, 1).problem().is_some(), "{unusable}");
    }
}

#[test]
fn in_a_layer_the_strictest_rule_wins() {
    let rules = ["allow read **", "ask read src/**", "deny read src/x"];
    assert_eq!(effect(&rules, "read a"), AccessEffect::Allow);
    assert_eq!(effect(&rules, "read src/a"), AccessEffect::NeedsApproval);
    assert_eq!(effect(&rules, "read src/x"), AccessEffect::Deny);
    assert_eq!(effect(&["ask exec git"], "exec git log"), AccessEffect::NeedsApproval);
    // In doubt, a rule that asks restricts, and permits nothing.
    assert_eq!(effect(&["ask exec rm", "allow anything"], "exec /bin/rm x"), AccessEffect::NeedsApproval);
    assert_eq!(effect(&["ask exec rm"], "exec /bin/rm x"), AccessEffect::Deny);
}

#[test]
fn the_strictest_layer_decides_and_is_named() {
    let read = use_of("read docs/a.md");
    let verdict = access(&[&["allow anything"], &["allow read src/**", "allow read *.md"]]).decide(&read);
    assert_eq!(verdict.basis, AccessBasis::NoRule { layer: "two".to_owned() });
    let expected =
        "reading docs/a.md is denied: no rule of two allows it. Allowed for this kind of use: src/**, *.md.";
    assert_eq!(verdict.explanation(), expected);

    let verdict = access(&[&["allow anything", "deny read docs/**"], &["allow write x"]]).decide(&read);
    let expected = "reading docs/a.md is denied: the rule `deny read docs/**` of one (d.md:2). Allowed for this kind \
                    of use: nothing.";
    assert_eq!(verdict.explanation(), expected);

    let verdict = access(&[&["ask read **"], &["allow read **"]]).decide(&read);
    let expected =
        "reading docs/a.md needs the approval of a person: the rule `ask read **` of one (d.md:1).";
    assert_eq!(verdict.explanation(), expected);

    let verdict = access(&[]).decide(&read);
    assert_eq!((verdict.effect, verdict.basis), (AccessEffect::Deny, AccessBasis::NoLayer));

    let verdict = access(&[&["allow exec git log **", "allow exec npm"]]).decide(&use_of("exec id -u"));
    let expected =
        "running id -u is denied: no rule of one allows it. Allowed for this kind of use: git log **, npm.";
    assert_eq!(verdict.explanation(), expected);

    let write = use_of("write .git/config");
    let verdict = access(&[&["allow anything"], &["allow write src/**"]]).decide(&write);
    let expected = "writing .git/config is denied: nothing may be written in a .git directory. Allowed for this kind \
                    of use: anything.";
    assert_eq!(verdict.explanation(), expected);
}

#[test]
fn an_explanation_is_bounded_and_visible() {
    let rules: Vec<String> = (0..100).map(|n| format!("allow read {}{n}", "x".repeat(300))).collect();
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let name = format!("a\u{202e}b\n{}", "y".repeat(10_000));
    let verdict =
        access(&[&rules]).decide(&Use::Read(UsePath { name: Some(name), target: Some("/x".to_owned()) }));
    assert_eq!((verdict.allowed.patterns.len(), verdict.allowed.omitted), (20, 80));
    let explanation = verdict.explanation();
    assert!(explanation.len() < 6000, "{}", explanation.len());
    assert!(explanation.starts_with(r"reading a\u{202e}b\nyyy"), "{explanation}");
    assert!(explanation.contains("and 80 more"));
    let stored = serde_json::to_string(&verdict).unwrap();
    assert_eq!(serde_json::from_str::<AccessVerdict>(&stored).unwrap(), verdict);
}

#[test]
fn a_rule_with_literal_words_fixes_the_arguments() {
    for (text, expected) in [
        ("allow exec git log -1", true),
        ("allow exec git", false),
        ("allow exec git log **", false),
        ("allow exec git *", false),
        ("allow exec npm run test-*", false),
        ("allow anything", false),
    ] {
        assert_eq!(fixes_arguments(&rule(text, 1)), expected, "{text}");
    }
    let command = use_of("exec git log");
    assert!(access(&[&["allow exec git", "allow exec git log"]]).decide(&command).fixes_arguments);
    assert!(access(&[&["allow exec git"], &["allow exec git log"]]).decide(&command).fixes_arguments);
    assert!(!access(&[&["allow exec git"], &["allow anything"]]).decide(&command).fixes_arguments);
}

#[test]
fn a_layer_knows_the_kinds_that_it_may_allow() {
    let may = |rules: &[&str], kind| layer("one", rules).may_allow(kind);
    assert!(may(&["allow read a"], AccessKind::Read));
    assert!(may(&["ask write a"], AccessKind::Write));
    assert!(may(&["allow anything", "deny write .env"], AccessKind::Write));
    assert!(!may(&["allow read a"], AccessKind::Write));
    assert!(!may(&["allow read [", "deny exec x"], AccessKind::Read));
    assert!(!may(&["allow anything", "deny write **/*"], AccessKind::Write));
    assert!(!may(&["allow exec git", "deny exec *"], AccessKind::Exec));
    assert!(!may(&["allow anything", "deny anything"], AccessKind::Reach));
}

const RULES: [&str; 30] = [
    "allow anything",
    "deny anything",
    "ask anything",
    "allow read **",
    "allow read src/**",
    "allow read *",
    "allow read /**",
    "deny read src/x",
    "deny read [",
    "ask read src/**",
    "allow write **",
    "allow write src/*",
    "deny write **/a",
    "ask write src/x",
    "allow exec git",
    "allow exec git log",
    "allow exec *",
    "deny exec git push",
    "ask exec git **",
    "deny exec",
    "allow reach *",
    "allow reach *.b.org",
    "deny reach a.b.org",
    "allow mcp s *",
    "deny mcp s t",
    "allow delegate *",
    "deny delegate x",
    "allow env *",
    "deny env A",
    "allow runtime *",
];
const USES: [&str; 26] = [
    "read a",
    "read src/x",
    "read src/y/z",
    "list .",
    "list src",
    "search src",
    "write a",
    "write src/x",
    "write .git/x",
    "read /etc/passwd",
    "read /state/x",
    "write /etc/x",
    "exec git",
    "exec git log",
    "exec git push",
    "exec ./git",
    "exec rm x",
    "reach a.b.org",
    "reach c.org",
    "mcp s t",
    "mcp s",
    "delegate x",
    "delegate y",
    "env A",
    "env B",
    "runtime x",
];

fn rule_sets() -> impl Strategy<Value = Vec<&'static str>> {
    proptest::collection::vec(prop::sample::select(&RULES[..]), 0..6)
}

/// Every way to choose names that the pattern could match below a directory, tried on a small tree.
fn small_tree() -> Vec<String> {
    let names = ["a", "b", "ab"];
    let mut paths: Vec<String> = names.map(|name| format!("/work/{name}")).to_vec();
    for depth in 0..2 {
        let longer: Vec<String> = paths
            .iter()
            .filter(|path| path.matches('/').count() == 2 + depth)
            .flat_map(|path| names.map(|name| format!("{path}/{name}")))
            .collect();
        paths.extend(longer);
    }
    paths
}

proptest! {
    #[test]
    fn a_layer_never_allows_more(base in proptest::collection::vec(rule_sets(), 1..3), added in rule_sets()) {
        let mut layers: Vec<&[&str]> = base.iter().map(Vec::as_slice).collect();
        let before = access(&layers);
        layers.push(&added);
        let after = access(&layers);
        for of in USES.map(use_of) {
            let (before, after) = (before.decide(&of), after.decide(&of));
            prop_assert!(after.effect >= before.effect, "{:?} {:?} {:?}", of, before, after);
        }
    }

    #[test]
    fn a_denial_in_a_layer_never_allows_more(base in rule_sets(), added in prop::sample::select(&RULES[..])) {
        let mut rules = base.clone();
        rules.push(added);
        let (before, after) = (access(&[&base]), access(&[&rules]));
        for of in USES.map(use_of) {
            let (before, after) = (before.decide(&of).effect, after.decide(&of).effect);
            match added.split_once(' ') {
                Some(("deny", _)) => prop_assert!(after >= before, "{:?}", of),
                Some(("allow", _)) => prop_assert!(after <= before, "{:?}", of),
                _ => {}
            }
        }
    }

    #[test]
    fn what_no_rule_matches_is_denied(rules in rule_sets()) {
        for of in USES {
            let verdict = access(&[&rules]).decide(&use_of(of));
            let is_rule = matches!(verdict.basis, AccessBasis::Rule { .. });
            prop_assert!(is_rule || verdict.effect == AccessEffect::Deny, "{:?}", verdict);
        }
    }

    #[test]
    fn patterns_match_names_as_globset_matches_paths(
        names in proptest::collection::vec("[ab]{1,2}|[ab]\\*|\\*[ab]?|\\*\\*|[ab]\\?|\\{a,b\\}", 1..4),
        path in prop::sample::select(small_tree()),
    ) {
        let pattern = names.join("/");
        let glob = globset::GlobBuilder::new(&pattern).literal_separator(true).build().unwrap();
        let matcher = glob.compile_matcher();
        let text = format!("allow read {pattern}");
        let rules = access(&[&[&text]]);
        let effect = |of: Use| rules.decide(&of).effect;
        let expected = matcher.is_match(path.strip_prefix("/work/").unwrap());
        let is_read = effect(Use::Read(UsePath::plain(&path))) == AccessEffect::Allow;
        prop_assert_eq!(is_read, expected, "{} {}", pattern, path);
        // Who may read a file may list every directory above it, up to the run's own.
        if is_read {
            let mut above = path.as_str();
            while let Some((parent, _)) = above.rsplit_once('/').filter(|(parent, _)| parent.starts_with("/work")) {
                prop_assert_eq!(effect(Use::List(UsePath::plain(parent))), AccessEffect::Allow, "{}", parent);
                above = parent;
            }
        }
    }

    #[test]
    fn a_directory_that_may_be_listed_contains_something(
        names in proptest::collection::vec("[ab]|\\*|\\*\\*", 1..4),
        path in prop::sample::select(small_tree()),
    ) {
        let text = format!("allow read {}", names.join("/"));
        let rules = access(&[&[&text]]);
        if rules.decide(&Use::List(UsePath::plain(&path))).effect == AccessEffect::Allow {
            let deeper = ["a", "b", "a/a", "a/b", "b/a", "b/b", "a/a/a", "a/a/b", "a/b/a", "a/b/b", "b/a/a", "b/b/a",
                "b/a/b", "b/b/b"].map(|below| format!("{path}/{below}"));
            let may_read = |path: &String| rules.decide(&Use::Read(UsePath::plain(path))).effect == AccessEffect::Allow;
            prop_assert!(deeper.iter().any(may_read), "{} {}", text, path);
        }
    }

    #[test]
    fn no_pattern_makes_a_decision_fail(pattern in "\\PC{0,30}", name in "\\PC{0,30}", words in proptest::collection::vec("\\PC{0,8}", 0..4)) {
        let source = RuleSource { file: "f".to_owned(), line: 1 };
        let of = |effect, subject| AccessRule { effect, subject, source: source.clone() };
        let rules = vec![
            of(AccessEffect::Allow, AccessSubject::Read(pattern.clone())),
            of(AccessEffect::Deny, AccessSubject::Write(pattern.clone())),
            of(AccessEffect::Allow, AccessSubject::Exec(words.clone())),
            of(AccessEffect::Deny, AccessSubject::Exec(vec![pattern.clone()])),
            of(AccessEffect::NeedsApproval, AccessSubject::Reach(pattern.clone())),
        ];
        let rules = Access::new(&[AccessLayer { name: "l".to_owned(), rules }], Directory::default(), Vec::new());
        let path = UsePath::plain(&format!("/{name}"));
        for of in [
            Use::Read(path.clone()), Use::List(path.clone()), Use::Write(path),
            Use::Exec(ExecCommand::Argv(words)), Use::Reach(Some(name)),
        ] {
            prop_assert!(!rules.decide(&of).explanation().is_empty());
        }
    }
}
