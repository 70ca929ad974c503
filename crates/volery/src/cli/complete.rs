//! `volery __complete`: lists the words that may come next on a command line. The scripts of `volery completions` call it,
//! so that a shell offers the current agents and runs.
//!
//! It prints no errors: a user who presses Tab does not expect any.

use std::collections::BTreeSet;
use std::path::PathBuf;

use backends::prices::PublishedPrice;
use clap::{Arg, ArgAction, ValueEnum};

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::output::Out;
use super::ps;
use crate::report::one_line;
use engine::clock;
use engine::env;
use engine::{EngineHandle, GetRun, ListAgents, ListRuns, RunSummary};

/// Runs offered at most, the newest.
const RUNS_MAX: usize = 50;
/// Characters of a description; shells show it on the same line.
const HELP_MAX: usize = 60;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    pub(crate) shell: CompletionShell,

    /// The words after the program's name, up to the one that is being typed, which may be empty
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

/// The shells that read the candidates, each in its own format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompletionShell {
    Bash,
    Zsh,
    Fish,
}

/// A possible completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) value: String,
    pub(crate) help: String,
}

impl Candidate {
    pub(crate) fn new(value: impl Into<String>, help: &str) -> Self {
        let help = one_line(help.lines().next().unwrap_or_default());
        Self { value: value.into(), help: domain::size::head(&help, HELP_MAX).to_owned() }
    }
}

/// The possible values of the word that is being typed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ExpectedWord {
    /// Candidates from the definition of the command line.
    pub(crate) candidates: Vec<Candidate>,
    /// Candidates that the engine must list.
    pub(crate) lookup: Option<Lookup>,
    /// The common prefix of all candidates, such as `--option=`.
    pub(crate) prefix: String,
    /// Arguments that were typed before and make no sense twice.
    pub(crate) taken: Vec<String>,
    /// The directory that an option names.
    pub(crate) directory: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    Agents,
    Backends,
    Sessions,
    Runs(RunChoice),
}

/// The runs that make sense for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunChoice {
    All,
    NotEnded,
    Waiting,
    Interrupted,
}

impl RunChoice {
    fn fits(self, run: &RunSummary) -> bool {
        match self {
            Self::All => true,
            Self::NotEnded => !run.ended,
            Self::Waiting => run.status == "waiting",
            Self::Interrupted => run.status == "interrupted",
        }
    }
}

pub(crate) async fn run(
    args: Args,
    root: clap::Command,
    context: &Context,
    out: &mut Out,
) -> Result<Exit, CommandError> {
    let typed = args.words.last().map_or("", String::as_str);
    let expected = expected(root, &args.words);
    let mut candidates = expected.candidates;
    if let (Some(lookup), Ok(app)) = (expected.lookup, context.open()) {
        let directory = expected.directory.as_deref().map(expand_tilde);
        // An unusable path gives no candidates, and no error either.
        let Ok(directory) = context.absolute(directory.as_ref()) else { return Ok(Exit::Done) };
        candidates.extend(lookup_candidates(&app, lookup, directory).await);
    }
    candidates.retain(|candidate| !expected.taken.contains(&candidate.value));
    for Candidate { value, help } in candidates {
        let value = format!("{}{value}", expected.prefix);
        if value.starts_with(typed) && !value.contains(char::is_control) {
            out.page(&line(args.shell, &value, &help))?;
        }
    }
    Ok(Exit::Done)
}

/// Expands `~` in a path: shells pass it on as typed.
fn expand_tilde(typed: &str) -> PathBuf {
    match (typed.strip_prefix('~'), env::home()) {
        (Some(""), Some(home)) => home,
        (Some(rest), Some(home)) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => PathBuf::from(typed),
    }
}

fn line(shell: CompletionShell, value: &str, help: &str) -> String {
    match shell {
        CompletionShell::Bash => format!("{value}\n"),
        CompletionShell::Fish => format!("{value}\t{help}\n"),
        // zsh's `_describe` splits at the first colon without a backslash.
        CompletionShell::Zsh => format!("{}:{help}\n", value.replace('\\', "\\\\").replace(':', "\\:")),
    }
}

