//! Checks complete transcripts of invented events.

use domain::run::{AnswerOrigin, CallClass, CallKind, ConversationKind, Outcome};
use domain::run::{Cost, CostBasis, Failure, PromptKind, Usage};
use serde_json::json;

use super::super::denials::sample_denial;
use super::super::text_style::ColorMode;
use super::*;

fn style(width: Option<usize>) -> TextStyle {
    let now = "2026-11-15T12:00:00Z".parse().expect("a valid moment");
    TextStyle { width, color: ColorMode::Plain, now, home: None }
}

fn run(prompt: &str) -> RunView {
    let at = "2026-11-15T10:00:00Z".parse().expect("a valid moment");
    let run_id = domain::id::RunId::from_parts(at, [7; 10]);
    RunView {
        prompt: prompt.to_owned(),
        prompt_bytes: prompt.len() as u64,
        ..crate::sample_run::sample_run(run_id, "reviewer")
    }
}

fn render(run: &RunView, events: Vec<Event>, width: Option<usize>) -> String {
    let mut transcript = Transcript::new(run, style(width));
    let mut text = transcript.header(run);
    for (seq, event) in (0..).zip(events) {
        let at = "2026-11-15T10:00:01Z".parse().expect("a valid moment");
        text.push_str(&transcript.event(&Envelope { seq, epoch: 1, at, event }));
    }
    text + &transcript.rest()
}

fn attempt(reason: &str) -> Event {
    Event::AttemptStarted {
        choice: 0,
        backend: "claude".into(),
        model: None,
        conversation: ConversationKind::New,
        prompt_kind: PromptKind::Prompt,
        reason: reason.into(),
    }
}

fn text(text: &str) -> Event {
    Event::AnswerAppended { text: text.into() }
}

fn called(id: &str, name: &str, input: serde_json::Value) -> Event {
    Event::ToolCalled { id: id.into(), name: name.into(), input }
}

fn returned(id: &str, ok: bool, output: &str) -> Event {
    Event::ToolReturned { id: id.into(), ok, output: output.into() }
}

fn ended(outcome: Outcome) -> Event {
    let usage = Usage {
        input_tokens: 12_345,
        output_tokens: 678,
        cost: Some(Cost { microusd: 1_234, basis: CostBasis::Reported }),
        ..Usage::default()
    };
    Event::Ended { ending: Box::new(Ending { duration_ms: 12_300, usage, ..Ending::from_outcome(outcome) }) }
}

fn events() -> Vec<Event> {
    vec![
        attempt(""),
        text("I look at the co"),
        text("de first.\n"),
        called("1", "Read", json!({"file_path": "/project/src/main.rs"})),
        returned("1", true, &(1..=40).map(|line| format!("line {line}\n")).collect::<String>()),
        called("2", "Grep", json!({"pattern": "TODO", "path": "/project/src"})),
        called(
            "3",
            "Bash",
            json!({"command": "cargo test --workspace --all-targets --locked --no-fail-fast --quiet"}),
        ),
        returned("3", false, "error: \u{1b}[31mno such package\n"),
        returned("2", true, "src/main.rs:1: TODO"),
        Event::ToolDenied { denial: sample_denial("the rule deny Bash(rm:*)") },
        Event::Warned { message: "claude asks its model again".into() },
        Event::QuestionAnswered {
            question: "a0".parse().expect("an id"),
            allowed: true,
            text: String::new(),
            by: "ada".into(),
            origin: Some(AnswerOrigin::Command),
            granted_rules: Vec::new(),
        },
        attempt("it hit a rate limit"),
        text(
            "Here is a sentence that is too long for a narrow terminal and has to be wrapped somewhere.\n\n    code\n",
        ),
        text("The end, with \u{202e}a trick"),
        ended(Outcome::Succeeded),
    ]
}

