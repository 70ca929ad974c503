//! YAML: an entry goes in and out, and no other line changes.

use backends::client_setup::{ConfigEntry, Syntax};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::super::edit::{EditError, SyntaxEdit, apply, undo};

fn entries() -> Vec<ConfigEntry> {
    let server = json!({
        "enabled": true, "type": "stdio", "name": "volery", "cmd": "volery", "args": ["serve", "--dialect", "jarvis"],
        "envs": {"VOLERY_HOME": "/a b"}, "timeout": 600,
    });
    vec![ConfigEntry::key(&["extensions", "volery"], server)]
}

const WRITTEN: &str = "  volery:\n    enabled: true\n    type: stdio\n    name: volery\n    cmd: volery\n    args:\n    \
                       - serve\n    - \"--dialect\"\n    - jarvis\n    envs:\n      VOLERY_HOME: \"/a b\"\n    timeout: 600\n";

fn put(text: &str) -> String {
    let (merged, done) =
        apply(Syntax::Yaml, text, &entries()).unwrap_or_else(|error| panic!("{error}: {text}"));
    let (again, nothing) = apply(Syntax::Yaml, &merged, &entries()).unwrap();
    assert!(nothing.is_empty() && again == merged, "a second time changes {merged}");
    assert_eq!(undo(Syntax::Yaml, &merged, &done).unwrap().text, text, "{merged}");
    merged
}

#[test]
fn an_entry_is_added_where_its_kind_is() {
    assert_eq!(put(""), format!("extensions:\n{WRITTEN}"));
    assert_eq!(
        put("# mine\nGOOSE_MODEL: x # this\n"),
        format!("# mine\nGOOSE_MODEL: x # this\nextensions:\n{WRITTEN}")
    );
    let text = "---\nextensions: # all of them\n  # the first\n  developer:\n    enabled: true\n    args: []\n\n# behind\nGOOSE_MODE: auto\n";
    assert_eq!(put(text), text.replace("args: []\n", &format!("args: []\n{WRITTEN}")));
}

#[test]
fn the_indentation_and_the_ends_of_lines_are_those_of_the_file() {
    let text = "extensions:\r\n    a:\r\n        cmd: x\r\n";
    let merged = put(text);
    assert!(merged.contains("\r\n    volery:\r\n        enabled: true\r\n"), "{merged:?}");
    assert_eq!(merged.matches('\n').count(), merged.matches("\r\n").count());
    assert_eq!(put("a: 1"), format!("a: 1\nextensions:\n{}", WRITTEN.trim_end()));
}

#[test]
fn an_empty_mapping_is_filled_and_emptied_again() {
    let text = "extensions: {} # none yet\nmode: auto\n";
    let (merged, done) = apply(Syntax::Yaml, text, &entries()).unwrap();
    assert_eq!(merged, format!("extensions: # none yet\n{WRITTEN}mode: auto\n"));
    assert_eq!(undo(Syntax::Yaml, &merged, &done).unwrap().text, text);
}

#[test]
fn an_existing_entry_gets_its_missing_members_and_keeps_the_rest() {
    let text = "extensions:\n  volery: # mine\n    cmd: /old/volery # was\n    args: [serve] # all\n    envs:\n      KEY: k\n    bundled: false\n";
    let (merged, done) = apply(Syntax::Yaml, text, &entries()).unwrap();
    let expected = "extensions:\n  volery: # mine\n    cmd: volery # was\n    args: # all\n    - serve\n    - \"--dialect\"\n    - jarvis\n    \
                  envs:\n      KEY: k\n      VOLERY_HOME: \"/a b\"\n    bundled: false\n    enabled: true\n    type: stdio\n    name: volery\n    timeout: 600\n";
    assert_eq!(merged, expected);
    let back = undo(Syntax::Yaml, &merged, &done).unwrap();
    assert_eq!(Syntax::Yaml.value(&back.text), Syntax::Yaml.value(text));
    assert!(back.changed_since.is_empty() && back.text.contains("/old/volery # was"), "{}", back.text);
}

