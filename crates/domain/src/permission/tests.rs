//! The parsing of rules, and the kinds of tools under the names of all vendors.

use proptest::prelude::*;

use super::{Level, Permission, Rule, RuleOrigin, ToolKind};

fn rule(text: &str) -> Rule {
    text.parse().unwrap()
}

#[test]
fn a_rule_is_a_tool_and_perhaps_a_pattern() {
    let parts = |text| {
        let rule = rule(text);
        (rule.tool().to_owned(), rule.pattern().map(ToOwned::to_owned))
    };
    assert_eq!(parts("Read"), ("Read".to_owned(), None));
    assert_eq!(parts(" Bash(curl:*) "), ("Bash".to_owned(), Some("curl:*".to_owned())));
    assert_eq!(parts("Bash(echo (a))"), ("Bash".to_owned(), Some("echo (a)".to_owned())));
    assert_eq!(parts("mcp__x__y"), ("mcp__x__y".to_owned(), None));
    assert_eq!(Rule::with_pattern("bash", "git *").unwrap().spelling(), "bash(git *)");
}

#[test]
fn an_invalid_rule_is_refused_with_its_reason() {
    let reason = |text: &str| text.parse::<Rule>().unwrap_err().reason;
    assert_eq!(reason("  "), "it is empty");
    assert_eq!(reason("--dangerous"), "it begins with '-'");
    assert_eq!(reason("Bash(curl"), "the parenthesis is not closed at its end");
    assert_eq!(reason("Bash)"), "the parenthesis is not opened");
    assert_eq!(reason("(x)"), "no tool stands before the parenthesis");
    assert_eq!(reason("Bash curl"), "the name of a tool has no spaces");
    assert_eq!(reason("Re\0ad"), "it contains a control character");
}

#[test]
fn the_vendors_words_for_a_tool_mean_the_same() {
    for name in ["Bash", "execute_bash", "run_shell_command", "shell", "Monitor", "monitor"] {
        assert_eq!(ToolKind::from_name(name), ToolKind::Shell, "{name}");
    }
    for name in ["Write", "fs_write", "replace", "edit"] {
        assert_eq!(ToolKind::from_name(name), ToolKind::Edit, "{name}");
    }
    let mcp = |server, tool| ToolKind::Mcp { server, tool };
    assert_eq!(ToolKind::from_name("mcp__git__log"), mcp("git", Some("log")));
    assert_eq!(ToolKind::from_name("mcp__git"), mcp("git", None));
    assert_eq!(ToolKind::from_name("mcp__git__*"), mcp("git", None));
    assert_eq!(ToolKind::from_name("@git/log"), mcp("git", Some("log")));
    assert_eq!(ToolKind::from_name("@builtin"), ToolKind::Other("@builtin"), "servers have tools too");
    assert_eq!(ToolKind::from_name("Sing"), ToolKind::Other("Sing"));
}

#[test]
fn rules_are_stored_as_texts_and_their_origins_apart() {
    let origin = RuleOrigin::File { file: "C:/a b.md".to_owned(), line: 7 };
    let permission = Permission {
        level: Some(Level::ReadOnly),
        allow: vec![rule("Read")],
        deny: vec![
            rule("Read").with_origin(Some(origin.clone())),
            rule("Bash").with_origin(Some(RuleOrigin::BuiltIn)),
        ],
        ..Permission::default()
    };
    let stored = serde_json::to_value(&permission).unwrap();
    let expected = serde_json::json!({
        "level": "read-only", "allow": ["Read"], "deny": ["Read", "Bash"],
        "origins": {"deny Read": "C:/a b.md:7", "deny Bash": "built-in"},
    });
    assert_eq!(stored, expected);
    let read: Permission = serde_json::from_value(stored).unwrap();
    assert_eq!(read, permission);
    let origins: Vec<_> = read.deny.iter().chain(&read.allow).map(Rule::origin).collect();
    assert_eq!(origins, [Some(&origin), Some(&RuleOrigin::BuiltIn), None]);
    assert_eq!(serde_json::to_value(read.without_origins()).unwrap()["origins"], serde_json::Value::Null);
    let old: Permission =
        serde_json::from_str(r#"{"deny": ["Bash"], "origins": {"deny Bash": "x"}}"#).unwrap();
    assert_eq!(old.deny[0].origin(), None);
}

proptest! {
    #[test]
    fn a_rule_is_stored_as_it_was_written(text in "\\PC{0,60}") {
        if let Ok(rule) = text.parse::<Rule>() {
            let stored = serde_json::to_string(&rule).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Rule>(&stored).unwrap(), &rule);
            let whole = match rule.pattern() {
                Some(pattern) => format!("{}({pattern})", rule.tool()),
                None => rule.tool().to_owned(),
            };
            prop_assert_eq!(rule.spelling(), whole);
        }
    }
}
