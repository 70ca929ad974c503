//! `volery trust`: allows a project's files to name programs to run.

use std::io::{BufRead, IsTerminal, stderr, stdin};
use std::path::PathBuf;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::output::{Out, OutputFormat};
use crate::report;
use engine::{EngineError, EngineHandle, TrustState, TrustView};

/// Allow a project's files to start programs
///
/// The files of a repository can name programs that volery would execute. It
/// executes none of them until you trust the project, and asks again if they
/// change. Before it asks, the command prints every program with its file, its
/// line and the reason for its execution; with --yes too. With --json, but
/// without --yes or a terminal, it only prints that list and trusts nothing.
///
/// Examples:
///   volery trust
///   volery trust ~/src/api --yes
///   volery trust --list
///   volery trust --revoke ~/src/api
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The project [default: the project of the working directory]
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,

    /// List all trusted projects
    #[arg(long, conflicts_with_all = ["dir", "revoke", "yes"])]
    pub(crate) list: bool,

    /// Revoke trust in the project
    #[arg(long, conflicts_with = "yes")]
    pub(crate) revoke: bool,

    /// Trust the project without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let directory = context.absolute(args.dir.as_ref())?;
    let app = context.open()?;
    match (args.list, args.revoke) {
        (true, _) => list(&app, out).await,
        (false, true) => {
            let view = app.ask(engine::RevokeTrust { directory }).await?;
            print_state(&view, "is no longer trusted", out)
        }
        (false, false) => grant_trust(&app, directory, args.yes, out).await,
    }
}

async fn list(app: &EngineHandle, out: &mut Out) -> Result<Exit, CommandError> {
    let list = app.ask(engine::ListTrust).await?;
    match out.format() {
        OutputFormat::Json => out.json(&list)?,
        OutputFormat::Text if list.projects.is_empty() => out.note("no project is trusted"),
        OutputFormat::Text => {
            let table = report::trust_list(&list, &out.style());
            out.page(&table)?;
        }
    }
    Ok(Exit::Done)
}

async fn grant_trust(
    app: &EngineHandle,
    directory: Option<String>,
    yes: bool,
    out: &mut Out,
) -> Result<Exit, CommandError> {
    let view = app.ask(engine::ShowTrust { directory: directory.clone() }).await?;
    match view.state {
        TrustState::NothingToTrust => {
            return print_state(&view, "starts no programs, so there is nothing to trust", out);
        }
        TrustState::Trusted => return print_state(&view, "is already trusted", out),
        TrustState::Untrusted | TrustState::Changed => {}
    }
    if !yes && out.format() == OutputFormat::Json && !stdin().is_terminal() {
        return print_unconfirmed(&view, out);
    }
    // Also with --yes, so that a log shows what was trusted.
    if out.format() == OutputFormat::Text || !yes {
        let page = report::trust_page(&view, &out.notes_style());
        out.notes_page(&page);
    }
    if !yes {
        confirm(out)?;
    }
    // Trusts exactly what was shown: a file that changed meanwhile has another fingerprint.
    let view = app.ask(engine::TrustProject { directory, fingerprint: view.fingerprint }).await?;
    print_state(&view, "is trusted", out)
}

/// On a terminal, asks to trust the project if it is not trusted yet. Returns whether the user agreed.
pub(crate) async fn offer_trust(
    app: &EngineHandle,
    directory: Option<String>,
    out: &mut Out,
) -> Result<bool, CommandError> {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return Ok(false);
    }
    let view = app.ask(engine::ShowTrust { directory: directory.clone() }).await?;
    match view.state {
        TrustState::NothingToTrust | TrustState::Trusted => return Ok(false),
        TrustState::Untrusted | TrustState::Changed => {}
    }
    let page = report::trust_page(&view, &out.notes_style());
    out.notes_page(&page);
    confirm(out)?;
    app.ask(engine::TrustProject { directory, fingerprint: view.fingerprint }).await?;
    Ok(true)
}

/// Prints the items that need trust as JSON, so that a program can read them before somebody agrees.
fn print_unconfirmed(view: &TrustView, out: &mut Out) -> Result<Exit, CommandError> {
    let error = EngineError::denied("the project is not trusted, and nobody can confirm it here");
    let error = error.hint("read the items, then run volery trust --yes");
    let mut document = serde_json::json!(view);
    document["error"] = serde_json::json!(error);
    out.json(&document)?;
    Ok(Exit::Denied)
}

fn confirm(out: &mut Out) -> Result<(), CommandError> {
    if !stdin().is_terminal() {
        let error = EngineError::denied("the project is not trusted, and nobody can confirm it here");
        return Err(error.hint("look at the list above, then say volery trust --yes").into());
    }
    out.notes_page("\ntrust it? [y/N] ");
    let mut answer = String::new();
    let read = stdin().lock().read_line(&mut answer);
    let confirmed = read.is_ok() && is_yes(&answer);
    if confirmed { Ok(()) } else { Err(EngineError::denied("not trusted, as you said").into()) }
}

/// Returns whether an answer means yes. Anything unclear means no.
pub(crate) fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

fn print_state(view: &TrustView, what: &str, out: &mut Out) -> Result<Exit, CommandError> {
    match out.format() {
        OutputFormat::Json => out.json(view)?,
        OutputFormat::Text => out.line(&format!("{} {what}", out.style().short_path(&view.project, None)))?,
    }
    Ok(Exit::Done)
}