#[test]
fn what_cannot_be_edited_safely_is_refused() {
    for text in [
        "extensions: {a: {cmd: x}}\n",
        "extensions: &all\n  a: {}\n",
        "base: &b {x: 1}\nextensions: *b\n",
        "? extensions\n: {a: 1}\n",
        "{extensions: {}}\n",
        "extensions: {\n}\n",
    ] {
        let refused = apply(Syntax::Yaml, text, &entries());
        assert!(matches!(refused, Err(EditError::OnlyBlocks { .. })), "{text}: {refused:?}");
    }
    for (text, position) in
        [("a: [1\n", None), ("a: 1\na: 2\n", Some((2, 1))), ("a: 1\n---\nb: 2\n", Some((2, 1)))]
    {
        match apply(Syntax::Yaml, text, &entries()) {
            Err(EditError::Unreadable { line, column, .. }) => {
                assert!(
                    position.is_none_or(|position| position == (line, column)),
                    "{text}: {line} {column}"
                );
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    for text in ["extensions: 1\n", "extensions:\n", "extensions: [a]\n", "- a\n"] {
        let refused = apply(Syntax::Yaml, text, &entries());
        assert!(matches!(refused, Err(EditError::OtherShape { .. })), "{text}: {refused:?}");
    }
}

/// Lines of a mapping at some indentation, each a key with its value.
fn member(indent: usize) -> impl Strategy<Value = String> {
    let space = " ".repeat(indent);
    let value = prop_oneof![
        Just(" 1 # note one".to_owned()),
        Just(" it's # note two".to_owned()),
        Just(" 'a # b: c'".to_owned()),
        Just(" \"x: #y\" # note three".to_owned()),
        Just(" [a, \"b # c\", {d: e}] # note four".to_owned()),
        Just(" {a: '}', b: 2}".to_owned()),
        Just(format!(" |\n{space}  # no comment\n{space}  text: here\n")),
        Just(format!(" >-\n{space}  folded\n\n{space}  more")),
        Just(format!(" # note five\n{space}- a\n{space}# note six\n{space}- b: 1\n{space}  c: 2")),
        Just(format!("\n{space}  - a\n{space}  - b # note seven")),
        Just(format!("\n{space}  # note eight\n{space}  x: 1\n{space}  y:\n{space}    z: a b")),
        Just(format!(" several\n{space}  words")),
        Just(format!(" \"several\n{space}  words\"")),
        Just(String::new()),
    ];
    let key = prop_oneof!["[a-z]{1,3}", Just("\"quo: ted\"".to_owned()), Just("'it''s'".to_owned())];
    let space = " ".repeat(indent);
    (key, value).prop_map(move |(key, value)| format!("{space}{key}:{value}"))
}

fn blank() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just(String::new()),
        1 => Just("# note left\n".to_owned()),
        1 => Just("   # note within\n".to_owned()),
        1 => Just("\n".to_owned()),
    ]
}

fn yaml_text() -> impl Strategy<Value = String> {
    let ours = prop_oneof![
        2 => Just(String::new()),
        1 => Just("  volery:\n    cmd: old # note nine\n    mine: 1\n".to_owned()),
    ];
    let server = (blank(), "[a-z]{1,3}", vec(member(4), 1..3))
        .prop_map(|(blank, name, members)| format!("{blank}  {name}:\n{}\n", members.join("\n")));
    let extensions = prop_oneof![
        1 => Just(String::new()),
        1 => Just("extensions: {}\n".to_owned()),
        3 => (vec(server, 0..3), ours).prop_filter_map("something is in it", |(servers, ours)| {
            let all = format!("{}{ours}", servers.concat());
            (!all.is_empty()).then(|| format!("extensions: # note ten\n{all}"))
        }),
    ];
    let others = || vec((blank(), member(0)).prop_map(|(blank, member)| format!("{blank}{member}\n")), 0..3);
    (others(), extensions, others(), blank(), any::<bool>(), any::<bool>()).prop_map(
        |(before, extensions, after, blank, windows, end)| {
            let text = format!("{}{extensions}{}{blank}", before.concat(), after.concat());
            let text = if end { text.as_str() } else { text.trim_end_matches('\n') };
            if windows { text.replace('\n', "\r\n") } else { text.to_owned() }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_other_line_stays_and_undoing_is_identity(text in yaml_text()) {
        prop_assume!(Syntax::Yaml.value(&text).is_ok());
        let before = Syntax::Yaml.value(&text).unwrap();
        let there = before.pointer("/extensions/volery").is_some();
        let empty = before.pointer("/extensions") == Some(&json!({}));
        let (merged, done) = match apply(Syntax::Yaml, &text, &entries()) {
            Ok(merged) => merged,
            // A block scalar that ends with a line like a comment: refused, and never damaged.
            Err(EditError::Ambiguous { .. } | EditError::OnlyBlocks { .. }) if text.contains('|') => return Ok(()),
            Err(error) => return Err(TestCaseError::fail(format!("{error}: {text:?}"))),
        };
        let found = Syntax::Yaml.value(&merged).unwrap();
        prop_assert_eq!(&found["extensions"]["volery"]["cmd"], "volery");
        // Each line that was there is there still, in its order; only lines of ours were added.
        let mut left = merged.lines();
        for line in text.lines().filter(|line| !there || !line.contains("cmd: old")) {
            let line = if empty { line.replace("extensions: {}", "extensions:") } else { line.to_owned() };
            prop_assert!(left.any(|now| now == line), "{line:?} is gone from {merged:?}");
        }
        let undone = undo(Syntax::Yaml, &merged, &done).unwrap();
        prop_assert!(undone.changed_since.is_empty());
        prop_assert_eq!(undone.text, text, "{:?}", merged);
    }

    #[test]
    fn no_text_makes_an_edit_of_yaml_panic(text in "[ -~\n\r\"'{}\\[\\],:#|>&*é-]{0,80}") {
        let _ = apply(Syntax::Yaml, &text, &entries());
        let _ = apply(Syntax::Yaml, &format!("extensions:\n  volery:\n    cmd: {text}\n"), &entries());
    }
}
