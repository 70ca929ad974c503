//! The rendered texts, as users see them.

use std::collections::BTreeMap;

use domain::diagnostic::Diagnostic;
use domain::run::{Containment, Cost, CostBasis, Enforcer, Usage};
use proptest::prelude::*;

use super::number_format::age;
use super::text::{fit, width, with_tilde, wrap, wrap_after};
use super::*;
use engine::{
    AgentHealthSummary, AgentList, AgentView, ChildView, CleanReport, HealthReport, ListScope, QuestionView,
    RunSummary, RunView, WaitingView,
};

mod widths;

const NOW: &str = "2026-11-15T12:00:00Z";

fn style(width: Option<usize>) -> TextStyle {
    TextStyle {
        width,
        color: ColorMode::Plain,
        now: NOW.parse().expect("a valid moment"),
        home: Some("/home/ada"),
    }
}

fn line(number: u8, status: &str, ended: bool) -> RunSummary {
    RunSummary {
        run_id: format!("0199a8c0-1234-7abc-8def-0123456789{number:02x}").parse().expect("a valid id"),
        short_id: format!("456789{number:02x}"),
        agent: "reviewer".into(),
        status: status.into(),
        ended,
        created_at: "2026-11-15T11:57:30Z".into(),
        ended_at: None,
        error: None,
        denials: Vec::new(),
        denials_count: 0,
        duration_ms: 2_345,
        cost_microusd: Some(12_345),
        session: None,
        parent: None,
        project: "/src/api".into(),
        caller: "main".into(),
        prompt: "review the last commit\nand say what could go wrong".into(),
        needs_answer: Vec::new(),
    }
}

fn view() -> RunView {
    RunView {
        run_id: line(7, "running", false).run_id,
        short_id: "45678907".into(),
        agent: "reviewer".into(),
        backend: "rehearsal".into(),
        status: "partial".into(),
        ended: true,
        outcome: None,
        explanation: "partial: timed out, the total time-out passed, with usable output so far".into(),
        cancellation: None,
        after_interruption: None,
        waiting: None,
        needs_answer: Vec::new(),
        result: Some("Line one\nLine \x1b[31mtwo\x1b[0m\x07".into()),
        result_bytes: 18,
        result_next_offset: None,
        partial: None,
        stalled: false,
        created_at: "2026-11-15T11:57:30Z".into(),
        started_at: Some("2026-11-15T11:57:31Z".into()),
        ended_at: Some("2026-11-15T11:59:31Z".into()),
        duration_ms: 120_000,
        usage: Usage {
            input_tokens: 12_345,
            output_tokens: 678,
            cost: Some(Cost { microusd: 1_234_567, basis: CostBasis::Reported }),
            ..Usage::default()
        },
        exit_code: Some(7),
        stderr_tail: "warning: slow\n".into(),
        prompt: "review the last commit\nand say what could go wrong\n\nIn detail.\n".into(),
        prompt_bytes: 5_000,
        directory: "/src/api/web".into(),
        project: "/src/api".into(),
        caller: "main".into(),
        level: None,
        allow: Vec::new(),
        has_tool_list: false,
        is_from_shell: false,
        grants: Vec::new(),
        unattended: None,
        session: Some("nightly".into()),
        parent: None,
        attempts: 1,
        children: vec![ChildView {
            run_id: line(9, "", true).run_id,
            agent: "scout".into(),
            status: "succeeded".into(),
        }],
        warnings: vec!["the backend cannot honour model".into()],
        denials: Vec::new(),
        denials_count: 0,
        inherit: std::collections::BTreeSet::new(),
        containment: Some(Containment {
            subreaper: true,
            pid_namespace: false,
            cgroup: Some("v2".into()),
            tags: vec!["RLIMIT_LOCKS".into()],
            limits: BTreeMap::from([("memory".to_owned(), Enforcer::Cgroup)]),
            missing: vec!["pid namespace: not permitted".into()],
            ..Containment::default()
        }),
        model: None,
        structured: None,
        repaired: false,
        verification: None,
        acceptance: Vec::new(),
        changes: None,
        branch: None,
        damaged_lines: 0,
    }
}

