//! Which tools a directive gets from its declarations and its permissions.

use crate::access::{Access, AccessEffect, AccessRule, AccessSubject, RuleSource};
use crate::directive::{DeclaredTool, DeclaredToolKind, Directive};
use crate::policy::{Directory, ExecCommand, Use, UsePath};
use crate::run::agent_loop::{EffectiveTools, LoopTool, effective_tools, tool_specs};

const ALWAYS: [&str; 3] = ["read_output", "report_step", "finish"];

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn read(paths: &[&str]) -> DeclaredToolKind {
    DeclaredToolKind::ReadFiles { paths: texts(paths) }
}

fn write(paths: &[&str]) -> DeclaredToolKind {
    DeclaredToolKind::WriteFiles { paths: texts(paths) }
}

fn shell(commands: &[&[&str]]) -> DeclaredToolKind {
    DeclaredToolKind::Shell { commands: commands.iter().map(|words| texts(words)).collect() }
}

fn mcp(server: &str, tools: &[&str]) -> DeclaredToolKind {
    DeclaredToolKind::Mcp { server: server.to_owned(), tools: texts(tools) }
}

fn allow(subject: AccessSubject) -> AccessRule {
    let source = RuleSource { file: "d.md".to_owned(), line: 30 };
    AccessRule { effect: AccessEffect::Allow, subject, source }
}

/// The tools of a directive that declares required tools.
fn effective(tools: Option<&[DeclaredToolKind]>, permissions: Option<&[AccessSubject]>) -> EffectiveTools {
    let declared = |tools: &[DeclaredToolKind]| {
        let tool = |(kind, line): (&DeclaredToolKind, u32)| DeclaredTool {
            kind: kind.clone(),
            is_required: true,
            line,
        };
        tools.iter().zip(10..).map(tool).collect()
    };
    let directive = Directive {
        tools: tools.map(declared),
        permissions: permissions.map(|rules| rules.iter().cloned().map(allow).collect()),
        ..Directive::default()
    };
    effective_tools(&directive, "d.md")
}

fn names(effective: &EffectiveTools) -> Vec<&'static str> {
    let always = |tool: &&LoopTool| ALWAYS.contains(&tool.name());
    assert_eq!(effective.tools.iter().filter(always).count(), ALWAYS.len());
    effective.tools.iter().filter(|tool| !always(tool)).map(|tool| tool.name()).collect()
}

fn decide(effective: &EffectiveTools, of: &Use) -> AccessEffect {
    let directory = Directory { name: "/work".to_owned(), target: "/work".to_owned() };
    Access::new(&effective.layers, directory, Vec::new()).decide(of).effect
}

fn missing(effective: &EffectiveTools) -> Vec<String> {
    effective.missing_required.iter().map(ToString::to_string).collect()
}

#[test]
fn without_declarations_a_directive_can_only_finish() {
    for given in [effective(None, None), effective(Some(&[]), None), effective(None, Some(&[]))] {
        assert_eq!(names(&given), [""; 0]);
        assert_eq!(given.layers.len(), 1);
        assert_eq!(decide(&given, &Use::Read(UsePath::plain("/work/a"))), AccessEffect::Deny);
    }
}

#[test]
fn declared_tools_are_offered_and_held_to_their_patterns() {
    let given = effective(Some(&[read(&["src/**"]), shell(&[&["git"]])]), None);
    assert_eq!(names(&given), ["filesystem.read", "filesystem.list", "filesystem.search", "shell.run"]);
    assert_eq!(decide(&given, &Use::Read(UsePath::plain("/work/src/a"))), AccessEffect::Allow);
    assert_eq!(decide(&given, &Use::Read(UsePath::plain("/work/a"))), AccessEffect::Deny);
    assert_eq!(decide(&given, &Use::Exec(ExecCommand::Argv(texts(&["git", "log"])))), AccessEffect::Allow);
    assert_eq!(decide(&given, &Use::Exec(ExecCommand::Argv(texts(&["id"])))), AccessEffect::Deny);
    assert_eq!(given.missing_required, []);
    assert_eq!(given.layers[0].rules[0].source, RuleSource { file: "d.md".to_owned(), line: 10 });
}

#[test]
fn reading_without_paths_is_the_whole_directory_and_writing_is_nothing() {
    let all = effective(Some(&[read(&[])]), None);
    assert_eq!(decide(&all, &Use::Read(UsePath::plain("/work/x/y"))), AccessEffect::Allow);
    assert_eq!(decide(&all, &Use::Read(UsePath::plain("/etc/passwd"))), AccessEffect::Deny);
    let none = effective(Some(&[write(&[]), shell(&[])]), None);
    assert_eq!(names(&none), [""; 0]);
    assert_eq!(
        missing(&none),
        [
            "the tool filesystem.write is declared without a usable path or command (line 10)",
            "the tool shell.run is declared without a usable path or command (line 11)",
        ]
    );
}

