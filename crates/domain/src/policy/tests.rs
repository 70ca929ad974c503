//! Decisions about single uses, and the properties of policies.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::generators::{effect, layers_in, permission, permissions, uses};
use super::{Basis, Directory, Effect, ExecCommand, Layer, Policy, Use, path_argument};
use crate::permission::{Level, Permission, RuleOrigin, ToolKind};

/// Decides about a tool call in a directory without symbolic links.
fn decision(permission: &Permission, tool: &str, input: &Value) -> &'static str {
    let named = path_argument(input).map(|path| match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("/work/{path}"),
    });
    decision_with_target(permission, tool, input, named.as_deref())
}

fn decision_with_target(
    permission: &Permission,
    tool: &str,
    input: &Value,
    target: Option<&str>,
) -> &'static str {
    let of = Use::from_tool_call(tool, input, target.map(ToOwned::to_owned));
    effect(permission, &of).as_str()
}

fn shell(permission: &Permission, command: &str) -> &'static str {
    decision(permission, "Bash", &json!({"command": command}))
}

#[test]
fn without_any_rule_edits_in_the_directory_are_allowed_and_the_rest_asks() {
    let nothing = Permission::default();
    assert_eq!(decision(&nothing, "Read", &json!({"file_path": "/etc/passwd"})), "allow");
    assert_eq!(decision(&nothing, "Write", &json!({"file_path": "/work/a/b.rs"})), "allow");
    assert_eq!(decision(&nothing, "Write", &json!({"file_path": "/work/../etc/x"})), "ask");
    assert_eq!(decision(&nothing, "Write", &json!({"file_path": "/worker/x"})), "ask");
    assert_eq!(shell(&nothing, "touch a"), "ask");
}

#[test]
fn every_level_allows_commands_that_only_read_unless_a_rule_restricts_reading() {
    for level in [None, Some(Level::ReadOnly), Some(Level::SafeEdit)] {
        let decide = |ask: &[&str], deny: &[&str]| {
            let rules = permission(level, &[], ask, deny);
            [shell(&rules, "git log -p | head"), shell(&rules, "git log --output=x")]
        };
        let otherwise = if level.is_none() { "ask" } else { "deny" };
        assert_eq!(decide(&[], &[]), ["allow", otherwise]);
        assert_eq!(decide(&["Bash"], &[]), ["ask", "ask"]);
        assert_eq!(decide(&[], &["Bash(git:*)"]), ["deny", "deny"]);
        for rule in ["Read(.env)", "Grep", "*(secret)"] {
            assert_eq!(decide(&[], &[rule]), [otherwise, otherwise], "{rule}");
        }
    }
}

#[test]
fn an_explicit_level_denies_everything_beyond_it() {
    let reader = permission(Some(Level::ReadOnly), &[], &[], &[]);
    assert_eq!(decision(&reader, "Grep", &json!({})), "allow");
    assert_eq!(decision(&reader, "Edit", &json!({"file_path": "/work/a"})), "deny");
    let editor = permission(Some(Level::SafeEdit), &["Bash(cargo test:*)"], &[], &[]);
    assert_eq!(shell(&editor, "cargo test --all"), "allow");
    assert_eq!(shell(&editor, "cargo testament"), "deny");
    assert_eq!(shell(&editor, "cargo build"), "deny");
    assert_eq!(shell(&permission(Some(Level::Yolo), &[], &[], &[]), "rm -rf /"), "allow");
}

#[test]
fn deny_beats_ask_beats_allow() {
    let mixed = permission(Some(Level::Yolo), &["Bash"], &["Bash(git push:*)"], &["Bash(rm:*)"]);
    assert_eq!(shell(&mixed, "git status"), "allow");
    assert_eq!(shell(&mixed, "git push origin"), "ask");
    assert_eq!(shell(&mixed, "rm x"), "deny");
}