/// Returns the possible values of the last of these words.
pub(crate) fn expected(mut root: clap::Command, words: &[String]) -> ExpectedWord {
    root.build();
    let Some((typed, before)) = words.split_last() else { return ExpectedWord::default() };
    let mut command = &root;
    let mut positionals = 0;
    let (mut option, mut only_positionals, mut in_help): (Option<&Arg>, _, _) = (None, false, false);
    let (mut taken, mut directory) = (Vec::new(), None);
    for word in before {
        if let Some(option) = option.take() {
            if option.get_id() == "dir" {
                directory = Some(word.clone());
            }
            continue;
        }
        if let Some(value) = word.strip_prefix("--dir=").filter(|_| !only_positionals) {
            directory = Some(value.to_owned());
        }
        match word.as_str() {
            "--" if !only_positionals => only_positionals = true,
            word if !only_positionals && word.len() > 1 && word.starts_with('-') => {
                option = option_without_value(command, word);
            }
            "help" if command.get_name() == root.get_name() => in_help = true,
            word => match command.find_subcommand(word).filter(|_| positionals == 0) {
                Some(child) => command = child,
                None => {
                    positionals += 1;
                    taken.push(word.to_owned());
                }
            },
        }
    }
    let mut expected =
        expected_for(command, typed, CommandLineState { option, positionals, only_positionals, in_help });
    // Only in a list of equal arguments a repetition makes no sense; the text of an answer may repeat the id of its run.
    let is_list = |arg: &Arg| matches!(arg.get_action(), ArgAction::Append);
    if command.get_positionals().next().is_some_and(is_list) {
        expected.taken = taken;
    }
    expected.directory = directory;
    expected
}

/// The state of the command line before the word that is being typed.
struct CommandLineState<'a> {
    option: Option<&'a Arg>,
    positionals: usize,
    only_positionals: bool,
    in_help: bool,
}

fn expected_for(command: &clap::Command, typed: &str, before: CommandLineState<'_>) -> ExpectedWord {
    let CommandLineState { option, positionals, only_positionals, in_help } = before;
    if let Some(option) = option {
        return values(command, option, String::new());
    }
    if let Some((name, _)) = typed.split_once('=').filter(|_| !only_positionals && typed.starts_with("--")) {
        let option = command.get_arguments().find(|arg| arg.get_long() == name.strip_prefix("--"));
        return option
            .map_or_else(ExpectedWord::default, |option| values(command, option, format!("{name}=")));
    }
    if typed.starts_with('-') && !only_positionals {
        return ExpectedWord { candidates: options(command), ..ExpectedWord::default() };
    }
    let mut found = positional(command, positionals).filter(|_| !in_help);
    let mut expected =
        found.take().map_or_else(ExpectedWord::default, |arg| values(command, arg, String::new()));
    if positionals == 0 {
        let children = command.get_subcommands().filter(|child| !child.is_hide_set());
        expected.candidates.extend(children.map(|child| {
            Candidate::new(child.get_name(), &child.get_about().map(ToString::to_string).unwrap_or_default())
        }));
    }
    expected
}

/// Returns the option that a word names, if its value is the next word.
fn option_without_value<'a>(command: &'a clap::Command, word: &str) -> Option<&'a Arg> {
    let found = match word.strip_prefix("--") {
        Some(long) => command.get_arguments().find(|arg| arg.get_long() == Some(long)),
        // Of several letters in one word, only the last can take its value from the next word.
        None => command.get_arguments().find(|arg| arg.get_short() == word.chars().last()),
    };
    found.filter(|arg| arg.get_action().takes_values())
}

fn options(command: &clap::Command) -> Vec<Candidate> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let candidates = shown.filter_map(|arg| {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        Some(Candidate::new(format!("--{}", arg.get_long()?), &help))
    });
    candidates.collect()
}

