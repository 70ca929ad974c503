//! Parsing of command lines, help, and exit codes.

use std::ffi::OsString;

use clap::{CommandFactory, Parser};
use domain::run::{Failure, LimitName, LostProcess, Outcome, OutcomeKind, PartialCause, TimeLimit};

use super::complete::{Lookup, RunChoice, expected};
use super::entry::{Cli, Command, parse_and_run};
use super::error::CommandError;
use super::exit::Exit;
use super::output::{Out, OutputFormat, StreamProperties};
use super::signals::{ReceivedSignal, SignalResponse, is_ignored, respond};
use super::{agents, prompt, run, trust};
use crate::report::ColorMode;
use engine::{EngineError, ErrorKind};

/// Set to rewrite the reference instead of comparing with it.
const UPDATE: &str = "VOLERY_UPDATE_SNAPSHOTS";
const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots/cli-reference.txt");
const TERMINAL: StreamProperties =
    StreamProperties { terminal: true, redrawable: true, color: ColorMode::Plain, width: Some(80) };

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split_whitespace())
}

fn parsed(line: &str) -> Command {
    let cli = parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    cli.command.unwrap_or_else(|| panic!("{line}: no command"))
}

fn typed(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

#[test]
fn the_definition_of_the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_of_the_reference_parses_and_takes_json() {
    for line in [
        "volery run reviewer hello --dir /tmp --background --timeout 5m --idle-timeout 30s --session s --model m \
         --context c --idempotency-key k --on-disconnect continue",
        "volery run reviewer -",
        "volery run reviewer",
        "volery ps",
        "volery ps --all --agent a --state running --state failed,partial --limit 3",
        "volery show 3f9a --events",
        "volery logs -f --stderr 3f9a",
        "volery wait 3f9a 77c0 --any --timeout 5m",
        "volery cancel 3f9a 77c0 --now",
        "volery cancel --session nightly",
        "volery approve 3f9a --question q",
        "volery deny 3f9a --reason no",
        "volery answer 3f9a text",
        "volery agents",
        "volery agents --dir /tmp",
        "volery agents check --dir /tmp",
        "volery agents show reviewer --dir /tmp",
        "volery agents new reviewer --backend claude --user",
        "volery health --all",
        "volery prices",
        "volery prices gpt-5 --dir /tmp",
        "volery doctor",
        "volery init --client claude --client codex --dialect jarvis --user --dry-run",
        "volery init --undo",
        "volery init --client other",
        "volery import /tmp --from budgie",
        "volery import --apply --dry-run",
        "volery import --undo",
        "volery trust /tmp --yes",
        "volery trust --list",
        "volery trust --revoke /tmp",
        "volery clean --older-than 7d --dry-run",
        "volery reindex",
        "volery demo",
        "volery serve",
        "volery show",
        "volery logs -f",
        "volery wait --timeout 5m",
        "volery cancel --now",
        "volery resume",
        "volery help",
        "volery help agents check",
        "volery config",
        "volery config show limits.timeout --dir /tmp",
        "volery config path user",
        "volery config check",
        "volery completions bash",
        "volery completions zsh",
        "volery completions fish",
        "volery completions elvish",
        "volery completions powershell",
    ] {
        parsed(line);
        assert!(parse(&format!("{line} --json")).is_ok_and(|cli| cli.json), "{line} --json");
    }
}

#[test]
fn nonsense_is_refused() {
    for line in [
        "volery frobnicate",
        "volery run",
        "volery run a b --continue --session s",
        "volery run a b --timeout soon",
        "volery run a b --on-disconnect maybe",
        "volery wait 3f9a --timeout -1",
        "volery cancel 3f9a --session s",
        "volery trust --list --yes",
        "volery trust --revoke --yes",
        "volery ps --all --dir /tmp",
        "volery clean --older-than forever",
        "volery completions csh",
        "volery config path nowhere",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn a_malformed_address_error_shows_an_example() {
    for typed in ["7337", "localhost", "localhost:x", "example.org:80"] {
        let refused = parse(&format!("volery serve --http {typed}")).unwrap_err().to_string();
        assert!(refused.contains("such as 127.0.0.1:7337"), "{refused}");
    }
    parsed("volery serve --http localhost:0");
}

#[test]
fn values_arrive_as_what_they_mean() {
    let Command::Run(args) = parsed("volery run reviewer - --timeout 1h30m --on-disconnect cancel") else {
        panic!("not a run")
    };
    assert_eq!(args.agent.as_deref(), Some("reviewer"));
    assert_eq!(args.prompt, ["-"]);
    assert_eq!(args.timeout, Some(5_400_000));
    assert_eq!(args.on_disconnect, Some(run::OnDisconnectChoice::Cancel));
    let Command::Agents(args) = parsed("volery agents check --dir /x") else { panic!("not agents") };
    assert!(matches!(args.command, Some(agents::AgentsAction::Check(_))));
    assert_eq!(args.dir.as_deref(), Some(std::path::Path::new("/x")));
    let Command::Ps(args) = parsed("volery ps --state running,failed --state partial") else {
        panic!("not ps")
    };
    assert_eq!(args.state, ["running", "failed", "partial"]);
}

/// The help of every command in one text.
fn reference() -> String {
    fn append(command: &mut clap::Command, path: &str, text: &mut String) {
        let help = command.render_long_help().to_string();
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        text.push_str(&format!("$ {path} --help\n{}\n\n", help.join("\n").trim_end()));
        for child in command.get_subcommands_mut().filter(|child| !child.is_hide_set()) {
            let path = format!("{path} {}", child.get_name());
            append(child, &path, text);
        }
    }
    let mut command = Cli::command().term_width(100);
    command.build();
    let mut text = String::new();
    append(&mut command, "volery", &mut text);
    text
}

#[test]
fn the_whole_reference_is_as_it_was_reviewed() {
    let now = reference();
    if engine::env::get(UPDATE).is_some() {
        std::fs::write(REFERENCE, &now).expect("the reference can be written");
    }
    let before = std::fs::read_to_string(REFERENCE).unwrap_or_default();
    let differs = before.lines().zip(now.lines()).position(|(before, now)| before != now);
    let line = differs.unwrap_or(before.lines().count().min(now.lines().count())) + 1;
    assert!(
        before == now,
        "the help differs from line {line} on: {:?}\nif that is meant, set {UPDATE}=1 and run this test again",
        now.lines().nth(line - 1)
    );
}

#[test]
fn every_command_has_a_summary_a_paragraph_and_examples() {
    fn check(command: &clap::Command) {
        let name = command.get_name().to_owned();
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(!about.is_empty() && !about.contains('\n'), "{name}: {about:?}");
        let long = command.get_long_about().map(ToString::to_string).unwrap_or_default();
        assert!(long.contains("\nExamples:\n") || name == "volery", "{name} has no examples");
        assert!(long.lines().all(|line| line.chars().count() <= 80), "{name} is too wide");
        command.get_subcommands().filter(|child| !child.is_hide_set()).for_each(check);
    }
    check(&Cli::command());
}

#[test]
fn every_example_of_the_help_parses() {
    let reference = reference();
    let examples: Vec<&str> = reference.lines().filter_map(|line| line.strip_prefix("  volery ")).collect();
    let examples = examples.into_iter().filter(|line| !line.contains("  "));
    let mut checked = 0;
    for example in examples {
        let command = example.split(['|', '<', '>', ';']).next().unwrap_or_default().trim();
        // Text in quotes is one word for the shell.
        let words: Vec<String> = command
            .split('"')
            .enumerate()
            .flat_map(|(index, part)| match index % 2 {
                0 => part.split_whitespace().map(str::to_owned).collect(),
                _ => vec![part.to_owned()],
            })
            .collect();
        let line = std::iter::once("volery".to_owned()).chain(words);
        assert!(Cli::try_parse_from(line).is_ok(), "volery {example}");
        checked += 1;
    }
    assert!(checked > 30, "only {checked} examples were found");
}

#[test]
fn exit_codes_are_what_the_documents_say() {
    let codes = Exit::ALL.map(Exit::code);
    assert_eq!(codes, [0, 1, 2, 3, 4, 5, 70, 130]);
}

#[test]
fn every_outcome_has_its_exit_code() {
    let by = || "main".to_owned();
    let failed = |failure| Outcome::Failed { failure };
    let table = [
        (Outcome::Succeeded, 0),
        (Outcome::Partial { cause: PartialCause::TimedOut { limit: TimeLimit::Total } }, 4),
        (Outcome::Partial { cause: PartialCause::OverBudget { limit: LimitName::Depth } }, 4),
        (Outcome::Partial { cause: PartialCause::Cancelled { by: by() } }, 130),
        (Outcome::Partial { cause: PartialCause::Interrupted { lost: LostProcess::Worker } }, 1),
        (failed(Failure::Exit { code: 7 }), 1),
        (failed(Failure::Signal { signal: 9 }), 1),
        (failed(Failure::Spawn { reason: by() }), 1),
        (failed(Failure::Agent { message: by() }), 1),
        (failed(Failure::Output { reason: by() }), 1),
        (failed(Failure::Storage { reason: by() }), 1),
        (failed(Failure::Limit { limit: LimitName::Memory }), 4),
        (failed(Failure::Bug { reason: by() }), 70),
        (Outcome::TimedOut { limit: TimeLimit::Idle }, 4),
        (Outcome::Cancelled { by: by() }, 130),
        (Outcome::OverBudget { limit: LimitName::Cpu }, 4),
        (Outcome::Refused { reason: by() }, 3),
        (Outcome::Interrupted { lost: LostProcess::KeeperAndWorker }, 1),
    ];
    for (outcome, code) in table {
        assert_eq!(Exit::from_outcome(&outcome).code(), code, "{outcome}");
    }
    let by_name = OutcomeKind::ALL.map(|kind| (kind.as_str(), Exit::from_kind(kind).code()));
    let expected = [
        ("succeeded", 0),
        ("partial", 1),
        ("failed", 1),
        ("timed_out", 4),
        ("cancelled", 130),
        ("over_budget", 4),
        ("refused", 3),
        ("interrupted", 1),
    ];
    assert_eq!(by_name, expected);
}

#[test]
fn every_kind_of_error_has_its_exit_code() {
    let kinds = [
        (ErrorKind::Usage, 2),
        (ErrorKind::Denied, 3),
        (ErrorKind::Limit, 4),
        (ErrorKind::NotFound, 5),
        (ErrorKind::Backend, 1),
        (ErrorKind::Internal, 70),
    ];
    for (kind, code) in kinds {
        assert_eq!(Exit::from_error(kind).code(), code, "{kind:?}");
    }
}

#[test]
fn nothing_typed_prints_the_start_page() {
    let (mut out, captured) = Out::captured(OutputFormat::Text, StreamProperties::PIPE);
    assert_eq!(parse_and_run(typed(&["volery"]), &mut out), Exit::Done);
    assert!(captured.data().contains("volery demo"), "{}", captured.data());
    assert_eq!(captured.notes(), "");
}

#[test]
fn a_slip_of_the_keyboard_gets_a_suggestion_on_standard_error() {
    let (mut out, captured) = Out::captured(OutputFormat::Text, StreamProperties::PIPE);
    assert_eq!(parse_and_run(typed(&["volery", "agent"]), &mut out), Exit::Usage);
    assert!(captured.notes().contains("'agents'"), "{}", captured.notes());
    assert_eq!(captured.data(), "");
    let (mut out, captured) = Out::captured(OutputFormat::Text, StreamProperties::PIPE);
    assert_eq!(parse_and_run(typed(&["volery", "rnu"]), &mut out), Exit::Usage);
    assert!(captured.notes().contains("a similar subcommand exists: 'run'"), "{}", captured.notes());
}

#[test]
fn an_escape_sequence_in_a_wrong_argument_is_not_echoed() {
    let (mut out, captured) = Out::captured(OutputFormat::Text, TERMINAL);
    assert_eq!(parse_and_run(typed(&["volery", "\x1b]0;evil\x07"]), &mut out), Exit::Usage);
    assert!(!captured.notes().contains('\x1b'), "{:?}", captured.notes());
}

#[test]
fn errors_are_json_on_standard_output_when_json_was_asked_for() {
    let (mut out, captured) = Out::captured(OutputFormat::Json, StreamProperties::PIPE);
    assert_eq!(parse_and_run(typed(&["volery", "run", "--json"]), &mut out), Exit::Usage);
    let document: serde_json::Value = serde_json::from_str(&captured.data()).expect("one JSON document");
    assert_eq!(document["error"]["kind"], "usage");
    assert!(document["error"]["message"].as_str().is_some_and(|text| text.contains("<AGENT>")), "{document}");
    assert_eq!(captured.notes(), "");
}

#[test]
fn errors_for_people_have_their_hint_on_its_own_line() {
    let (mut out, captured) = Out::captured(OutputFormat::Text, StreamProperties::PIPE);
    out.error(&EngineError::not_found("there is no agent \"x\"\nagents: a, b").hint("did you mean a?"));
    assert_eq!(captured.notes(), "error: there is no agent \"x\"\n  agents: a, b\nhint: did you mean a?\n");
}

#[test]
fn a_reader_that_has_gone_is_success() {
    let mut out = Out::into_closed_pipe(OutputFormat::Text);
    assert!(matches!(out.page("x"), Err(CommandError::ReaderGone)));
    assert_eq!(parse_and_run(typed(&["volery"]), &mut out), Exit::Done);
}

#[test]
fn agents_text_is_made_harmless_on_a_terminal_and_left_alone_in_a_pipe() {
    let text = "a\x1b[2Jb";
    let (mut out, captured) = Out::captured(OutputFormat::Text, TERMINAL);
    out.agent_text(text).expect("a page");
    out.end_agent_text(text.chars().last()).expect("a line break");
    assert_eq!(captured.data(), "a␛[2Jb\n");
    let (mut out, captured) = Out::captured(OutputFormat::Text, StreamProperties::PIPE);
    out.agent_text(text).expect("a page");
    out.end_agent_text(text.chars().last()).expect("nothing");
    assert_eq!((captured.data().as_str(), captured.notes().as_str()), (text, ""));
}

#[test]
fn hints_are_for_people() {
    let (mut out, captured) = Out::captured(OutputFormat::Json, StreamProperties::PIPE);
    out.hint("try this");
    assert_eq!(captured.notes(), "");
}

#[test]
fn first_screens_fit_a_terminal_of_80_columns() {
    let commands = Cli::command();
    let names: Vec<&str> = commands.get_subcommands().map(clap::Command::get_name).collect();
    let lines = names
        .iter()
        .map(|name| vec!["volery", "help", name])
        .chain([vec!["volery"], vec!["volery", "--help"]]);
    for line in lines {
        let (mut out, captured) = Out::captured(OutputFormat::Text, TERMINAL);
        assert_eq!(parse_and_run(typed(&line), &mut out), Exit::Done, "{line:?}");
        let long = captured.data().lines().find(|text| text.chars().count() > 80).map(str::to_owned);
        assert_eq!(long, None, "{line:?}");
    }
}

#[test]
fn help_explains_a_command_as_its_own_option_does() {
    for (by_name, by_option) in [
        (vec!["help", "run"], vec!["run", "--help"]),
        (vec!["help", "agents", "check"], vec!["agents", "check", "--help"]),
        (vec!["help"], vec!["--help"]),
    ] {
        let printed = |words: &[&str]| {
            let (mut out, captured) = Out::captured(OutputFormat::Text, StreamProperties::PIPE);
            let words: Vec<&str> = std::iter::once("volery").chain(words.iter().copied()).collect();
            assert_eq!(parse_and_run(typed(&words), &mut out), Exit::Done, "{}", captured.notes());
            captured.data()
        };
        assert_eq!(printed(&by_name), printed(&by_option), "{by_name:?}");
    }
    let (mut out, captured) = Out::captured(OutputFormat::Text, StreamProperties::PIPE);
    assert_eq!(parse_and_run(typed(&["volery", "help", "rum"]), &mut out), Exit::Usage);
    assert_eq!(captured.notes(), "error: volery has no command \"rum\"\nhint: did you mean run?\n");
}

/// Returns the values that may come next, and the lookup.
fn next(line: &str) -> (Vec<String>, Option<Lookup>) {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let typed = words.last().cloned().unwrap_or_default();
    let expected = expected(Cli::command(), &words);
    let values = expected.candidates.into_iter().map(|found| format!("{}{}", expected.prefix, found.value));
    (values.filter(|value| value.starts_with(&typed)).collect(), expected.lookup)
}

#[test]
fn the_next_word_is_known_from_the_words_before_it() {
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    for (line, known, lookup) in [
        ("agen", words(&["agents"]), None),
        ("run ", vec![], Some(Lookup::Agents)),
        ("run --background ", vec![], Some(Lookup::Agents)),
        ("run --timeout 5m ", vec![], Some(Lookup::Agents)),
        ("run --timeout=5m -b ", vec![], Some(Lookup::Agents)),
        ("run --timeout ", vec![], None),
        ("run reviewer ", vec![], None),
        ("run reviewer --on-disconnect ", words(&["cancel", "continue"]), None),
        ("run reviewer --on-disconnect=con", words(&["--on-disconnect=continue"]), None),
        ("run reviewer --back", words(&["--background"]), None),
        ("run -- --back", vec![], Some(Lookup::Agents)),
        ("run reviewer --session ", vec![], Some(Lookup::Sessions)),
        ("ps --agent ", vec![], Some(Lookup::Agents)),
        ("ps -n ", vec![], None),
        ("agents sh", words(&["show"]), None),
        ("agents show ", vec![], Some(Lookup::Agents)),
        ("agents new x --backend ", vec![], Some(Lookup::Backends)),
        ("show ", vec![], Some(Lookup::Runs(RunChoice::All))),
        ("logs -f ", vec![], Some(Lookup::Runs(RunChoice::All))),
        ("wait 3f9a 77", vec![], Some(Lookup::Runs(RunChoice::All))),
        ("cancel --now ", vec![], Some(Lookup::Runs(RunChoice::NotEnded))),
        ("approve ", vec![], Some(Lookup::Runs(RunChoice::Waiting))),
        ("resume ", vec![], Some(Lookup::Runs(RunChoice::Interrupted))),
        ("help agents ch", words(&["check"]), None),
        ("help ru", words(&["run"]), None),
        ("config path ", words(&["system", "user", "project"]), None),
        ("nonsense ", vec![], None),
        ("__comp", vec![], None),
    ] {
        assert_eq!(next(line), (known, lookup), "{line}|");
    }
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let (mut out, captured) = Out::captured(OutputFormat::Text, StreamProperties::PIPE);
        assert_eq!(parse_and_run(typed(&["volery", "completions", shell]), &mut out), Exit::Done);
        assert!(captured.data().contains(&format!("volery __complete {shell}")), "{shell}");
    }
    let commands = Cli::command();
    let commands = commands.get_subcommands().filter(|command| !command.is_hide_set());
    let commands: Vec<&str> = commands.map(clap::Command::get_name).collect();
    assert_eq!(next("").0, commands);
    for shell in ["elvish", "powershell"] {
        let (mut out, captured) = Out::captured(OutputFormat::Text, StreamProperties::PIPE);
        assert_eq!(parse_and_run(typed(&["volery", "completions", shell]), &mut out), Exit::Done);
        let script = captured.data();
        assert!(script.contains("reindex") && script.contains("idempotency-key"), "{shell}");
    }
}

#[test]
fn the_first_interrupt_cancels_the_second_kills_the_third_leaves() {
    let interrupts = [0, 1, 2, 9].map(|before| respond(ReceivedSignal::Interrupt, before));
    assert_eq!(
        interrupts,
        [SignalResponse::Cancel, SignalResponse::CancelNow, SignalResponse::GiveUp, SignalResponse::GiveUp]
    );
    assert_eq!(respond(ReceivedSignal::HangUp, 0), SignalResponse::Detach);
    assert_eq!(respond(ReceivedSignal::Terminate, 1), SignalResponse::Leave);
}

#[test]
fn signals_that_are_ignored_stay_ignored() {
    let nohup = "Name:\tvolery\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
    assert!(is_ignored(nohup, 1), "SIGHUP");
    assert!(is_ignored(nohup, 13), "SIGPIPE");
    assert!(!is_ignored(nohup, 2), "SIGINT");
    assert!(!is_ignored("", 1) && !is_ignored(nohup, 0) && !is_ignored(nohup, 99));
}

#[test]
fn piped_prompts_are_bounded_and_must_be_text() {
    let kind = |bytes: &[u8]| match prompt::read_all(bytes, "prompt") {
        Ok(_) => None,
        Err(CommandError::App(error)) => Some(error.kind),
        Err(CommandError::ReaderGone) => panic!("nothing is written"),
    };
    assert_eq!(kind(b"do this\n"), None);
    assert_eq!(kind(&vec![b'a'; 1 << 20]), None);
    assert_eq!(kind(&vec![b'a'; (1 << 20) + 1]), Some(ErrorKind::Limit));
    assert_eq!(kind(b"caf\xe9"), Some(ErrorKind::Usage));
}

#[test]
fn only_a_plain_yes_is_a_yes() {
    assert!(["y", "Y", "yes\n", " YES "].iter().all(|answer| trust::is_yes(answer)));
    assert!(["", "\n", "n", "no", "yeah", "y y"].iter().all(|answer| !trust::is_yes(answer)));
}

#[test]
fn notes_are_as_wide_as_the_terminal_and_whole_in_a_pipe() {
    let error = EngineError::not_found(
        "there is no agent reviewer in /src/a-project-with-a-long-name/and-a-folder/below-it",
    )
    .hint(
        "install codex and put it on the PATH, or write the file with volery agents new reviewer and edit it",
    );
    let printed = |medium| {
        let (mut out, captured) = Out::captured(OutputFormat::Text, medium);
        out.error(&error);
        out.note("456789ab failed: the model's service denies access: codex is not logged in (to fix it: run `codex login`)");
        captured.notes()
    };
    let wide = printed(TERMINAL);
    assert_eq!(
        wide,
        "error: there is no agent reviewer in\n  /src/a-project-with-a-long-name/and-a-folder/below-it\n\
         hint: install codex and put it on the PATH, or write the file with\n  volery agents new reviewer and edit it\n\
         456789ab failed: the model's service denies access: codex is not logged in (to\n  fix it: run `codex login`)\n"
    );
    assert!(wide.lines().all(|line| line.chars().count() <= 80), "{wide}");
    assert_eq!(printed(StreamProperties::PIPE).lines().count(), 3);
}