proptest! {
    #[test]
    fn nothing_that_controls_a_terminal_gets_through(text in any::<String>()) {
        let safe = sanitize_for_terminal(&text);
        prop_assert!(!safe.chars().any(controls_a_terminal), "{safe:?}");
    }

    #[test]
    fn nothing_gets_through_from_dense_control_text(text in "[\\x00-\\x1f\\x7f-\\x{9f}\\[\\]0-9;m\\x{202a}-\\x{202e}\\x{2066}-\\x{2069}\\x{200e}\\x{200f}\\x{61c}a]{0,40}") {
        let safe = sanitize_for_terminal(&text);
        prop_assert!(!safe.chars().any(controls_a_terminal), "{safe:?}");
        prop_assert!(!one_line(&text).contains(['\n', '\t', '\r']));
    }

    #[test]
    fn safe_text_stays_unchanged(text in "[a-zA-Zäöü漢字 \n\t.,;:!?]{0,60}") {
        prop_assert_eq!(sanitize_for_terminal(&text).into_owned(), text);
    }

    #[test]
    fn wrapped_text_loses_no_word(text in any::<String>(), max in 1_usize..40) {
        let lines = wrap(&text, max);
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        prop_assert_eq!(words(&lines.join(" ")), words(&text));
        prop_assert!(lines.iter().all(|line| width(line) <= max || !line.contains(' ')));
    }

    #[test]
    fn fitted_text_fits(text in any::<String>(), max in 0_usize..40) {
        prop_assert!(width(&fit(&text, max)) <= max.max(1));
    }
}

/// Written independently of the code under test, from the lists of Unicode.
fn controls_a_terminal(character: char) -> bool {
    let code = u32::from(character);
    let control = (code < 0x20 && !matches!(character, '\n' | '\t')) || (0x7f..=0x9f).contains(&code);
    let bidi = [0x061c, 0x200e, 0x200f].contains(&code)
        || (0x202a..=0x202e).contains(&code)
        || (0x2066..=0x2069).contains(&code);
    control || bidi
}

#[test]
fn control_characters_become_visible_and_colours_vanish() {
    let hostile = "a\x1b[31mred\x1b[0m\x1b]0;title\x07\r\nb\rc\u{202e}d\u{9b}2J\x7f";
    assert_eq!(sanitize_for_terminal(hostile), "ared␛]0;title␇\nb␍c\\u{202e}d\\u{9b}2J␡");
}

#[test]
fn numbers_are_short() {
    let now = NOW.parse().expect("a valid moment");
    let ages =
        ["2026-11-15T11:59:48Z", "2026-11-15T11:55:00Z", "2026-11-15T02:00:00Z", "2026-11-01T12:00:00Z"];
    assert_eq!(ages.map(|moment| age(now, moment)), ["12s", "5m", "10h", "14d"]);
    assert_eq!(age(now, "2026-11-15T12:00:09Z"), "0s", "a clock that is ahead is no negative age");
    assert_eq!(age(now, "yesterday"), "?");
    let amounts =
        [None, Some(0), Some(183), Some(12_345), Some(999_999), Some(1_000_000), Some(1_234_567_890)];
    let shown = ["-", "$0.0000", "$0.0002", "$0.0123", "$1.0000", "$1.00", "$1,234.57"];
    assert_eq!(amounts.map(money), shown);
    assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
}