#[test]
fn who_may_only_write_cannot_list_or_read() {
    let given = effective(Some(&[write(&["out/**"])]), None);
    assert_eq!(names(&given), ["filesystem.write"]);
    assert_eq!(decide(&given, &Use::List(UsePath::plain("/work"))), AccessEffect::Deny);
    let both = effective(Some(&[write(&["out/**"]), read(&["out/**"])]), None);
    assert_eq!(
        names(&both),
        ["filesystem.read", "filesystem.write", "filesystem.edit", "filesystem.list", "filesystem.search",]
    );
}

#[test]
fn without_declarations_the_tools_follow_from_the_permissions() {
    let given = effective(None, Some(&[AccessSubject::Exec(texts(&["npm"]))]));
    assert_eq!(names(&given), ["shell.run"]);
    let everything = effective(None, Some(&[AccessSubject::Any]));
    assert_eq!(everything.tools, LoopTool::ALL);
}

#[test]
fn a_tool_needs_its_declaration_and_a_permission() {
    let declared = [read(&["src/**"]), write(&["docs/**"]), shell(&[&["git"]])];
    let permissions = [AccessSubject::Read("**/*.rs".to_owned()), AccessSubject::Exec(texts(&["npm"]))];
    let given = effective(Some(&declared), Some(&permissions));
    assert_eq!(names(&given), ["filesystem.read", "filesystem.list", "filesystem.search", "shell.run"]);
    assert_eq!(
        missing(&given),
        ["the tool filesystem.write is declared, but the permissions allow no use of it (line 11)",]
    );
    // Each use passes both.
    for (path, expected) in [
        ("/work/src/a.rs", AccessEffect::Allow),
        ("/work/src/a.txt", AccessEffect::Deny),
        ("/work/a.rs", AccessEffect::Deny),
    ] {
        assert_eq!(decide(&given, &Use::Read(UsePath::plain(path))), expected, "{path}");
    }
    let git = Use::Exec(ExecCommand::Argv(texts(&["git", "log"])));
    assert_eq!(decide(&given, &git), AccessEffect::Deny);
}

#[test]
fn what_volery_does_not_offer_is_missing_by_name() {
    let kinds = [
        mcp("supabase", &["get_project", "apply"]),
        mcp("github", &[]),
        DeclaredToolKind::Script { name: "deploy".to_owned() },
        DeclaredToolKind::Fetch { hosts: texts(&["example.org"]) },
        DeclaredToolKind::Directives,
        DeclaredToolKind::Items { action: "search".to_owned() },
    ];
    let required = effective(Some(&kinds), Some(&[AccessSubject::Any]));
    assert_eq!(names(&required), [""; 0]);
    assert_eq!(
        missing(&required),
        [
            "the tool supabase.get_project, supabase.apply is not available in Volery (line 10)",
            "the tool github.* is not available in Volery (line 11)",
            "the tool script deploy is not available in Volery (line 12)",
            "the tool fetch is not available in Volery (line 13)",
            "the tool run_directive is not available in Volery (line 14)",
            "the tool search is not available in Volery (line 15)",
        ]
    );
    let optional = Directive {
        tools: Some(kinds.map(|kind| DeclaredTool { kind, is_required: false, line: 1 }).to_vec()),
        ..Directive::default()
    };
    let optional = effective_tools(&optional, "d.md");
    assert_eq!((optional.missing_required.len(), optional.missing_optional.len()), (0, 6));
}

#[test]
fn an_unusable_rule_is_reported_and_gives_no_tool() {
    let given = effective(Some(&[read(&["../x"]), write(&["~/x", "out/*"])]), None);
    assert_eq!(names(&given), ["filesystem.write"]);
    let problems: Vec<String> = given.unusable_rules.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "the rule `allow read ../x` (line 10) allows nothing: the path is unusable: it contains '..'",
            "the rule `allow write ~/x` (line 11) allows nothing: the path is unusable: it begins with '~'; write the path \
         of the directory",
        ]
    );
}

#[test]
fn no_schema_contains_what_is_allowed() {
    let declared = [read(&["needle-read/**"]), write(&["needle-write/**"]), shell(&[&["needle-program"]])];
    let permissions = [AccessSubject::Any, AccessSubject::Read("needle-permission".to_owned())];
    let given = effective(Some(&declared), Some(&permissions));
    assert_eq!(given.tools, LoopTool::ALL);
    let shown = serde_json::to_string(&tool_specs(&given.tools, &[])).unwrap();
    assert!(!shown.contains("needle"), "{shown}");
}
