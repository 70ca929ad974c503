//! Bounds against files that are made to be expensive: the size is bounded, so the work must not exceed the length.

use domain::agent::{Agent, Layer};
use domain::diagnostic::Diagnostic;

use super::{read, refuse};
use crate::agent_formats::kiro::{self, SidecarFiles};
use crate::agent_formats::{AgentFile, claude, codex, opencode};

const HINT: &str =
    "one entry can stand for many: mcp__SERVER for all tools of a server, Bash(git:*) for many commands";

fn file(text: &str) -> AgentFile<'_> {
    AgentFile { text, file: "f", stem: "f", layer: Layer::Project }
}

fn render((agent, diagnostics): (Option<Agent>, Vec<Diagnostic>)) -> (bool, Vec<String>) {
    (agent.is_some(), diagnostics.iter().map(ToString::to_string).collect())
}

#[test]
fn a_list_of_tools_that_fills_the_file_is_refused_at_once() {
    let tools: Vec<String> = (0..140_000).map(|number| format!("{number:05x}")).collect();
    let text = format!("---\nname: y\ndescription: d\ntools: {}\n---\nx", tools.join(","));
    let expected = format!("f:4:8: error: tools: there are more than 1000 entries (hint: {HINT})");
    assert_eq!(render(claude::read(file(&text))), (false, vec![expected]));
}

#[test]
fn a_thousand_tools_are_a_list_and_one_more_is_not() {
    let list = |count: usize| -> String {
        let tools: Vec<String> = (0..count).map(|number| format!("t{number}")).collect();
        format!("---\nname: y\ndescription: d\ndisallowedTools: [{}, t0]\n---\nx", tools.join(", "))
    };
    let (agent, diagnostics) = claude::read(file(&list(1_000)));
    assert_eq!(
        (agent.map(|agent| agent.setup.permission.deny.len()), diagnostics),
        (Some(1_000), Vec::new())
    );
    assert!(!render(claude::read(file(&list(1_001)))).0);
}

#[test]
fn entries_of_opencode_have_the_same_bound() {
    let entries: String = (0..1_001).map(|number| format!("  t{number}: deny\n")).collect();
    let text = format!("---\ndescription: d\npermission:\n{entries}---\nx");
    let expected = format!("f:4:3: error: permission: there are more than 1000 entries (hint: {HINT})");
    assert_eq!(render(opencode::read(file(&text))), (false, vec![expected]));
}

/// With a scan of the line for each value this would take minutes.
#[test]
fn a_file_of_one_long_line_costs_no_more_than_one_of_many() {
    let values = vec!["1"; 400_000].join(",");
    let json =
        format!("{{\"name\":\"k\",\"description\":\"sub-agent: d\",\"resources\":[{values}],\"x\":1}}");
    let (read, diagnostics) = render(kiro::read(file(&json), SidecarFiles::default()));
    let column = json.len() - 5;
    let location = format!("f:1:{column}: warning: unknown key \"x\" is ignored");
    assert!(read && diagnostics.len() == 1 && diagnostics[0].starts_with(&location), "{diagnostics:?}");
    let toml =
        format!("name = \"c\"\ndescription = \"d\"\ndeveloper_instructions = \"p\"\nskills = [{values}]");
    let skills = "f:4:10: warning: skills is not honoured: no skill is switched on or off";
    assert_eq!(render(codex::read(file(&toml))), (true, vec![skills.to_owned()]));
}

/// With a search for the end at each beginning this would take minutes.
#[test]
fn references_that_begin_and_never_end_cost_no_more_than_letters() {
    let text = format!("{}}}}}", "${{".repeat(300_000));
    assert_eq!(super::super::env_references::normalize_references(&text), text);
}

#[test]
fn the_column_of_a_long_line_counts_letters() {
    for length in [1_020, 1_021, 1_022, 1_023, 1_024, 5_000] {
        let text = format!("---\nbackend: upper\ndescription: d\nx: {{y: {}}}\n---\n", "ü".repeat(length));
        let json = format!("{{\"description\":\"sub-agent: {}\", \"name\":7}}", "ü".repeat(length));
        let (_, diagnostics) = kiro::read(file(&json), SidecarFiles::default());
        assert_eq!(diagnostics[0].column, Some(38 + u32::try_from(length).unwrap()), "{diagnostics:?}");
        assert_eq!(read(file(&text)).1.len(), 1);
    }
}

#[test]
fn an_alias_bomb_is_refused() {
    let mut text =
        String::from("---\ndescription: x\nbackend: upper\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        text.push_str(&format!("a{level}: &a{level} [{}]\n", vec![below; 10].join(", ")));
    }
    text.push_str("---\n");
    let hint = "write the values where they are needed, instead of *names of others";
    let expected =
        format!("shout.md:7:10: error: the YAML repeats more than 2000 values by its aliases (hint: {hint})");
    refuse(&text, &[&expected]);
}

#[test]
fn a_limit_of_yaml_is_named_in_plain_words() {
    let deep = format!("---\nbackend: upper\nx: {}{}\n---\n", "[".repeat(33), "]".repeat(33));
    let expected = "shout.md:3:35: error: the YAML is nested more than 32 deep (hint: a definition needs a few levels only)";
    refuse(&deep, &[expected]);
    let many = format!("---\nbackend: upper\nx: [{}]\n---\n", vec!["1"; 50_000].join(","));
    let expected = "shout.md:3:99995: error: the YAML has more than 50000 values (hint: a definition needs a few dozen only)";
    refuse(&many, &[expected]);
}