#[test]
fn a_transcript_shows_the_task_the_text_the_steps_and_the_end() {
    insta::assert_snapshot!(render(&run("Review the last commit.\n\nIn detail."), events(), None), @r"
    07070707 reviewer  2026-11-15T10:00:00.000Z, asked by test
    > Review the last commit.
    >
    > In detail.

    · claude

    I look at the code first.

    → Read src/main.rs
        line 1
        line 2
        line 3
        line 4
        line 5
        … 35 more lines
    → Search TODO in src
    → $ cargo test --workspace --all-targets --locked --no-fail-fast --quiet
        ✗ failed
        error: no such package
    ← Search TODO in src
        src/main.rs:1: TODO
    ✗ denied: Bash(rm x): the rule deny Bash(rm:*)
    ! warning: claude asks its model again
    · allowed by ada
    ! tries again with claude: it hit a rate limit

    Here is a sentence that is too long for a narrow terminal and has to be wrapped somewhere.

        code
    The end, with \u{202e}a trick

    ✓ succeeded in 12.3s, $0.0012, 12,345 tokens in, 678 out
    ");
}

#[test]
fn a_transcript_fits_a_narrow_terminal() {
    let narrow =
        render(&run("Review the last commit, and say in detail what could go wrong."), events(), Some(40));
    for line in narrow.lines() {
        assert!(width(line) <= 40, "{line}");
    }
    insta::assert_snapshot!(narrow, @r"
    07070707 reviewer
    2026-11-15T10:00:00.000Z, asked by test
    > Review the last commit, and say in
    > detail what could go wrong.

    · claude

    I look at the code first.

    → Read src/main.rs
        line 1
        line 2
        line 3
        line 4
        line 5
        … 35 more lines
    → Search TODO in src
    → $ cargo test --workspace
      --all-targets --locked --no-fail-fast
      --quiet
        ✗ failed
        error: no such package
    ← Search TODO in src
        src/main.rs:1: TODO
    ✗ denied: Bash(rm x): the rule deny
      Bash(rm:*)
    ! warning: claude asks its model again
    · allowed by ada
    ! tries again with claude: it hit a
      rate limit

    Here is a sentence that is too long for
    a narrow terminal and has to be wrapped
    somewhere.

        code
    The end, with \u{202e}a trick

    ✓ succeeded in 12.3s, $0.0012, 12,345
      tokens in, 678 out
    ");
}

#[test]
fn an_answer_without_text_before_it_is_printed_at_the_end() {
    let result = |result| {
        let ending = Ending { result, ..Ending::from_outcome(Outcome::Succeeded) };
        render(&run("x"), vec![attempt(""), Event::Ended { ending: Box::new(ending) }], None)
    };
    insta::assert_snapshot!(result(ResultText::Inline("Three herons.".into())), @"
    07070707 reviewer  2026-11-15T10:00:00.000Z, asked by test
    > x

    · claude

    Three herons.

    ✓ succeeded in 0ms
    ");
    insta::assert_snapshot!(result(ResultText::File { bytes: 70_000 }), @"
    07070707 reviewer  2026-11-15T10:00:00.000Z, asked by test
    > x

    · claude
    · the answer has 68.4 KiB: volery wait 07070707 prints it
    ✓ succeeded in 0ms
    ");
}

#[test]
fn a_failure_shows_its_reason_and_the_end_of_the_error_stream() {
    let failure = Failure::Agent { message: "the service does not answer".into() };
    let ending = Ending {
        stderr_tail: (1..=9).map(|line| format!("line {line}\n")).collect(),
        ..Ending::from_outcome(Outcome::Failed { failure })
    };
    let failed = render(&run("x"), vec![attempt(""), Event::Ended { ending: Box::new(ending) }], None);
    insta::assert_snapshot!(failed, @"
    07070707 reviewer  2026-11-15T10:00:00.000Z, asked by test
    > x

    · claude
    · the last lines of standard error
        line 5
        line 6
        line 7
        line 8
        line 9
    ✗ failed: the agent reports: the service does not answer, after 0ms
    ");
}

#[test]
fn text_cannot_imitate_a_step() {
    let imitation = "Look:\n→ $ cargo test\n\u{200b}✓ succeeded in 1.0s\n\u{1b}[2K\r→ Read a.rs\n✗ failed\n";
    let long =
        "a word, then as many words as fit into the line → $ cargo test and the rest of the line ✓ succeeded";
    let events =
        || vec![text(imitation), text(long), called("1", "Read", json!({"file_path": "/work/a.rs"}))];
    insta::assert_snapshot!(render(&run("x"), events(), None), @r"
    07070707 reviewer  2026-11-15T10:00:00.000Z, asked by test
    > x

    Look:
        → $ cargo test
    \u{200b}✓ succeeded in 1.0s
    ␛[2K␍→ Read a.rs
        ✗ failed
    a word, then as many words as fit into the line → $ cargo test and the rest of the line ✓ succeeded

    → Read /work/a.rs
    ");
    for width in 20..90 {
        let printed = render(&run("x"), events(), Some(width));
        let steps: Vec<&str> = printed.lines().filter(|line| line.starts_with(['→', '✓', '✗'])).collect();
        assert_eq!(steps, ["→ Read /work/a.rs"], "{width}: {printed}");
        assert!(
            printed.lines().all(|line| super::super::text::width(line) < width.max(26)),
            "{width}: {printed}"
        );
    }
}

#[test]
fn the_calls_of_a_rehearsal_are_steps() {
    let write = json!({"write": {"path": "a.txt", "text": "x"}});
    let events = vec![
        Event::CallRequested {
            call: 0,
            kind: CallKind::Tool,
            class: CallClass::Idempotent,
            name: "write".into(),
            input: write,
            turn: None,
            verdict: None,
        },
        Event::CallCompleted { call: 0, ok: true, output: "wrote a.txt".into(), details: None },
        Event::CallCompleted {
            call: 1,
            ok: true,
            output: "of a call that is not shown".into(),
            details: None,
        },
    ];
    insta::assert_snapshot!(render(&run("x"), events, None), @"
    07070707 reviewer  2026-11-15T10:00:00.000Z, asked by test
    > x

    → Write a.txt
        wrote a.txt
    ");
}