#[test]
fn a_list_shows_active_runs_first_and_each_run_once() {
    let runs = vec![line(3, "failed", true), line(7, "running", false), line(9, "succeeded", true)];
    let runs = runs_in_order([runs.clone(), runs].concat());
    insta::assert_snapshot!(run_table(&runs, ListScope::Project, &style(None)), @r"
    ID        AGENT     STATUS     AGE  TIME     COST  PROMPT
    45678907  reviewer  running     2m  2.3s  $0.0123  review the last commit and say what could go wrong
    45678909  reviewer  succeeded   2m  2.3s  $0.0123  review the last commit and say what could go wrong
    45678903  reviewer  failed      2m  2.3s  $0.0123  review the last commit and say what could go wrong
    ");
}

#[test]
fn a_list_of_all_projects_fits_a_narrow_terminal() {
    let table = run_table(&[line(7, "running", false)], ListScope::All, &style(Some(80)));
    assert!(table.lines().all(|line| width(line) <= 80), "{table}");
    insta::assert_snapshot!(table, @r"
    ID        AGENT     STATUS   AGE  TIME     COST  PROJECT   PROMPT
    45678907  reviewer  running   2m  2.3s  $0.0123  /src/api  review the last comm…
    ");
}

#[test]
fn wide_characters_keep_columns_straight() {
    let mut table = Table::new(&[Column::left("A"), Column::right("B")]);
    table.push(vec![Cell::new("漢字"), Cell::new("1")]);
    table.push(vec![Cell::new("ab"), Cell::new("22")]);
    insta::assert_snapshot!(table.render(&style(None)), @r"
    A      B
    漢字   1
    ab    22
    ");
}

#[test]
fn colours_only_add_to_the_text() {
    let colored = TextStyle { color: ColorMode::Ansi, ..style(None) };
    let runs = [line(7, "running", false), line(3, "failed", true)];
    let table = run_table(&runs, ListScope::Project, &colored);
    assert!(table.contains("\x1b[31mfailed\x1b[0m"), "{table:?}");
    assert_eq!(sanitize_for_terminal(&table), run_table(&runs, ListScope::Project, &style(None)));
}

#[test]
fn a_page_shows_everything_about_a_run() {
    insta::assert_snapshot!(run_page(&view(), &style(None)), @"
    run         0199a8c0-1234-7abc-8def-012345678907
    short id    45678907
    agent       reviewer (backend rehearsal)
    status      partial: timed out, the total time-out passed, with usable output so far
    asked by    main
    prompt      review the last commit
                and say what could go wrong
                … 4.8 KiB more
    created     2026-11-15T11:57:30.000Z (2m ago)
    started     2026-11-15T11:57:31.000Z (2m ago)
    ended       2026-11-15T11:59:31.000Z (29s ago)
    time        2m00s
    tokens      12,345 in, 678 out
    cost        $1.23
    exit code   7
    directory   /src/api/web
    project     /src/api
    session     nightly
    children    45678909 scout succeeded
    contained   subreaper, cgroup v2, tags RLIMIT_LOCKS
                limit on memory: by its cgroup
                missing: pid namespace: not permitted
    warning     the backend cannot honour model

    error stream, last lines
      warning: slow

    result (18 B)
      Line one
      Line two␇
    ");
}

/// Returns a question that the last of these agents asks.
fn question(agents: &[&str]) -> QuestionView {
    QuestionView {
        run_id: line(11, "", false).run_id,
        short_id: "4567890b".into(),
        agents: agents.iter().map(|agent| (*agent).to_owned()).collect(),
        question: "a0".into(),
        text: "Write to deploy.sh?\nIt is \u{1b}[31mnew.".into(),
        until: "2026-11-15T13:00:00Z".into(),
        allow_rules: Vec::new(),
    }
}

#[test]
fn a_question_of_a_tree_is_listed_once_as_its_root_shows_it() {
    let listed =
        |agents: &[&str]| RunSummary { needs_answer: vec![question(agents)], ..line(1, "running", false) };
    let runs = [listed(&["fixer"]), listed(&["chief", "fixer"]), line(3, "running", false)];
    insta::assert_snapshot!(run_table(&runs, ListScope::Project, &style(Some(90))), @"
    ID        AGENT     STATUS   AGE  TIME     COST  PROMPT
    45678901  reviewer  running   2m  2.3s  $0.0123  needs you: fixer
    45678901  reviewer  running   2m  2.3s  $0.0123  needs you: chief › fixer
    45678903  reviewer  running   2m  2.3s  $0.0123  review the last commit and say what coul…
    ");
    let commands = "volery approve|deny 4567890b".to_owned();
    let text = "needs you: chief › fixer: Write to deploy.sh? It is new.".to_owned();
    assert_eq!(question_lines(&runs), [(text, commands)]);
}

#[test]
fn a_page_shows_the_questions_of_the_runs_below() {
    let run = RunView { needs_answer: vec![question(&["chief"]), question(&["chief", "fixer"])], ..view() };
    let page = run_page(&run, &style(Some(90)));
    let lines: Vec<&str> = page.lines().skip_while(|line| !line.starts_with("needs you")).take(3).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    needs you   chief › fixer: Write to deploy.sh? It is new.
                until 2026-11-15T13:00:00.000Z, then it is denied
                volery approve|deny 4567890b
    ");
}

#[test]
fn a_page_of_a_waiting_run_says_how_to_answer() {
    let waiting = RunView {
        status: "waiting".into(),
        ended: false,
        explanation: "waiting for an answer".into(),
        waiting: Some(WaitingView::Answer {
            question: "deploy".into(),
            text: "Deploy to production?".into(),
            until: "2026-11-15T13:00:00Z".into(),
            allow_rules: vec!["Bash(touch:*)".to_owned()],
        }),
        result: None,
        partial: Some("I have built it.".into()),
        containment: None,
        children: Vec::new(),
        warnings: Vec::new(),
        stderr_tail: String::new(),
        exit_code: None,
        ended_at: None,
        session: None,
        ..view()
    };
    insta::assert_snapshot!(run_page(&waiting, &style(Some(90))), @"
    run         0199a8c0-1234-7abc-8def-012345678907
    short id    45678907
    agent       reviewer (backend rehearsal)
    status      waiting: for an answer
    asked by    main
    prompt      review the last commit
                and say what could go wrong
                … 4.8 KiB more
    created     2026-11-15T11:57:30.000Z (2m ago)
    started     2026-11-15T11:57:31.000Z (2m ago)
    time        2m00s
    tokens      12,345 in, 678 out
    cost        $1.23
    directory   /src/api/web
    project     /src/api
    waits for   an answer to deploy: Deploy to production?
                until 2026-11-15T13:00:00.000Z, then it is denied
                volery approve|deny 45678907, or volery answer 45678907 TEXT

    so far
      I have built it.
    ");
}

#[test]
fn a_summary_is_one_line() {
    insta::assert_snapshot!(summary(&view()), @"45678907 partial: timed out, the total time-out passed, with usable output so far, after 2m00s, $1.23, 12,345 tokens in, 678 out");
}

#[test]
fn several_runs_are_summed_up_in_a_table() {
    insta::assert_snapshot!(view_table(&[view()], &style(Some(100))), @r"
    ID        AGENT     STATUS    TIME  TOKENS   COST  REASON
    45678907  reviewer  partial  2m00s  13,023  $1.23  timed out, the total time-out passed, with usabl…
    ");
}

#[test]
fn agents_that_cannot_run_say_why() {
    let agent = |name: &str, problem: Option<&str>| AgentView {
        name: name.into(),
        description: "Turns text into capitals.".into(),
        backend: "upper".into(),
        model: None,
        use_when: Vec::new(),
        avoid_when: Vec::new(),
        capabilities: Vec::new(),
        inputs: Vec::new(),
        file: format!("/src/api/.volery/agents/{name}.md"),
        format: "volery".into(),
        layer: "project".into(),
        built_in: false,
        takes_built_in_name: false,
        answers_by: domain::setup::AnswerChannel::Output,
        login_unknown: false,
        logged_out: false,
        problem: problem.map(str::to_owned),
    };
    let mut shout = agent("shout", None);
    let input = |name: &str, kind: &str, required, default: Option<&str>| domain::agent::AgentInput {
        name: name.into(),
        kind: kind.into(),
        required,
        default: default.map(str::to_owned),
        description: String::new(),
    };
    shout.inputs = vec![
        input("file", "string", true, None),
        input("depth", "integer", false, Some("3")),
        input("tone", "string", false, None),
    ];
    let agents_found = vec![shout, agent("whisper", Some("not trusted\nhint: volery trust"))];
    let list = AgentList { project: "/src/api".into(), agents: agents_found, diagnostics: Vec::new() };
    insta::assert_snapshot!(agents(&list, &style(None)), @r"
    AGENT    BACKEND  MODEL  FORMAT  STATE    FILE                       DESCRIPTION
    shout    upper    -      volery  ready    .volery/agents/shout.md    Turns text into capitals.
    whisper  upper    -      volery  blocked  .volery/agents/whisper.md  Turns text into capitals.

    shout takes: file, depth integer = 3, tone?

    whisper cannot run:
      not trusted
      hint: volery trust
    ");
}

#[test]
fn findings_have_location_severity_and_hint() {
    let found = [
        Diagnostic::error("a.md", "the timeout is not a duration").at(4, 10).hint("write for example 30s"),
        Diagnostic::warning(
            "/project/b.md",
            "[agents.b] of /project/.volery/config.toml: unknown key colour",
        )
        .hint("cp /project/b.md /projects/c.md in /project"),
    ];
    insta::assert_snapshot!(diagnostics(&found, "/project", &style(None)), @r"
    a.md:4:10: error: the timeout is not a duration
      hint: write for example 30s
    b.md: warning: [agents.b] of .volery/config.toml: unknown key colour
      hint: cp /project/b.md /projects/c.md in /project
    ");
}

#[test]
fn a_sweep_names_the_first_runs_and_counts_all() {
    let report = CleanReport {
        dry_run: true,
        deleted: 1_002,
        outputs_dropped: 7,
        bytes: 5 << 20,
        runs: vec![line(7, "", true).run_id, line(9, "", true).run_id],
        problems: Vec::new(),
    };
    insta::assert_snapshot!(clean_report(&report, &style(None)), @r"
    ID         AGE  RUN
    45678907  408d  0199a8c0-1234-7abc-8def-012345678907
    45678909  408d  0199a8c0-1234-7abc-8def-012345678909
    … and 1,000 more

    would remove 1,002 runs and the output of 7 more, 5.0 MiB in all
    ");
}

#[test]
fn health_shows_rates_and_the_last_error() {
    let well = AgentHealthSummary {
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
    let unused = AgentHealthSummary {
        agent: "scout".into(),
        runs: 0,
        succeeded: 0,
        partial: 0,
        failed: 0,
        success_rate: None,
        mean_ms: None,
        max_ms: 0,
        last_ended_at: None,
        last_error: None,
        cost_microusd: None,
        ..well.clone()
    };
    let report = HealthReport { running: 3, waiting: 1, slots: 8, agents: vec![well, unused], left_out: 2 };
    insta::assert_snapshot!(health(&report, &style(None)), @r"
    3 running, 1 waiting, 8 slots

    AGENT     BACKEND     RUNS     OK  PARTIAL  FAILED  RATE   MEAN    MAX   COST  LAST  LAST ERROR
    reviewer  rehearsal  1,200  1,150       10      40   96%  12.3s  5m00s  $4.56    1h  failed: the agent exited with code 7
    scout     rehearsal      0      0        0       0     -      -    0ms      -     -  -
    … and 2 more agents
    ");
}

#[test]
fn events_of_any_shape_are_a_line() {
    let event = serde_json::json!({
        "seq": 3, "epoch": 1, "at": "2026-11-15T11:57:31Z", "type": "said", "text": "two\nlines\x1b[2J"
    });
    insta::assert_snapshot!(event_line(&event, &style(None)), @"   3  2026-11-15T11:57:31.000Z  said              text=two lines␛[2J");
    assert_eq!(event_line(&serde_json::json!("odd"), &style(None)), "   0  ?  ?\n");
}

#[test]
fn a_live_frame_never_exceeds_the_terminal() {
    let row = LiveRow {
        name: "reviewer".into(),
        status: "running".into(),
        elapsed_ms: 12_345,
        activity: "$ cargo test --workspace --all-targets --locked".into(),
        activity_is_text: false,
        text_tail: "one\ntwo\nthree\n\nfour \x1b[2Jand a line that is much too long for this terminal\n"
            .into(),
        ended: false,
    };
    let alone = frame(std::slice::from_ref(&row), 1, &style(Some(50)));
    assert!(alone.iter().all(|line| width(line) < 50), "{alone:#?}");
    insta::assert_snapshot!(alone.join("\n"), @r"
    ⠙ reviewer  running  12.3s  $ cargo test --works…
      │ two
      │ three
      │ four ␛[2Jand a line that is much too long fo…
    ");
    let ended = LiveRow { status: "failed".into(), ended: true, ..row.clone() };
    insta::assert_snapshot!(frame(&[row.clone(), ended], 0, &style(Some(60))).join("\n"), @"
    ⠋ reviewer  running  12.3s  $ cargo test --workspace --all…
    ✗ reviewer  failed   12.3s  $ cargo test --workspace --all…
    ");
    let many = frame(&vec![row; 40], 0, &style(Some(60)));
    assert_eq!(many.len(), 13);
    assert_eq!(many.last().map(String::as_str), Some("… and 28 more"));
}

#[test]
fn commands_and_settings_stay_on_one_line_where_they_fit() {
    let hint =
        "to allow that, write [agents.claude] permission = { allow = [\"Bash\"] } in your configuration";
    assert_eq!(
        wrap(hint, 60),
        [
            "to allow that, write",
            "[agents.claude] permission = { allow = [\"Bash\"] } in your",
            "configuration"
        ]
    );
    assert_eq!(wrap("run `codex login`, or do it later", 16), ["run", "`codex login`,", "or do it later"]);
    assert_eq!(
        wrap("ask with volery show 456789ab and see", 16),
        ["ask with volery", "show 456789ab", "and see"]
    );
    assert_eq!(
        wrap("ask with volery show 456789ab and see", 24),
        ["ask with", "volery show 456789ab and", "see"]
    );
    // An unclosed phrase, or one that is longer than a line, is broken between words as usual.
    assert_eq!(wrap("a ` that opens nothing", 10), ["a ` that", "opens", "nothing"]);
    assert_eq!(wrap("`a command that is too long`", 12), ["`a command", "that is too", "long`"]);
    assert_eq!(wrap_after(7, "one two three", 12), ["one", "two three"]);
    assert_eq!(wrap_after(10, "word and more", 12), ["", "word and", "more"]);
}

#[test]
fn a_sentence_names_paths_from_home() {
    let short = |text: &str| with_tilde(text, Some("/home/ada"));
    assert_eq!(short("no agent in /home/ada/src (see /home/ada)"), "no agent in ~/src (see ~)");
    assert_eq!(short("/home/adam/x and /mnt/home/ada/y"), "/home/adam/x and /mnt/home/ada/y");
    // Shells do not expand `~` within quotes.
    assert_eq!(short("cd \"/home/ada/a b\""), "cd \"/home/ada/a b\"");
    assert_eq!(with_tilde("/home/ada/x", None), "/home/ada/x");
    assert_eq!(with_tilde("/etc/x", Some("/")), "/etc/x");
}