#[test]
fn a_compound_command_is_never_allowed_by_its_beginning_and_denied_by_any_part() {
    let curl = permission(Some(Level::SafeEdit), &["Bash(curl:*)"], &[], &["Bash(rm:*)"]);
    assert_eq!(shell(&curl, "curl example.org"), "allow");
    for command in
        ["curl x; touch a", "curl x && sh", "curl x | sh", "curl $(ls)", "curl x > y", "curl x\nls"]
    {
        assert_eq!(shell(&curl, command), "deny", "{command}");
    }
    // The rules allow each command of the line.
    for command in ["curl x; ls", "ls && curl 'a b' | grep c", "curl x || curl y"] {
        assert_eq!(shell(&curl, command), "allow", "{command}");
    }
    // A command can change the shell for the next command, and a program can read a script from a pipe.
    let tools =
        ["Bash(cd:*)", "Bash(export:*)", "Bash(printf:*)", "Bash(python3)", "Bash(touch:*)", "Bash(time:*)"];
    let tools = permission(Some(Level::SafeEdit), &tools, &[], &[]);
    for command in [
        "cd evil && git status",
        "export PATH=/work/bin && git log",
        "printf -v PATH /work/bin && git log",
        "cat payload | python3",
        "time touch a && git log",
        "PATH=/work/bin; git log",
    ] {
        assert_eq!(shell(&tools, command), "deny", "{command}");
    }
    assert_eq!(shell(&tools, "touch a && touch b || cat c | head"), "allow");
    let free = permission(Some(Level::Yolo), &[], &[], &["Bash(rm:*)"]);
    for command in ["ls; rm x", "ls && rm x", "echo $(rm x)", "ls | rm x"] {
        assert_eq!(shell(&free, command), "deny", "{command}");
    }
}

#[test]
fn a_restricting_rule_matches_a_command_in_every_spelling() {
    let rules =
        permission(Some(Level::Yolo), &[], &["Bash(git push:*)"], &["Bash(rm:*)", "Bash(npm publish)"]);
    for command in [
        "rm\tx",
        "ls; rm\tx",
        "{ rm x; }",
        "/bin/rm x",
        "\"rm\" x",
        "r''m x",
        "r\\m x",
        "A=1 B=2 rm x",
        "env -i A=1 rm x",
        "sudo rm x",
        "timeout 5 rm x",
        "if rm x; then ls; fi",
        "find . | xargs rm",
        "bash -c 'rm x'",
        "npm   publish",
        "\\\nrm x",
    ] {
        assert_eq!(shell(&rules, command), "deny", "{command}");
    }
    for command in ["git  push", "git\tpush origin", "cd x && git push"] {
        assert_eq!(shell(&rules, command), "ask", "{command}");
    }
    for harmless in
        ["ls rm", "git status", "rmdir x", "git commit -m 'rm x'", "npm publish-dry", "echo /bin/rm"]
    {
        assert_eq!(shell(&rules, harmless), "allow", "{harmless}");
    }
}

#[test]
fn a_command_that_is_watched_is_a_command() {
    let rules = permission(Some(Level::Yolo), &[], &["Bash(git push:*)"], &[]);
    let monitor = |command: &str| {
        decision(&rules, "Monitor", &json!({"command": command, "description": "x", "persistent": true}))
    };
    assert_eq!((monitor("git push origin"), monitor("tail -f log")), ("ask", "allow"));
}

#[test]
fn a_star_in_the_name_of_a_servers_tool_restricts_and_does_not_allow() {
    let decide = |rules: &Permission, tool: &str| decision(rules, tool, &json!({}));
    let denied =
        |rule: &str, tool: &str| decide(&permission(Some(Level::Yolo), &[], &[], &[rule]), tool) == "deny";
    let deletes = "mcp__github__delete_repo";
    for rule in ["mcp__*", "mcp__git*", "mcp__github__delete_*", "mcp__*__delete_*", "mcp__*_repo", "@*"] {
        assert!(denied(rule, deletes), "{rule}");
    }
    for rule in ["mcp__gitlab*", "mcp__github__create_*", "mcp__*__delete", "mcp__git"] {
        assert!(!denied(rule, deletes), "{rule}");
    }
    assert!(!denied("mcp__*", "Bash"));
    let asks = permission(Some(Level::Yolo), &[], &["mcp__github__delete_*"], &[]);
    assert_eq!([deletes, "mcp__github__list"].map(|tool| decide(&asks, tool)), ["ask", "allow"]);
    let allows = permission(Some(Level::SafeEdit), &["mcp__*"], &[], &[]);
    assert_eq!(decide(&allows, deletes), "deny");
    let servers = ["github", "files"].map(|server| {
        let denies = permission(Some(Level::Yolo), &[], &[], &["mcp__git*__delete_*"]);
        let whole = ToolKind::Mcp { server, tool: None };
        (denies.restricts_server(server), denies.restricts_kind(whole))
    });
    assert_eq!(servers, [(true, false), (false, false)]);
}

