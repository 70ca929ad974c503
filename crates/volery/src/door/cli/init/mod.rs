//! `volery init`: adds this server to MCP clients, and takes it out again.

mod bans;
mod client;
mod clients;
mod edit;
mod file;
mod json_text;
mod json_tree;
mod merge;
mod record;
mod set_up;
mod toml_text;

use std::ffi::OsStr;
use std::io::{BufRead, IsTerminal, stderr, stdin};
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use domain::dialect::DialectName;
use serde::Serialize;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::import;
use super::out::{Format, Out};
use super::serve::dialect_parser;
use crate::app::AppError;
use crate::report::neutralise;
use crate::{env, own_program};

pub(super) use client::{CLIENTS, Scope, Server, Surroundings};
use client::{Client, named};
pub(super) use edit::Syntax;
pub(super) use file::find;

use record::Records;
use set_up::{FileReport, Order, State};

/// Add volery to MCP clients
///
/// Writes all that a client needs to call volery's tools: the server itself, that
/// it may start, that its tools need no approval, and a time-out that fits. The
/// rest of its files stays as it is, comments included; a copy of each is kept
/// beside it, and --undo takes out what was added. Approval of the tools is not
/// that of what agents do: that is for each agent's own permission.
///
/// Without --client: those that are found here, asked about on a terminal and
/// only listed elsewhere.
///
/// Examples:
///   volery init
///   volery init --client claude --client codex
///   volery init --client claude --user --dry-run
///   volery init --client cursor --dialect sub-agents-mcp
///   volery init --undo
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Which client; several if given several times
    #[arg(long = "client", value_name = "NAME", value_parser = client_parser())]
    clients: Vec<&'static Client>,

    /// Which system's tools the server offers; several if given several times
    #[arg(long = "dialect", value_name = "NAME", value_parser = dialect_parser(), conflicts_with = "undo")]
    dialects: Vec<DialectName>,

    /// Change the user's configuration, for every project, and not this project's
    #[arg(long)]
    user: bool,

    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Take out what was added, and nothing else
    #[arg(long)]
    undo: bool,
}

fn client_parser() -> impl TypedValueParser<Value = &'static Client> {
    let names = PossibleValuesParser::new(CLIENTS.map(|client| client.name));
    names.map(|name| named(&name).expect("one of these names"))
}

/// What `--json` prints.
#[derive(Debug, Default, Serialize)]
struct Report {
    project: PathBuf,
    scope: Scope,
    /// The clients that seem to be used here, where none was named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    found: Vec<&'static str>,
    files: Vec<FileReport>,
    /// What keeps clients from using the server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    notes: Vec<String>,
}

pub(crate) fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let Args { clients, dialects, user, dry_run, undo } = args;
    let home = env::home().ok_or_else(|| AppError::usage("HOME names no directory"))?;
    let state = env::state_home().ok_or_else(|| AppError::usage("VOLERY_HOME is not an absolute path"))?;
    let project = PathBuf::from(crate::registry::find_project(&context.directory.to_string_lossy()));
    let surroundings = Surroundings::of_process(project.clone(), home);
    let records = Records::below(&state);
    let scope = if user { Scope::User } else { Scope::Project };
    let server = server(&dialects)?;
    let asked_for = (!user).then(|| project.clone());
    let order = Order { project: &project, asked_for, records: &records, dry_run };
    let mut report = Report { project: project.clone(), scope, ..Report::default() };
    let chosen = if !clients.is_empty() {
        clients
    } else if undo {
        set_up_before(&surroundings, scope, &server, &order)
    } else {
        let found = find_clients(&surroundings);
        report.found = found.iter().map(|client| client.name).collect();
        let agreed = dry_run || (out.format() == Format::Text && agree(&report.found, out));
        if agreed { found } else { Vec::new() }
    };
    if !dry_run && !chosen.is_empty() {
        // Made and checked as for a run, since what is recorded stands in it.
        journal::Home::open(&state).map_err(|error| AppError::usage(error.to_string()))?;
    }
    let old = if undo { Vec::new() } else { import::left_beside(&surroundings, &dialects) };
    for client in chosen {
        let wishes = (client.wishes)(&surroundings, scope, &server);
        if undo {
            report.files.extend(set_up::take_back(client, &wishes, &order));
            continue;
        }
        report.warnings.extend(bans::bans(client, &surroundings, scope, &server));
        report.files.extend(set_up::set_up(client, &wishes, &order));
        report.notes.extend(client.note.map(str::to_owned));
        let beside = old.iter().filter(|(of, _)| *of == client.name);
        report.notes.extend(beside.map(|(_, what)| what.clone()));
    }
    tell(&report, undo, out)
}

/// Returns the clients that have something of ours in their files, as far as this project or user asked for it.
fn set_up_before(
    surroundings: &Surroundings,
    scope: Scope,
    server: &Server,
    order: &Order<'_>,
) -> Vec<&'static Client> {
    let asked_here = |client: &&Client| {
        let wishes = (client.wishes)(surroundings, scope, server);
        wishes.iter().any(|wish| {
            let found = file::find(&wish.path, wish.scope, order.project).ok();
            let record = found.and_then(|found| order.records.of(&found.target));
            record.is_some_and(|record| record.project == order.asked_for)
        })
    };
    CLIENTS.into_iter().filter(asked_here).collect()
}

