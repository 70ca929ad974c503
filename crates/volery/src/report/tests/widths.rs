//! Output on terminals of 60, 80 and 140 columns: no line is longer than the terminal.

use super::*;

/// Renders at each width, and returns all of it with the widths above.
fn at_each_width(render: impl Fn(&TextStyle) -> String) -> String {
    let mut all = String::new();
    for columns in [60, 80, 140] {
        let text = render(&style(Some(columns)));
        for line in text.lines() {
            assert!(width(line) <= columns, "{columns} columns: {line}");
        }
        all.push_str(&format!("{columns} columns\n{text}\n"));
    }
    all
}

#[test]
fn runs_of_all_projects() {
    let far = RunSummary {
        agent: "security-reviewer".into(),
        project: "/home/ada/src/company/backend/services/billing".into(),
        ..line(3, "interrupted", true)
    };
    let runs = [line(1, "running", false), line(2, "succeeded", true), far];
    insta::assert_snapshot!(at_each_width(|style| run_table(&runs, ListScope::All, style)));
}

#[test]
fn runs_that_were_waited_for() {
    insta::assert_snapshot!(at_each_width(|style| view_table(&[view()], style)));
}

fn agent(name: &str, model: Option<&str>, problem: Option<&str>) -> AgentView {
    AgentView {
        name: name.into(),
        description: "Reviews the last commit for defects, and names file and line of each of them.".into(),
        backend: "claude".into(),
        model: model.map(str::to_owned),
        use_when: Vec::new(),
        avoid_when: Vec::new(),
        capabilities: Vec::new(),
        inputs: Vec::new(),
        file: format!("/home/ada/.claude/agents/{name}.md"),
        format: "claude".into(),
        layer: "user".into(),
        built_in: false,
        takes_built_in_name: false,
        answers_by: domain::setup::AnswerChannel::Output,
        login_unknown: false,
        logged_out: false,
        problem: problem.map(str::to_owned),
    }
}

#[test]
fn agents_and_why_they_cannot_run() {
    let problem = "the backend claude needs the program claude, which is not on the PATH; hint: install the \
                   package @anthropic-ai/claude-code";
    let found = vec![
        agent("reviewer", Some("claude-opus-4-5"), Some(problem)),
        agent("security-reviewer-of-the-backend", None, Some(problem)),
        agent("scout", None, None),
        AgentView { built_in: true, login_unknown: true, ..agent("claude", None, None) },
    ];
    let list = AgentList { project: "/src/api".into(), agents: found, diagnostics: Vec::new() };
    let text = at_each_width(|style| agents(&list, style));
    assert_eq!(text.matches("built in").count(), 3, "marked at every width: {text}");
    insta::assert_snapshot!(text);
}

#[test]
fn equal_problems_of_many_agents_take_one_paragraph() {
    let names: Vec<String> = (0..17).map(|number| format!("agent{number:02}")).collect();
    let found = names.iter().map(|name| agent(name, None, Some("needs claude, which is not on the PATH")));
    let file = |name: &str| format!("/home/ada/.claude/agents/{name}.md");
    let colour = |name: &String| Diagnostic::warning(&file(name), "color is not honoured").at(4, 1);
    let allow = |name: &String| {
        Diagnostic::warning(&file(name), format!("Bash is denied; write [agents.{name}] permission = …"))
    };
    let mut diagnostics: Vec<Diagnostic> =
        names.iter().flat_map(|name| [colour(name), allow(name)]).collect();
    diagnostics.extend(names[..2].iter().map(|name| Diagnostic::error(&file(name), "it has no name")));
    let list = AgentList { project: "/src/api".into(), agents: found.collect(), diagnostics };
    let text = agents(&list, &style(Some(80)));
    assert!(
        text.ends_with(
            "
agent00, agent01, agent02, agent03, agent04 and 12 more cannot run:
  needs claude, which is not on the PATH
"
        ),
        "{text}"
    );
    insta::assert_snapshot!(grouped_diagnostics(&list, &style(Some(80))), @r"
    ~/.claude/agents/agent00.md:4:1: warning: color is not honoured
      and the same for agent01, agent02, agent03, agent04, agent05 and 11 more
    ~/.claude/agents/agent00.md: warning: Bash is denied; write
      [agents.NAME] permission = …
      and the same for agent01, agent02, agent03, agent04, agent05 and 11 more
    ~/.claude/agents/agent00.md: error: it has no name
    ~/.claude/agents/agent01.md: error: it has no name
    ");
}

#[test]
fn health_of_agents() {
    let line = AgentHealthSummary {
        agent: "reviewer".into(),
        backend: "rehearsal".into(),
        runs: 1_200,
        succeeded: 1_150,
        partial: 10,
        failed: 40,
        timed_out: 0,
        success_rate: Some(0.958),
        mean_ms: Some(12_345),
        max_ms: 300_000,
        last_ended_at: Some("2026-11-15T11:00:00Z".into()),
        last_error: Some("failed: the agent exited with code 7".into()),
        last_error_at: None,
        cost_microusd: Some(4_560_000),
    };
    let report = HealthReport { running: 3, waiting: 1, slots: 8, agents: vec![line], left_out: 0 };
    insta::assert_snapshot!(at_each_width(|style| health(&report, style)));
}

#[test]
fn paths_are_written_from_the_project_or_from_home() {
    let short = |path, project| style(None).short_path(path, project);
    assert_eq!(short("/src/api/.volery/x.md", Some("/src/api")), ".volery/x.md");
    assert_eq!(short("/src/api-old/x.md", Some("/src/api")), "/src/api-old/x.md");
    assert_eq!(short("/home/ada/x.md", Some("/src/api")), "~/x.md");
    assert_eq!(short("/home/ada", None), "~");
    assert_eq!(short("/home/adam/x", None), "/home/adam/x");
}

#[test]
fn each_character_takes_the_columns_that_unicode_gives_it() {
    let columns = [
        ("é", 1),
        ("日本", 4),
        ("🪿", 2),
        ("ש\u{5b0}", 1),
        ("می\u{200c}خ", 3),
        ("❤\u{fe0f}", 1),
        ("\u{2060}", 0),
    ];
    for (text, expected) in columns {
        assert_eq!(width(text), expected, "{text:?}");
    }
}

proptest! {
    #[test]
    fn the_end_of_a_text_is_never_wider_than_its_room(text in "\\PC{0,40}", room in 0_usize..30) {
        let cut = super::super::text::fit_end(&text, room);
        prop_assert!(width(&cut) <= room);
        prop_assert!(text.ends_with(cut.trim_start_matches('…')) || cut == text);
    }
}

#[test]
fn a_coloured_status_is_wrapped_like_a_plain_one() {
    let mut run = view();
    run.explanation =
        "partial: the program is not logged in: run claude and type /login, then try again".to_owned();
    let narrow = style(Some(50));
    let plain = run_page(&run, &narrow);
    let colored = run_page(&run, &TextStyle { color: ColorMode::Ansi, ..narrow });
    assert!(colored.contains("\u{1b}[33mpartial\u{1b}[0m: "), "{colored:?}");
    assert!(plain.lines().all(|line| line.chars().count() <= 50), "{plain}");
    assert_eq!(sanitize_for_terminal(&colored), plain);
}