#[test]
fn patterns_of_paths_stay_in_their_folders() {
    let rules = permission(Some(Level::ReadOnly), &["Edit(src/**)", "Edit(*.md)"], &[], &[]);
    let edit = |path: &str| decision(&rules, "Write", &json!({ "file_path": path }));
    assert_eq!(edit("/work/src/a/b.rs"), "allow");
    assert_eq!(edit("src/main.rs"), "allow");
    assert_eq!(edit("README.md"), "allow");
    assert_eq!(edit("docs/README.md"), "deny");
    assert_eq!(edit("src/../secret"), "deny");
    assert_eq!(edit("/etc/src/x"), "deny");
}

#[test]
fn a_rule_about_delegation_allows_those_that_it_names() {
    let rules = permission(None, &["Agent(worker, researcher)"], &[], &[]);
    let ask = |callee: &str| decision(&rules, "Agent", &json!({"subagent_type": callee, "prompt": "worker"}));
    assert_eq!((ask("worker"), ask("researcher")), ("allow", "allow"));
    assert_eq!((ask("work"), ask("general-purpose"), ask("")), ("ask", "ask", "ask"));
    assert_eq!(decision(&rules, "Task", &json!({"prompt": "worker"})), "ask");
}

#[test]
fn the_target_of_a_symbolic_link_counts() {
    let editor = permission(Some(Level::SafeEdit), &[], &[], &["Edit(secret/**)"]);
    let through = |rules: &Permission, name: &str, real: Option<&str>| {
        decision_with_target(rules, "Write", &json!({ "file_path": name }), real)
    };
    assert_eq!(through(&editor, "/work/link/x", Some("/work/real/x")), "allow");
    assert_eq!(through(&editor, "/work/link/x", Some("/elsewhere/x")), "deny");
    assert_eq!(through(&editor, "/work/link/x", Some("/work")), "deny");
    assert_eq!(through(&editor, "/work/link/x", None), "deny");
    assert_eq!(through(&editor, "link/x", Some("/work/secret/x")), "deny");
    assert_eq!(through(&editor, "secret/x", Some("/work/real/x")), "deny");
    assert_eq!(through(&editor, "/elsewhere/link", Some("/work/x")), "deny");
    let narrow = permission(Some(Level::ReadOnly), &["Edit(src/**)"], &[], &[]);
    assert_eq!(through(&narrow, "src/link/x", Some("/work/src/y/x")), "allow");
    assert_eq!(through(&narrow, "src/link/x", Some("/work/docs/x")), "deny");
}

#[test]
fn files_that_git_executes_are_not_edited_without_a_rule() {
    let edit = |rules: &Permission, path: &str, real: &str| {
        decision_with_target(rules, "Write", &json!({ "file_path": path }), Some(real))
    };
    let editor = permission(Some(Level::SafeEdit), &[], &[], &[]);
    assert_eq!(edit(&editor, ".git/hooks/pre-commit", "/work/.git/hooks/pre-commit"), "deny");
    assert_eq!(edit(&editor, "part/.GIT/config", "/work/part/.GIT/config"), "deny");
    assert_eq!(edit(&editor, "link/config", "/work/.git/config"), "deny");
    assert_eq!(edit(&editor, ".github/x.yml", "/work/.github/x.yml"), "allow");
    let usual = permission(None, &[], &[], &[]);
    assert_eq!(edit(&usual, ".git", "/work/.git"), "ask");
    let allowed = permission(Some(Level::SafeEdit), &["Edit(.git/**)"], &[], &[]);
    assert_eq!(edit(&allowed, ".git/info/exclude", "/work/.git/info/exclude"), "allow");
    let narrow = permission(Some(Level::SafeEdit), &["Edit(part/**)"], &[], &[]);
    assert_eq!(edit(&narrow, "part/.git/config", "/work/part/.git/config"), "deny");
}

