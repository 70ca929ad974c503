//! From the command line to an exit code.

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind as ParseErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::output::{Out, OutputFormat};
use super::{
    agents, answer, approve, cancel, clean, complete, completions, config, demo, deny, doctor, health, help,
    import, init, logs, prices, ps, reindex, resume, run, serve, serve_budgie_flags, show, token, trust,
    wait,
};
use crate::report::{one_line, sanitize_for_terminal};
use engine::EngineError;

/// Enough concurrent file operations to share flushes of the disk well; each thread costs a stack.
const BLOCKING_THREADS_MAX: usize = 16;

/// Columns of help at most.
const HELP_WIDTH_MAX: usize = 100;

const START_PAGE: &str = include_str!("start_page.txt");

/// Run agents of any vendor, and never lose an answer.
///
/// A run does not depend on the program that started it: volery records the run
/// on disk before it returns the run's id, and you can fetch the result by that
/// id later, from any client.
///
/// Data goes to standard output, everything else to standard error. Exit codes:
/// 0 success, 1 the run failed, 2 usage, 3 denied by policy, 4 limit reached,
/// 5 not found, 70 a bug in volery, 130 interrupted or cancelled. A partial
/// result exits with the code of its cause, never with 0.
#[derive(Debug, Parser)]
#[command(
    name = "volery",
    version,
    verbatim_doc_comment,
    disable_help_subcommand = true,
    infer_long_args = false
)]
pub(crate) struct Cli {
    /// Print one JSON document on standard output, errors included
    #[arg(long, global = true, display_order = 900)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Every command. Each variant is explained by the arguments it holds.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
    Ps(ps::Args),
    Show(show::Args),
    Logs(logs::Args),
    Wait(wait::Args),
    Cancel(cancel::Args),
    Resume(resume::Args),
    Approve(approve::Args),
    Deny(deny::Args),
    Answer(answer::Args),
    Agents(agents::Args),
    Health(health::Args),
    Prices(prices::Args),
    Config(config::Args),
    Doctor(doctor::Args),
    Init(init::Args),
    Import(import::Args),
    Trust(trust::Args),
    Clean(clean::Args),
    Reindex(reindex::Args),
    Demo(demo::Args),
    Serve(serve::Args),
    Token(token::Args),
    Completions(completions::Args),
    Help(help::Args),
    #[command(name = "__complete", hide = true)]
    Complete(complete::Args),
}

/// Runs the program with its arguments, the first of which is its own name.
pub(crate) fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let format = requested_format(&args);
    // The panic hook has printed the location; only the exit code is left to set.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut out = Out::for_process(format);
        parse_and_run(args, &mut out)
    }));
    ExitCode::from(outcome.unwrap_or_else(|_| report_panic(format)).code())
}

/// Parses and runs one command line.
pub(crate) fn parse_and_run(args: Vec<OsString>, out: &mut Out) -> Exit {
    let done = match parse(serve_budgie_flags::normalize_go_flags(args), help_width(out)) {
        Ok(Cli { command: Some(command), .. }) => carry_out(command, out),
        Ok(Cli { command: None, .. }) => print_start_page(out),
        Err(error) => explain_parse(&with_nearest_command(error), out),
    };
    match done.and_then(|exit| out.flush().map(|()| exit)) {
        Ok(exit) => exit,
        Err(CommandError::ReaderGone) => Exit::Done,
        Err(CommandError::App(error)) => {
            out.error(&error);
            Exit::from_error(error.kind)
        }
    }
}

/// Returns the width of help texts: that of the terminal, up to a width that is still easy to read.
fn help_width(out: &Out) -> usize {
    out.style().width.unwrap_or(HELP_WIDTH_MAX).min(HELP_WIDTH_MAX)
}

fn parse(args: Vec<OsString>, width: usize) -> Result<Cli, clap::Error> {
    let matches = Cli::command().term_width(width).try_get_matches_from(args)?;
    Cli::from_arg_matches(&matches)
}

/// Finds the output format in the raw arguments, because it is needed even if they cannot be parsed.
fn requested_format(args: &[OsString]) -> OutputFormat {
    let flags = args.iter().take_while(|arg| *arg != "--");
    if flags.into_iter().any(|arg| arg == "--json") { OutputFormat::Json } else { OutputFormat::Text }
}