/// Returns how clients shall start the server: by its name where that finds this very program.
fn server(dialects: &[DialectName]) -> Result<Server, AppError> {
    let own = own_program::path().and_then(std::fs::canonicalize);
    let own = own.ok().filter(|path| !path.starts_with("/proc")).ok_or_else(|| {
        AppError::usage("this program's file has been replaced since it started").hint("run it again")
    })?;
    let named = env::get("PATH").and_then(|path| backend::process::find_program(OsStr::new("volery"), &path));
    let found = named.and_then(|named| std::fs::canonicalize(named).ok()).is_some_and(|found| found == own);
    let command = match (found, own.to_str()) {
        (true, _) => "volery".to_owned(),
        (false, Some(own)) => own.to_owned(),
        (false, None) => {
            return Err(AppError::usage(format!("the path {} is not valid UTF-8", own.display())));
        }
    };
    let dialects = dialects.iter().flat_map(|dialect| ["--dialect".to_owned(), dialect.as_str().to_owned()]);
    let arguments = std::iter::once("serve".to_owned()).chain(dialects).collect();
    Ok(Server { command, arguments, env: own_places() })
}

/// Returns the variables by which the server finds what this program finds, where they are not the usual places.
fn own_places() -> Vec<(String, String)> {
    let moved = |names: [&str; 2]| names.into_iter().any(|name| env::get(name).is_some());
    let state = env::state_home().filter(|_| moved([env::VOLERY_HOME, "XDG_STATE_HOME"]));
    let config = env::config_home().filter(|_| moved([env::VOLERY_CONFIG_HOME, env::XDG_CONFIG_HOME]));
    let places = [(env::VOLERY_HOME, state), (env::VOLERY_CONFIG_HOME, config)];
    let places = places
        .into_iter()
        .filter_map(|(name, path)| Some((name, path?.into_os_string().into_string().ok()?)));
    places.map(|(name, path)| (name.to_owned(), path)).collect()
}

/// Returns the clients that seem to be used: by a program, or by something that they leave behind.
fn find_clients(surroundings: &Surroundings) -> Vec<&'static Client> {
    let path = env::get("PATH").unwrap_or_default();
    let used = |client: &&Client| {
        let program = |name: &&str| backend::process::find_program(OsStr::new(name), &path).is_some();
        let below = |folder: &Path, marks: &[&str]| marks.iter().any(|mark| folder.join(mark).exists());
        client.programs.iter().any(program)
            || below(&surroundings.project, client.marks)
            || below(&surroundings.home, client.home_marks)
    };
    CLIENTS.into_iter().filter(used).collect()
}

/// On a terminal, asks whether the clients that were found shall be set up.
fn agree(found: &[&'static str], out: &mut Out) -> bool {
    if found.is_empty() || !stdin().is_terminal() || !stderr().is_terminal() {
        return false;
    }
    out.notes_page(&format!("add volery to {}? [y/N] ", found.join(", ")));
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer).is_ok() && super::trust::is_yes(&answer)
}

fn tell(report: &Report, undo: bool, out: &mut Out) -> Result<Exit, CommandError> {
    let failed = report.files.iter().any(|file| file.state == State::LeftAlone);
    let exit = if failed { Exit::RunFailed } else { Exit::Done };
    match out.format() {
        Format::Json => out.json(report)?,
        Format::Text => tell_people(report, undo, out)?,
    }
    Ok(exit)
}

fn tell_people(report: &Report, undo: bool, out: &mut Out) -> Result<(), CommandError> {
    for file in &report.files {
        out.page(&neutralise(&file.diff))?;
        out.line(&line(file))?;
        if let Some(backup) = &file.backup {
            out.note(&format!("what it was is kept in {}", backup.display()));
        }
    }
    for warning in &report.warnings {
        out.warning(warning);
    }
    for note in &report.notes {
        out.note(note);
    }
    match (report.files.is_empty(), report.found.as_slice()) {
        (false, _) => {}
        (true, _) if undo => out.note("nothing was added here"),
        (true, []) => {
            out.note("no client was found here");
            out.hint("name one: volery init --client claude");
        }
        (true, found) => {
            for name in found {
                out.line(name)?;
            }
            out.hint(&format!("volery init --client {}", found.join(" --client ")));
        }
    }
    let written = report.files.iter().any(|file| file.state == State::Written);
    if written {
        out.hint("clients that run already have to be started anew; volery init --undo takes it back");
    }
    Ok(())
}

fn line(file: &FileReport) -> String {
    let what = match file.state {
        State::Unchanged => "unchanged",
        State::WouldChange => "would change",
        State::Written => "written",
        State::TakenBack => "as it was without volery",
        State::Removed => "removed",
        State::Gone => "was removed already",
        State::LeftAlone => "left alone",
    };
    let problem = file.problem.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default();
    format!("{}: {} {what}{problem}", file.client, file.path.display())
}

#[cfg(test)]
mod tests;