#[test]
fn a_directory_that_is_a_symbolic_link_has_two_names() {
    let editor = permission(Some(Level::SafeEdit), &["Edit(/named/src/**)"], &[], &[]);
    let directory = Directory { name: "/named".to_owned(), target: "/real".to_owned() };
    let layer = Layer { permission: editor, ..Layer::default() };
    let policy = Policy::in_directory(directory).with_layer(layer);
    for name in ["/named/a", "/real/a", "a"] {
        let of = Use::from_tool_call("Write", &json!({ "file_path": name }), Some("/real/a".to_owned()));
        let verdict = policy.decide(&of);
        assert_eq!(
            (verdict.effect, verdict.reason().as_str()),
            (Effect::Allow, "the level safe-edit"),
            "{name}"
        );
    }
}

#[test]
fn a_server_rule_covers_its_tools() {
    let rules = permission(Some(Level::ReadOnly), &["mcp__files"], &[], &["mcp__files__delete"]);
    assert_eq!(decision(&rules, "mcp__files__read", &json!({})), "allow");
    assert_eq!(decision(&rules, "mcp__files__delete", &json!({})), "deny");
    assert_eq!(decision(&rules, "mcp__web__get", &json!({})), "deny");
}

proptest! {
    #[test]
    fn blanks_and_quotes_around_words_do_not_escape_a_denial(
        blanks in proptest::collection::vec("[ \t]{1,3}", 3),
        quote in "['\"]?",
        folder in "(/[a-z]{1,4}){0,2}",
    ) {
        let rules = permission(Some(Level::Yolo), &[], &[], &["Bash(rm -r:*)"]);
        let slash = if folder.is_empty() { "" } else { "/" };
        let line = format!("{}{quote}{folder}{slash}rm{quote}{}-r{}x", blanks[0], blanks[1], blanks[2]);
        prop_assert_eq!(shell(&rules, &line), "deny");
    }
}

fn argv(words: &[&str]) -> Use {
    Use::Exec(ExecCommand::Argv(words.iter().map(|word| (*word).to_owned()).collect()))
}

#[test]
fn an_argument_vector_is_matched_by_its_words() {
    let git = permission(Some(Level::SafeEdit), &["Bash(git log:*)", "Bash(rm:*)"], &[], &[]);
    assert_eq!(effect(&git, &argv(&["git", "log", "-1"])), Effect::Allow);
    // No word of the array is a command of its own, and a rule about the program `rm` is not about `rm -rf`.
    for words in [
        &["git", "log; rm -rf x"][..],
        &["git log; rm -rf x"],
        &["git log", "-1"],
        &["git", "log", "; rm"],
        &["rm -rf", "x"],
        &["sh", "-c", "git log"],
        &[],
    ] {
        assert_eq!(effect(&git, &argv(words)), Effect::Deny, "{words:?}");
    }
    // Even a rule for all of git does not let a shell find a second command.
    let all = permission(Some(Level::SafeEdit), &["Bash(git:*)"], &[], &[]);
    assert_eq!(effect(&all, &argv(&["git", "log; rm -rf x"])), Effect::Deny);
    assert_eq!(effect(&all, &argv(&["git", "log", "a b"])), Effect::Allow);
}

#[test]
fn a_restricting_rule_finds_the_program_of_an_argument_vector() {
    let free =
        permission(Some(Level::Yolo), &[], &[], &["Bash(rm:*)", "Bash(npm publish)", "Bash(*--force*)"]);
    for words in [
        &["rm", "-rf", "x"][..],
        &["/bin/rm", "x"],
        &["sudo", "rm", "x"],
        &["env", "A=1", "rm", "x"],
        &["bash", "-lc", "cd x && rm y"],
        &["/bin/sh", "-c", "rm x"],
        &["npm", "publish"],
        &["git", "push", "--force"],
    ] {
        assert_eq!(effect(&free, &argv(words)), Effect::Deny, "{words:?}");
    }
    for words in [
        &["rm -rf", "x"][..],
        &["git", "log; rm -rf x"],
        &["git", "commit", "-m", "rm x"],
        &["npm publish"],
        &["rmdir", "x"],
    ] {
        assert_eq!(effect(&free, &argv(words)), Effect::Allow, "{words:?}");
    }
}

