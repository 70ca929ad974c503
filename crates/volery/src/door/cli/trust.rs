//! `volery trust`: lets a project's files name programs to run.

use std::io::{BufRead, IsTerminal, stderr, stdin};
use std::path::PathBuf;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::out::{Format, Out};
use crate::app::{App, AppError, TrustState, TrustView};
use crate::report;

/// Let a project's files name programs to run
///
/// Text from a repository is harmless, programs it names are not. Whatever a
/// project's files would execute needs your word once, and again when it
/// changes. You see each command, its file and line, and why it would be
/// executed, before you are asked; with --yes too. With --json and nobody to
/// ask, the same list is the answer, and nothing is trusted.
///
/// Examples:
///   volery trust
///   volery trust ~/src/api --yes
///   volery trust --list
///   volery trust --revoke ~/src/api
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The project [default: that of the working directory]
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,

    /// List every project that was trusted
    #[arg(long, conflicts_with_all = ["dir", "revoke", "yes"])]
    pub(crate) list: bool,

    /// Take the word back
    #[arg(long, conflicts_with = "yes")]
    pub(crate) revoke: bool,

    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let directory = context.absolute(args.dir.as_ref())?;
    let app = context.open()?;
    match (args.list, args.revoke) {
        (true, _) => list(&app, out).await,
        (false, true) => {
            let view = app.revoke_trust(directory).await?;
            tell(&view, "is not trusted any more", out)
        }
        (false, false) => give(&app, directory, args.yes, out).await,
    }
}

async fn list(app: &App, out: &mut Out) -> Result<Exit, CommandError> {
    let list = app.list_trust().await?;
    match out.format() {
        Format::Json => out.json(&list)?,
        Format::Text if list.projects.is_empty() => out.note("no project was trusted"),
        Format::Text => {
            let table = report::trust_list(&list, &out.look());
            out.page(&table)?;
        }
    }
    Ok(Exit::Done)
}

async fn give(app: &App, directory: Option<String>, yes: bool, out: &mut Out) -> Result<Exit, CommandError> {
    let view = app.trust_status(directory.clone()).await?;
    match view.state {
        TrustState::NothingToTrust => {
            return tell(&view, "executes nothing, so there is nothing to trust", out);
        }
        TrustState::Trusted => return tell(&view, "is trusted already", out),
        TrustState::Untrusted | TrustState::Changed => {}
    }
    if !yes && out.format() == Format::Json && !stdin().is_terminal() {
        return show_only(&view, out);
    }
    // Also for those who have agreed already: so a log shows what was trusted.
    if out.format() == Format::Text || !yes {
        let page = report::trust_page(&view, &out.notes_look());
        out.notes_page(&page);
    }
    if !yes {
        agree(out)?;
    }
    // What was shown is what is trusted: a file that changed meanwhile has another fingerprint.
    let view = app.trust(directory, view.fingerprint).await?;
    tell(&view, "is trusted", out)
}

/// On a terminal, asks whether the project is trusted if that is what stands in the way. Tells whether it is now.
pub(crate) async fn offer(app: &App, directory: Option<String>, out: &mut Out) -> Result<bool, CommandError> {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return Ok(false);
    }
    let view = app.trust_status(directory.clone()).await?;
    match view.state {
        TrustState::NothingToTrust | TrustState::Trusted => return Ok(false),
        TrustState::Untrusted | TrustState::Changed => {}
    }
    let page = report::trust_page(&view, &out.notes_look());
    out.notes_page(&page);
    agree(out)?;
    app.trust(directory, view.fingerprint).await?;
    Ok(true)
}

/// Writes what would be trusted as the JSON document, so that a program can read it before somebody agrees.
fn show_only(view: &TrustView, out: &mut Out) -> Result<Exit, CommandError> {
    let error = AppError::denied("a project is not trusted without somebody who agrees");
    let error = error.hint("read the items, then run volery trust --yes");
    let mut document = serde_json::json!(view);
    document["error"] = serde_json::json!(error);
    out.json(&document)?;
    Ok(Exit::Denied)
}

fn agree(out: &mut Out) -> Result<(), CommandError> {
    if !stdin().is_terminal() {
        let error = AppError::denied("a project is not trusted without somebody who agrees");
        return Err(error.hint("look at the list above, then say volery trust --yes").into());
    }
    out.notes_page("\ntrust it? [y/N] ");
    let mut answer = String::new();
    let read = stdin().lock().read_line(&mut answer);
    let agreed = read.is_ok() && is_yes(&answer);
    if agreed { Ok(()) } else { Err(AppError::denied("not trusted, as you said").into()) }
}

/// Tells whether an answer means yes. Anything that is not plainly yes is no.
pub(crate) fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

fn tell(view: &TrustView, what: &str, out: &mut Out) -> Result<Exit, CommandError> {
    match out.format() {
        Format::Json => out.json(view)?,
        Format::Text => out.line(&format!("{} {what}", out.look().short_path(&view.project, None)))?,
    }
    Ok(Exit::Done)
}
