//! How rules are taken apart, and what tools mean whichever vendor named them.

use proptest::prelude::*;

use super::{Rule, ToolKind};

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
fn what_is_no_rule_says_why() {
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
    for name in ["Bash", "execute_bash", "run_shell_command", "shell"] {
        assert_eq!(ToolKind::named(name), ToolKind::Shell, "{name}");
    }
    for name in ["Write", "fs_write", "replace", "edit"] {
        assert_eq!(ToolKind::named(name), ToolKind::Edit, "{name}");
    }
    let mcp = |server, tool| ToolKind::Mcp { server, tool };
    assert_eq!(ToolKind::named("mcp__git__log"), mcp("git", Some("log")));
    assert_eq!(ToolKind::named("mcp__git"), mcp("git", None));
    assert_eq!(ToolKind::named("mcp__git__*"), mcp("git", None));
    assert_eq!(ToolKind::named("@git/log"), mcp("git", Some("log")));
    assert_eq!(ToolKind::named("@builtin"), ToolKind::Other("@builtin"), "servers have tools too");
    assert_eq!(ToolKind::named("Sing"), ToolKind::Other("Sing"));
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