#[test]
fn hosts_variables_and_agents_have_rules() {
    let rules = permission(
        Some(Level::ReadOnly),
        &["WebFetch(domain:example.org)", "Env(PUBLIC_*)", "Agent(reviewer)"],
        &["WebFetch(domain:*.example.com)"],
        &["Env(PUBLIC_KEY)", "Task(rooter)"],
    );
    let fetch = |url: &str| decision(&rules, "WebFetch", &json!({ "url": url }));
    assert_eq!(fetch("https://example.org/a"), "allow");
    assert_eq!(fetch("https://docs.example.com/"), "ask");
    assert_eq!(fetch("https://example.net/"), "deny");
    assert_eq!(fetch("https://example.org@evil.org/"), "ask", "the host is uncertain");
    let variable = |name: &str| effect(&rules, &Use::Env(name.to_owned())).as_str();
    assert_eq!([variable("PUBLIC_URL"), variable("PUBLIC_KEY"), variable("HOME")], ["allow", "deny", "deny"]);
    let call = |agent: &str| decision(&rules, "Agent", &json!({ "subagent_type": agent }));
    assert_eq!([call("reviewer"), call("rooter"), call("other")], ["allow", "deny", "deny"]);
    let free = permission(Some(Level::Yolo), &[], &[], &["Agent(rooter)"]);
    let call = |input| decision(&free, "Task", &input);
    assert_eq!(call(json!({"subagent_type": "other"})), "allow");
    assert_eq!(call(json!({})), "deny", "who is called is not known");
}

#[test]
fn a_verdict_names_its_rule_who_set_it_and_where() {
    let origin = RuleOrigin::File { file: "agents/a.md".to_owned(), line: 4 };
    let mut own = permission(Some(Level::SafeEdit), &[], &[], &["Bash(rm:*)", "WebFetch", "Edit(/state/**)"]);
    own.deny[0] = own.deny[0].clone().with_origin(Some(origin.clone()));
    own.deny[2] = own.deny[2].clone().with_origin(Some(RuleOrigin::BuiltIn));
    let grant = super::Grant {
        source: super::GrantSource::Caller,
        by: "the command line".to_owned(),
        requested: permission(None, &[], &[], &["WebFetch"]),
        widens: Vec::new(),
    };
    let policy = Policy::default().with_layer(Layer::for_agent(own, vec![grant]));
    let denied = policy.decide(&argv(&["rm", "x"]));
    assert_eq!((denied.effect, denied.origin()), (Effect::Deny, Some(&origin)));
    assert!(matches!(&denied.basis, Basis::Rule(rule) if rule.spelling() == "Bash(rm:*)"));
    assert_eq!(
        denied.explanation(),
        "the rule deny Bash(rm:*), set by the agent's definition (agents/a.md:4)"
    );
    let explanation = |of: &Use| policy.decide(of).explanation();
    assert_eq!(explanation(&Use::Reach(None)), "the rule deny WebFetch, set by the command line");
    assert_eq!(
        explanation(&Use::WebSearch),
        "the level safe-edit does not allow it, set by the agent's definition"
    );
    let write = Use::Write(super::UsePath::plain("/state/x"));
    assert_eq!(explanation(&write), "the rule deny Edit(/state/**), set by Volery");
}

