//! From the command line to an exit code.

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::error::ErrorKind as ParseErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::out::{Format, Out};
use super::{
    agents, answer, approve, cancel, clean, complete, completions, config, demo, deny, doctor, health, help,
    import, init, logs, ps, reindex, resume, run, serve, serve_budgie, show, token, trust, wait,
};
use crate::app::AppError;
use crate::report::{neutralise, one_line};

/// As many starts and looks at the disk at once as share its flushes well; each costs a stack.
const BLOCKING_THREADS_MAX: usize = 16;

/// Columns of help at most.
const HELP_WIDTH_MAX: usize = 100;

const START_PAGE: &str = include_str!("start_page.txt");

/// Run agents of any vendor, and never lose an answer.
///
/// A run is independent of who asked for it: its record is on disk before you
/// hear of it, and its result can be fetched by id from anywhere, later.
///
/// Data goes to standard output, everything else to standard error. Exit codes:
/// 0 done, 1 the run failed, 2 usage, 3 denied by policy, 4 limit reached,
/// 5 not found, 70 a defect in volery, 130 interrupted or cancelled. A partial
/// result has the code of what cut it short, never 0.
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
    let format = asked_format(&args);
    // A panic has told its place on standard error already; what is left is to end with the code for a defect.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut out = Out::for_process(format);
        parse_and_run(args, &mut out)
    }));
    ExitCode::from(outcome.unwrap_or_else(|_| report_panic(format)).code())
}

/// Parses and carries out one command line.
pub(crate) fn parse_and_run(args: Vec<OsString>, out: &mut Out) -> Exit {
    let done = match parse(serve_budgie::from_go(args), help_width(out)) {
        Ok(Cli { command: Some(command), .. }) => carry_out(command, out),
        Ok(Cli { command: None, .. }) => print_start_page(out),
        Err(error) => explain_parse(&error, out),
    };
    match done.and_then(|exit| out.flush().map(|()| exit)) {
        Ok(exit) => exit,
        Err(CommandError::ReaderGone) => Exit::Done,
        Err(CommandError::App(error)) => {
            out.error(&error);
            Exit::of_error(error.kind)
        }
    }
}

/// Help is as wide as the terminal, up to a width that is still easy to read.
fn help_width(out: &Out) -> usize {
    out.look().width.unwrap_or(HELP_WIDTH_MAX).min(HELP_WIDTH_MAX)
}

fn parse(args: Vec<OsString>, width: usize) -> Result<Cli, clap::Error> {
    let matches = Cli::command().term_width(width).try_get_matches_from(args)?;
    Cli::from_arg_matches(&matches)
}

/// Tells from the bare words how errors are to be written, since a command line that cannot be parsed has no flags.
fn asked_format(args: &[OsString]) -> Format {
    let flags = args.iter().take_while(|arg| *arg != "--");
    if flags.into_iter().any(|arg| arg == "--json") { Format::Json } else { Format::Text }
}

fn carry_out(command: Command, out: &mut Out) -> Result<Exit, CommandError> {
    let directory = std::env::current_dir().map_err(|error| {
        AppError::usage(format!("could not find the working directory: {error}"))
            .hint("change to a directory that exists")
    })?;
    let context = Context { directory };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()
        .map_err(|error| AppError::internal(format!("could not start the runtime: {error}")))?;
    let exit = runtime.block_on(dispatch(command, &context, out));
    // A thread that still reads standard input must not hold the program up.
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
        Format::Text => out.page(START_PAGE)?,
        Format::Json => {
            let version = env!("CARGO_PKG_VERSION");
            out.json(&serde_json::json!({ "name": "volery", "version": version }))?;
        }
    }
    Ok(Exit::Done)
}

fn explain_parse(error: &clap::Error, out: &mut Out) -> Result<Exit, CommandError> {
    let text = format!("{}\n", error.render().to_string().trim_end());
    match (error.kind(), out.format()) {
        (ParseErrorKind::DisplayHelp | ParseErrorKind::DisplayVersion, Format::Text) => {
            out.page(&text)?;
            Ok(Exit::Done)
        }
        (ParseErrorKind::DisplayHelp | ParseErrorKind::DisplayVersion, Format::Json) => {
            out.json(&serde_json::json!({ "text": text }))?;
            Ok(Exit::Done)
        }
        (_, Format::Text) => {
            out.notes_page(&neutralise(&text));
            Ok(Exit::Usage)
        }
        (_, Format::Json) => {
            let text = text.trim().trim_start_matches("error: ");
            let (message, advice) = text.split_once("\n\n").unwrap_or((text, ""));
            Err(CommandError::App(AppError::usage(message).hint(one_line(advice))))
        }
    }
}

fn report_panic(format: Format) -> Exit {
    let error = AppError::internal("a defect in volery ended this command")
        .hint("runs that were started go on: `volery ps` lists them; please report the lines above");
    Out::for_process(format).error(&error);
    Exit::Bug
}
