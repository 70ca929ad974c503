//! `volery __complete`: the words that may come next on a command line. The scripts of `volery completions` ask it, so
//! that a shell offers the agents and runs of the moment.
//!
//! It prints nothing where it knows nothing, and never an error: a person who presses Tab has not asked for one.

use clap::{Arg, ArgAction, ValueEnum};

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::out::Out;
use crate::app::{App, ListAgents, ListRuns, RunLine};
use crate::report::one_line;

/// Runs offered at most, the newest.
const RUNS_MAX: usize = 50;
/// Characters of an explanation; a shell shows it in the same line.
const HELP_MAX: usize = 60;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    pub(crate) shell: Dialect,

    /// The words after the program's name, up to the one that is being typed, which may be empty
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

/// How a shell wants to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dialect {
    Bash,
    Zsh,
    Fish,
}

/// A word that may come next.
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

/// What the word that is being typed may be.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// What the definition of the command line knows.
    pub(crate) known: Vec<Candidate>,
    /// What must be looked up.
    pub(crate) lookup: Option<Lookup>,
    /// What every candidate begins with: `--option=`.
    pub(crate) prefix: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    Agents,
    Backends,
    Sessions,
    Runs(RunChoice),
}

/// Which runs make sense for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunChoice {
    All,
    NotEnded,
    Waiting,
    Interrupted,
}

impl RunChoice {
    fn fits(self, run: &RunLine) -> bool {
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
    let mut candidates = expected.known;
    if let (Some(lookup), Ok(app)) = (expected.lookup, context.open()) {
        candidates.extend(look_up(&app, lookup).await);
    }
    for Candidate { value, help } in candidates {
        let value = format!("{}{value}", expected.prefix);
        if value.starts_with(typed) && !value.contains(char::is_control) {
            out.page(&line(args.shell, &value, &help))?;
        }
    }
    Ok(Exit::Done)
}

fn line(shell: Dialect, value: &str, help: &str) -> String {
    match shell {
        Dialect::Bash => format!("{value}\n"),
        Dialect::Fish => format!("{value}\t{help}\n"),
        // `_describe` splits at the first colon that has no backslash.
        Dialect::Zsh => format!("{}:{help}\n", value.replace('\\', "\\\\").replace(':', "\\:")),
    }
}

/// Returns what the last of these words may be.
pub(crate) fn expected(mut root: clap::Command, words: &[String]) -> Expected {
    root.build();
    let Some((typed, before)) = words.split_last() else { return Expected::default() };
    let mut command = &root;
    let mut positionals = 0;
    let (mut option, mut only_positionals, mut helping) = (None, false, false);
    for word in before {
        if option.take().is_some() {
            continue;
        }
        match word.as_str() {
            "--" if !only_positionals => only_positionals = true,
            word if !only_positionals && word.len() > 1 && word.starts_with('-') => {
                option = option_without_value(command, word);
            }
            "help" if command.get_name() == root.get_name() => helping = true,
            word => match command.find_subcommand(word).filter(|_| positionals == 0) {
                Some(child) => command = child,
                None => positionals += 1,
            },
        }
    }
    if let Some(option) = option {
        return values(command, option, String::new());
    }
    if let Some((name, _)) = typed.split_once('=').filter(|_| !only_positionals && typed.starts_with("--")) {
        let option = command.get_arguments().find(|arg| arg.get_long() == name.strip_prefix("--"));
        return option.map_or_else(Expected::default, |option| values(command, option, format!("{name}=")));
    }
    if typed.starts_with('-') && !only_positionals {
        return Expected { known: options(command), ..Expected::default() };
    }
    let mut found = positional(command, positionals).filter(|_| !helping);
    let mut expected = found.take().map_or_else(Expected::default, |arg| values(command, arg, String::new()));
    if positionals == 0 {
        let children = command.get_subcommands().filter(|child| !child.is_hide_set());
        expected.known.extend(children.map(|child| {
            Candidate::new(child.get_name(), &child.get_about().map(ToString::to_string).unwrap_or_default())
        }));
    }
    expected
}

/// Returns the option of a word whose value is the next word.
fn option_without_value<'a>(command: &'a clap::Command, word: &str) -> Option<&'a Arg> {
    let found = match word.strip_prefix("--") {
        Some(long) => command.get_arguments().find(|arg| arg.get_long() == Some(long)),
        // Of several letters together only the last can take its value from the next word.
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

/// Returns the argument at a place; the last one if that may be repeated.
fn positional(command: &clap::Command, place: usize) -> Option<&Arg> {
    let repeated = |arg: &&Arg| matches!(arg.get_action(), ArgAction::Append);
    command.get_positionals().nth(place).or_else(|| command.get_positionals().last().filter(repeated))
}

fn values(command: &clap::Command, arg: &Arg, prefix: String) -> Expected {
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
    Expected { known: known.collect(), lookup, prefix }
}

async fn look_up(app: &App, lookup: Lookup) -> Vec<Candidate> {
    match lookup {
        Lookup::Agents => {
            let Ok(list) = app.list_agents(ListAgents::default()).await else { return Vec::new() };
            list.agents.iter().map(|agent| Candidate::new(&agent.name, &agent.description)).collect()
        }
        Lookup::Backends => {
            let built_in = backend::registry::built_in().into_iter().map(str::to_owned);
            let own = app.config().backends.keys().map(ToString::to_string);
            built_in.chain(own).map(|name| Candidate::new(name, "")).collect()
        }
        Lookup::Sessions => {
            let mut sessions: Vec<Candidate> = Vec::new();
            for run in runs(app).await {
                if let Some(id) = &run.session
                    && !sessions.iter().any(|known| known.value == *id)
                {
                    sessions.push(Candidate::new(id, &format!("{}: {}", run.agent, run.prompt)));
                }
            }
            sessions
        }
        Lookup::Runs(choice) => {
            let runs = runs(app).await.into_iter().filter(|run| choice.fits(run));
            let help = |run: &RunLine| format!("{} {}: {}", run.agent, run.status, run.prompt);
            runs.map(|run| Candidate::new(&run.short_id, &help(&run))).collect()
        }
    }
}

async fn runs(app: &App) -> Vec<RunLine> {
    let ask = ListRuns { limit: RUNS_MAX, ..ListRuns::default() };
    app.list_runs(ask).await.map(|list| list.runs).unwrap_or_default()
}
