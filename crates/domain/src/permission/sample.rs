//! Permissions and uses of tools for property tests.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Ground, Level, Permission, Rule, Ruling, named_path};

pub(super) fn permission(level: Option<Level>, allow: &[&str], ask: &[&str], deny: &[&str]) -> Permission {
    let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    Permission { level, allow: rules(allow), ask: rules(ask), deny: rules(deny) }
}

pub(super) fn level(level: Level) -> Permission {
    permission(Some(level), &[], &[], &[])
}

/// 0 is allowed, 1 asked about, 2 denied.
pub(super) fn strictness(permission: &Permission, tool: &str, input: &Value) -> u8 {
    strictness_in(permission, tool, input, "/work")
}

/// The same for an agent that works in a directory.
pub(super) fn strictness_in(permission: &Permission, tool: &str, input: &Value, directory: &str) -> u8 {
    let real = named_path(input).map(|path| match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("{directory}/{path}"),
    });
    let ground = Ground { directory: directory.into(), real_directory: directory.into(), real_path: real };
    match permission.decide(tool, input, &ground) {
        Ruling::Allow(_) => 0,
        Ruling::Ask(_) => 1,
        Ruling::Deny(_) => 2,
    }
}

const RULES: [&str; 17] = [
    "Read",
    "Edit",
    "Edit(src/**)",
    "Edit(.git/**)",
    "Bash",
    "Bash(git:*)",
    "Bash(git log:*)",
    "Bash(git log)",
    "Bash(*)",
    "execute",
    "mcp__a",
    "mcp__a__x",
    "WebFetch",
    "Agent",
    "Agent(x)",
    "Odd",
    "*",
];

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    proptest::collection::vec(0..RULES.len(), 0..4)
        .prop_map(|picked| picked.into_iter().map(|at| RULES[at].parse().unwrap()).collect())
}

pub(super) fn permissions() -> impl Strategy<Value = Permission> {
    let levels = prop_oneof![
        Just(None),
        Just(Some(Level::ReadOnly)),
        Just(Some(Level::SafeEdit)),
        Just(Some(Level::Yolo))
    ];
    (levels, rules(), rules(), rules()).prop_map(|(level, allow, ask, deny)| Permission {
        level,
        allow,
        ask,
        deny,
    })
}

pub(super) fn uses() -> Vec<(&'static str, Value)> {
    let mut uses: Vec<(&str, Value)> = Vec::new();
    for command in ["git log", "git log -1", "git push", "gitk", "ls", "git log; rm x", "git log $(x)"] {
        uses.push(("Bash", json!({ "command": command })));
    }
    for path in ["src/a", "src/.git/b", "a", ".git/hooks/x", "/etc/x", "../x"] {
        uses.extend([("Write", json!({ "file_path": path })), ("Read", json!({ "file_path": path }))]);
    }
    let others = ["mcp__a__x", "mcp__a__y", "mcp__b__x", "WebFetch", "WebSearch", "Odd", "Grep", "Task"];
    uses.extend(others.map(|tool| (tool, json!({}))));
    uses.extend(["x", "y"].map(|callee| ("Agent", json!({ "subagent_type": callee }))));
    uses
}
