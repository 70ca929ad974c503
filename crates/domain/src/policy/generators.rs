//! Permissions and uses of tools for property tests.

use proptest::prelude::*;

use super::{Directory, Effect, ExecCommand, Layer, Policy, Use, UsePath};
use crate::permission::{Level, Permission, Rule};

pub(super) fn permission(level: Option<Level>, allow: &[&str], ask: &[&str], deny: &[&str]) -> Permission {
    let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    Permission { level, allow: rules(allow), ask: rules(ask), deny: rules(deny) }
}

pub(super) fn level(level: Level) -> Permission {
    permission(Some(level), &[], &[], &[])
}

/// The same for an agent in this directory.
pub(super) fn effect_in(permission: &Permission, of: &Use, directory: &str) -> Effect {
    layers_in(&[permission], directory).decide(of).effect
}

/// Decides for an agent in `/work`.
pub(super) fn effect(permission: &Permission, of: &Use) -> Effect {
    effect_in(permission, of, "/work")
}

/// A policy of several layers, in a directory without symbolic links.
pub(super) fn layers_in(permissions: &[&Permission], directory: &str) -> Policy {
    let directory = Directory { name: directory.to_owned(), target: directory.to_owned() };
    permissions.iter().fold(Policy::in_directory(directory), |policy, permission| {
        policy.with_layer(Layer { permission: (*permission).clone(), ..Layer::default() })
    })
}

const RULES: [&str; 27] = [
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
    "mcp__*",
    "mcp__a__x*",
    "WebFetch",
    "WebFetch(domain:example.org)",
    "WebFetch(domain:*.example.org)",
    "Read(src/**)",
    "Env",
    "Env(A*)",
    "Env(AB)",
    "Agent",
    "Agent(x)",
    "Odd",
    "*",
    "*(git:*)",
    "*(**)",
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

pub(super) fn uses() -> Vec<Use> {
    let mut uses: Vec<Use> = Vec::new();
    for line in ["git log", "git log -1", "git push", "gitk", "ls", "git log; rm x", "git log $(x)"] {
        uses.push(Use::Exec(ExecCommand::Line(line.to_owned())));
    }
    for argv in [&["git", "log"][..], &["git", "log; rm x"], &["git log"], &["sh", "-c", "git log"], &[]] {
        uses.push(Use::Exec(ExecCommand::Argv(argv.iter().map(|word| (*word).to_owned()).collect())));
    }
    for path in ["/work/src/a", "/work/src/.git/b", "/work/a", "/work/.git/hooks/x", "/etc/x", "/x"] {
        let path = UsePath::plain(path);
        uses.extend([Use::Write, Use::Read, Use::List, Use::Search].map(|of| of(path.clone())));
    }
    let mcp = |server: &str, tool: &str| Use::Mcp { server: server.to_owned(), tool: Some(tool.to_owned()) };
    uses.extend([mcp("a", "x"), mcp("a", "y"), mcp("b", "x"), Use::WebSearch, Use::Other("Odd".to_owned())]);
    uses.extend([None, Some("x"), Some("y")].map(|callee| Use::Delegate(callee.map(ToOwned::to_owned))));
    let hosts = [None, Some("example.org"), Some("a.example.org"), Some("example.com")];
    uses.extend(hosts.map(|host| Use::Reach(host.map(ToOwned::to_owned))));
    uses.extend(["AB", "AC", "B"].map(|name| Use::Env(name.to_owned())));
    uses.extend([
        Use::Exec(ExecCommand::Unknown),
        Use::Write(UsePath::default()),
        Use::Read(UsePath::default()),
    ]);
    uses
}