/// Returns the positional argument at an index; beyond the end the last one, if it may be repeated.
fn positional(command: &clap::Command, index: usize) -> Option<&Arg> {
    let repeated = |arg: &&Arg| matches!(arg.get_action(), ArgAction::Append);
    command.get_positionals().nth(index).or_else(|| command.get_positionals().last().filter(repeated))
}

fn values(command: &clap::Command, arg: &Arg, prefix: String) -> ExpectedWord {
    let possible = arg.get_possible_values();
    let shown = possible.iter().filter(|value| !value.is_hide_set());
    let known = shown.map(|value| {
        Candidate::new(value.get_name(), &value.get_help().map(ToString::to_string).unwrap_or_default())
    });
    let lookup = match (arg.get_id().as_str(), command.get_name()) {
        ("agent", _) => Some(Lookup::Agents),
        ("backend", _) => Some(Lookup::Backends),
        ("session" | "fork", _) => Some(Lookup::Sessions),
        ("run" | "runs", "cancel") => Some(Lookup::Runs(RunChoice::NotEnded)),
        ("run", "approve" | "deny" | "answer") => Some(Lookup::Runs(RunChoice::Waiting)),
        ("run", "resume") => Some(Lookup::Runs(RunChoice::Interrupted)),
        ("run" | "runs", _) => Some(Lookup::Runs(RunChoice::All)),
        _ => None,
    };
    let mut known: Vec<Candidate> = known.collect();
    match (arg.get_id().as_str(), command.get_name()) {
        ("state", "ps") => known.extend(ps::states().map(|state| Candidate::new(state, ""))),
        ("model", "prices") => {
            known.extend(published_models().map(|entry| Candidate::new(entry.model, entry.provider)));
        }
        _ => {}
    }
    ExpectedWord { candidates: known, lookup, prefix, ..ExpectedWord::default() }
}

/// Returns the models of the price list, each name once.
fn published_models() -> impl Iterator<Item = PublishedPrice> {
    let mut names = BTreeSet::new();
    backends::prices::published(clock::now().into())
        .into_iter()
        .filter(move |entry| names.insert(entry.model))
}

async fn lookup_candidates(app: &EngineHandle, lookup: Lookup, directory: Option<String>) -> Vec<Candidate> {
    match lookup {
        Lookup::Agents => {
            let Ok(list) = app.ask(ListAgents { directory }).await else { return Vec::new() };
            list.agents.iter().map(|agent| Candidate::new(&agent.name, &agent.description)).collect()
        }
        Lookup::Backends => {
            let built_in = backends::registry::built_in().into_iter().map(str::to_owned);
            let own = app.config().backends.keys().map(ToString::to_string);
            built_in.chain(own).map(|name| Candidate::new(name, "")).collect()
        }
        Lookup::Sessions => {
            let mut sessions: Vec<Candidate> = Vec::new();
            for run in runs(app, directory).await {
                let Some(id) = find_session(app, &run).await else { continue };
                if !sessions.iter().any(|known| known.value == id) {
                    sessions.push(Candidate::new(id, &format!("{}: {}", run.agent, run.prompt)));
                }
            }
            sessions
        }
        Lookup::Runs(choice) => {
            let runs = runs(app, directory).await.into_iter().filter(|run| choice.fits(run));
            let help = |run: &RunSummary| format!("{} {}: {}", run.agent, run.status, run.prompt);
            runs.map(|run| Candidate::new(&run.short_id, &help(&run))).collect()
        }
    }
}

/// Returns the session of a run. Lists lack the sessions of backends that store none, which start with the run's own id.
async fn find_session(app: &EngineHandle, run: &RunSummary) -> Option<String> {
    if run.session.is_some() {
        return run.session.clone();
    }
    let request = GetRun {
        run: run.run_id.to_string(),
        result_offset: 0,
        result_max: 0,
        events_from: None,
        events_max: 0,
    };
    app.ask(request).await.ok()?.run.session
}

async fn runs(app: &EngineHandle, directory: Option<String>) -> Vec<RunSummary> {
    let request = ListRuns { directory, limit: RUNS_MAX, ..ListRuns::default() };
    app.ask(request).await.map(|list| list.runs).unwrap_or_default()
}