fn carry_out(command: Command, out: &mut Out) -> Result<Exit, CommandError> {
    let directory = std::env::current_dir().map_err(|error| {
        EngineError::usage(format!("could not find the working directory: {error}"))
            .hint("change to a directory that exists")
    })?;
    let context = Context { directory };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()
        .map_err(|error| EngineError::internal(format!("could not start the runtime: {error}")))?;
    let exit = runtime.block_on(dispatch(command, &context, out));
    // A thread that still reads standard input must not delay the exit.
    runtime.shutdown_background();
    exit
}

async fn dispatch(command: Command, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    match command {
        Command::Run(args) => run::run(args, context, out).await,
        Command::Ps(args) => ps::run(args, context, out).await,
        Command::Show(args) => show::run(args, context, out).await,
        Command::Logs(args) => logs::run(args, context, out).await,
        Command::Wait(args) => wait::run(args, context, out).await,
        Command::Cancel(args) => cancel::run(args, context, out).await,
        Command::Resume(args) => resume::run(args, context, out).await,
        Command::Approve(args) => approve::run(args, context, out).await,
        Command::Deny(args) => deny::run(args, context, out).await,
        Command::Answer(args) => answer::run(args, context, out).await,
        Command::Agents(args) => agents::run(args, context, out).await,
        Command::Health(args) => health::run(args, context, out).await,
        Command::Prices(args) => prices::run(args, context, out),
        Command::Config(args) => config::run(args, context, out),
        Command::Doctor(args) => doctor::run(args, context, out).await,
        Command::Init(args) => init::run(args, context, out),
        Command::Import(args) => import::run(args, context, out),
        Command::Trust(args) => trust::run(args, context, out).await,
        Command::Clean(args) => clean::run(args, context, out).await,
        Command::Reindex(args) => reindex::run(args, context, out).await,
        Command::Demo(args) => demo::run(args, out).await,
        Command::Serve(args) => serve::run(args, context, out).await,
        Command::Token(args) => token::run(args, context, out).await,
        Command::Completions(args) => completions::run(args, &mut Cli::command(), out),
        Command::Help(args) => help::run(args, Cli::command().term_width(help_width(out)), out),
        Command::Complete(args) => complete::run(args, Cli::command(), context, out).await,
    }
}

fn print_start_page(out: &mut Out) -> Result<Exit, CommandError> {
    match out.format() {
        OutputFormat::Text => out.page(START_PAGE)?,
        OutputFormat::Json => {
            let version = env!("CARGO_PKG_VERSION");
            out.json(&serde_json::json!({ "name": "volery", "version": version }))?;
        }
    }
    Ok(Exit::Done)
}

/// Adds the most similar command to an error about an unknown command. The parser itself does not find swapped letters.
fn with_nearest_command(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return error;
    }
    let cli = Cli::command();
    let names = cli.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
    if let Some(near) = domain::nearest::nearest(typed, names) {
        let suggestion = ContextValue::Strings(vec![near.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, suggestion);
    }
    error
}

fn explain_parse(error: &clap::Error, out: &mut Out) -> Result<Exit, CommandError> {
    let text = format!("{}\n", error.render().to_string().trim_end());
    match (error.kind(), out.format()) {
        (ParseErrorKind::DisplayHelp | ParseErrorKind::DisplayVersion, OutputFormat::Text) => {
            out.page(&text)?;
            Ok(Exit::Done)
        }
        (ParseErrorKind::DisplayHelp | ParseErrorKind::DisplayVersion, OutputFormat::Json) => {
            out.json(&serde_json::json!({ "text": text }))?;
            Ok(Exit::Done)
        }
        (_, OutputFormat::Text) => {
            out.notes_page(&sanitize_for_terminal(&text));
            Ok(Exit::Usage)
        }
        (_, OutputFormat::Json) => {
            let text = text.trim().trim_start_matches("error: ");
            let (message, advice) = text.split_once("\n\n").unwrap_or((text, ""));
            Err(CommandError::App(EngineError::usage(message).hint(one_line(advice))))
        }
    }
}

fn report_panic(format: OutputFormat) -> Exit {
    let error = EngineError::internal("a defect in volery ended this command")
        .hint("runs that were started go on: `volery ps` lists them; please report the lines above");
    Out::for_process(format).error(&error);
    Exit::Bug
}