#[test]
fn the_table_of_levels() {
    let kinds: [(&str, ToolKind<'_>); 10] = [
        ("Read, List", ToolKind::Read),
        ("Search", ToolKind::Search),
        ("Write", ToolKind::Edit),
        ("Exec", ToolKind::Shell),
        ("Reach", ToolKind::Fetch),
        ("WebSearch", ToolKind::WebSearch),
        ("Mcp", ToolKind::Mcp { server: "x", tool: Some("y") }),
        ("Delegate", ToolKind::Delegate),
        ("Env", ToolKind::Env),
        ("Other", ToolKind::Other("x")),
    ];
    let here = super::UsePath::plain("/work/a");
    let elsewhere = super::UsePath::plain("/etc/a");
    let sample = |kind: ToolKind<'_>, path: &super::UsePath| match kind {
        ToolKind::Read => Use::Read(path.clone()),
        ToolKind::Search => Use::Search(path.clone()),
        ToolKind::Edit => Use::Write(path.clone()),
        ToolKind::Shell => argv(&["x"]),
        ToolKind::Fetch => Use::Reach(None),
        ToolKind::WebSearch => Use::WebSearch,
        ToolKind::Mcp { .. } => Use::Mcp { server: "x".to_owned(), tool: None },
        ToolKind::Delegate => Use::Delegate(None),
        ToolKind::Env => Use::Env("X".to_owned()),
        ToolKind::Everything | ToolKind::Other(_) => Use::Other("x".to_owned()),
    };
    let mut table = format!("{:<11}{:<16}{:<16}{:<16}yolo\n", "", "read-only", "safe-edit", "none");
    for (name, kind) in kinds {
        let cells = [Some(Level::ReadOnly), Some(Level::SafeEdit), None, Some(Level::Yolo)].map(|level| {
            let layer = permission(level, &[], &[], &[]);
            let in_directory = effect(&layer, &sample(kind, &here)).as_str();
            let outside = effect(&layer, &sample(kind, &elsewhere)).as_str();
            if in_directory == outside { outside.to_owned() } else { format!("{in_directory}/{outside}") }
        });
        table.push_str(&format!("{name:<11}{:<16}{:<16}{:<16}{}\n", cells[0], cells[1], cells[2], cells[3]));
    }
    insta::assert_snapshot!(table);
}

proptest! {
    #[test]
    fn another_layer_never_allows_more(one in permissions(), two in permissions(), three in permissions()) {
        let below = layers_in(&[&one, &two], "/work");
        let above = below.clone().with_layer(Layer { permission: three, ..Layer::default() });
        for of in uses() {
            prop_assert!(above.decide(&of).effect >= below.decide(&of).effect, "{of:?}");
        }
    }

    #[test]
    fn the_strictest_layer_wins_in_any_order(one in permissions(), two in permissions()) {
        for of in uses() {
            let strictest = effect(&one, &of).max(effect(&two, &of));
            for order in [[&one, &two], [&two, &one]] {
                prop_assert_eq!(layers_in(&order, "/work").decide(&of).effect, strictest, "{:?}", of);
            }
        }
    }

    #[test]
    fn a_stricter_rule_never_allows_more(base in permissions(), more in permissions()) {
        for of in uses() {
            let before = effect(&base, &of);
            let mut denies = base.clone();
            denies.deny.extend(more.deny.iter().cloned());
            prop_assert!(effect(&denies, &of) >= before, "{of:?}");
            let fewer = Permission { allow: Vec::new(), ..base.clone() };
            prop_assert!(effect(&fewer, &of) >= before, "{of:?}");
        }
    }

    #[test]
    fn a_merged_permission_is_never_weaker_than_the_chain(own in permissions(), parent in permissions()) {
        let merged = own.narrowed_to(&parent).permission;
        let chain = layers_in(&[&parent, &own], "/work");
        for of in uses() {
            let chained = chain.decide(&of).effect;
            // A question of one side that the other one denies is a denial in the chain; the merged lists may still ask.
            let is_as_strict = effect(&merged, &of) >= chained.min(Effect::Ask);
            prop_assert!(is_as_strict, "{of:?}: {merged:?}");
        }
    }

    #[test]
    fn every_tool_call_gets_a_verdict(tool in "\\PC{0,20}", text in "\\PC{0,20}", own in permissions()) {
        for input in [json!(text), json!({"command": text}), json!({"url": text}), json!({"path": text})] {
            let of = Use::from_tool_call(&tool, &input, Some(text.clone()));
            let _ = layers_in(&[&own], "/work").decide(&of).explanation();
        }
    }
}
