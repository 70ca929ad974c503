//! `volery init`: adds this server to MCP clients, and takes it out again.

mod bans;
mod client;
mod clients;
mod edit;
mod file;
mod json_text;
mod json_tree;
mod masked;
mod merge;
mod other;
mod record;
mod report;
mod server;
mod set_up;
mod toml_text;
mod yaml_text;

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
use crate::env;

pub(super) use client::{CLIENTS, Scope, Server, Surroundings, Wish};
use client::{Client, named};
pub(super) use edit::{Entry, Syntax};
pub(super) use file::find;
use other::Paste;
pub(super) use record::Records;
pub(super) use report::{any_left_alone, any_written, tell_files};
pub(super) use server::{about_machine_paths, command};
pub(super) use set_up::{FileReport, Order, Purpose, State, set_up, take_back};

/// Add volery to MCP clients
///
/// Writes all that a client needs to call volery's tools: the server itself, that
/// it may start, that its tools need no approval, and a time-out that fits. The
/// rest of its files stays as it is, comments included; a copy of each is kept
/// beside it, and --undo takes out what was added. Approval of the tools is not
/// that of what agents do: that is for each agent's own permission.
///
/// Without --client: those that are found here, asked about on a terminal and
/// only listed elsewhere. With --client other: the text to paste into any other
/// client; nothing is written.
///
/// Examples:
///   volery init
///   volery init --client claude --client codex
///   volery init --client claude --user --dry-run
///   volery init --client cursor --dialect sub-agents-mcp
///   volery init --client other
///   volery init --undo
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Which client; several if given several times
    #[arg(long = "client", value_name = "NAME", value_parser = client_parser())]
    clients: Vec<Choice>,

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

/// What `--client` names.
#[derive(Debug, Clone, Copy)]
enum Choice {
    Known(&'static Client),
    Other,
}

fn client_parser() -> impl TypedValueParser<Value = Choice> {
    let names = CLIENTS.map(|client| client.name).into_iter().chain([other::NAME]);
    PossibleValuesParser::new(names).map(|name| named(&name).map_or(Choice::Other, Choice::Known))
}

/// What `--json` prints.
#[derive(Debug, Default, Serialize)]
struct Report {
    /// None where the user's configuration is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<PathBuf>,
    scope: Scope,
    /// The clients that seem to be used here, where none was named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    found: Vec<&'static str>,
    files: Vec<FileReport>,
    /// For a client that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    paste: Option<Paste>,
    /// What keeps clients, or those of others, from using the server.
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
    let server = server::server(&dialects, scope)?;
    let asked_for = (!user).then(|| project.clone());
    let mut report = Report { project: asked_for.clone(), scope, ..Report::default() };
    let order = Order { project: &project, asked_for, records: &records, dry_run, purpose: Purpose::SetUp };
    if clients.iter().any(|client| matches!(client, Choice::Other)) && !undo {
        report.paste = Some(Paste::of(&server));
    }
    let known = clients.iter().filter_map(|client| match client {
        Choice::Known(client) => Some(*client),
        Choice::Other => None,
    });
    let chosen: Vec<&'static Client> = if !clients.is_empty() {
        known.collect()
    } else if undo {
        set_up_before(&surroundings, scope, &server, &order)
    } else {
        let found = find_clients(&surroundings);
        report.found = found.iter().map(|client| client.name).collect();
        let (fitting, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|client| client.fits(scope));
        let names: Vec<&str> = fitting.iter().map(|client| client.name).collect();
        let agreed = dry_run || (out.format() == Format::Text && agree(&names, out));
        report.notes.extend(others.iter().map(|client| client.only_for_users()));
        if agreed { fitting } else { Vec::new() }
    };
    if !dry_run && !chosen.is_empty() {
        // Made and checked as for a run, since what is recorded stands in it.
        journal::Home::open(&state).map_err(|error| AppError::usage(error.to_string()))?;
    }
    let task = Task { surroundings: &surroundings, scope, server: &server, order: &order };
    if undo {
        for client in chosen {
            let wishes = (client.wishes)(&surroundings, scope, &server);
            report.files.extend(take_back(client.name, &wishes, &order));
        }
    } else {
        task.set_up_all(&chosen, &dialects, &mut report);
    }
    tell(&report, &project, undo, out)
}

/// What has to be done for clients.
struct Task<'a> {
    surroundings: &'a Surroundings,
    scope: Scope,
    server: &'a Server,
    order: &'a Order<'a>,
}

impl Task<'_> {
    fn set_up_all(&self, chosen: &[&'static Client], dialects: &[DialectName], report: &mut Report) {
        let old = import::left_beside(self.surroundings, self.scope, dialects);
        let mut shared = Vec::new();
        for client in chosen {
            let wishes = (client.wishes)(self.surroundings, self.scope, self.server);
            if !client.fits(self.scope) {
                report.files.extend(wishes.iter().map(|wish| for_every_project(client, &wish.path)));
                continue;
            }
            report.warnings.extend(bans::bans(client, self.surroundings, self.scope, self.server));
            let files = set_up(client.name, &wishes, self.order);
            let changed = |state| matches!(state, State::Written | State::WouldChange);
            let of_others =
                wishes.iter().zip(&files).filter(|(wish, file)| wish.shared && changed(file.state));
            shared.extend(of_others.map(|(wish, _)| wish.path.clone()));
            report.files.extend(files);
            report.notes.extend(client.notes(self.scope));
            let beside = old.iter().filter(|(of, _)| *of == client.name);
            report.notes.extend(beside.map(|(_, what)| what.clone()));
        }
        let shared: Vec<&Path> = shared.iter().map(PathBuf::as_path).collect();
        let variables: Vec<&str> = self.server.env.iter().map(|(name, _)| name.as_str()).collect();
        report.warnings.extend(about_machine_paths(&shared, &self.server.command, &variables));
    }
}

/// Says that a client has no configuration for a project. The user's file, which counts everywhere, is not written
/// without being asked for.
fn for_every_project(client: &Client, path: &Path) -> FileReport {
    FileReport {
        client: client.name.to_owned(),
        path: path.to_owned(),
        state: State::LeftAlone,
        diff: String::new(),
        backup: None,
        problem: Some(client.only_for_users()),
        paste: None,
    }
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

fn fits(name: &str, scope: Scope) -> bool {
    named(name).is_some_and(|client| client.fits(scope))
}

/// On a terminal, asks whether the clients that were found shall be set up.
fn agree(found: &[&str], out: &mut Out) -> bool {
    if found.is_empty() || !stdin().is_terminal() || !stderr().is_terminal() {
        return false;
    }
    out.notes_page(&format!("add volery to {}? [y/N] ", found.join(", ")));
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer).is_ok() && super::trust::is_yes(&answer)
}

fn tell(report: &Report, project: &Path, undo: bool, out: &mut Out) -> Result<Exit, CommandError> {
    let exit = if any_left_alone(&report.files) { Exit::RunFailed } else { Exit::Done };
    match out.format() {
        Format::Json => out.json(report)?,
        Format::Text => tell_people(report, project, undo, out)?,
    }
    Ok(exit)
}

fn tell_people(report: &Report, project: &Path, undo: bool, out: &mut Out) -> Result<(), CommandError> {
    tell_files(&report.files, project, out)?;
    if let Some(paste) = &report.paste {
        out.note("most clients take this text in their file of MCP servers:");
        out.page(&crate::report::neutralise(&paste.page()))?;
    }
    for warning in &report.warnings {
        out.warning(warning);
    }
    for note in &report.notes {
        out.note(note);
    }
    let nothing = report.files.is_empty() && report.paste.is_none();
    match report.found.as_slice() {
        _ if !nothing => {}
        _ if undo => {
            let whose = if report.scope == Scope::User { "for the user" } else { "for this project" };
            out.note(&format!("nothing was added {whose}"));
        }
        [] => {
            out.note("no client was found here");
            out.hint("name one: volery init --client claude");
            out.hint("any other client: volery init --client other");
        }
        found => {
            for name in found {
                out.line(name)?;
            }
            let fitting: Vec<&str> = found.iter().copied().filter(|name| fits(name, report.scope)).collect();
            if !fitting.is_empty() {
                let user = if report.scope == Scope::User { " --user" } else { "" };
                out.hint(&format!("volery init{user} --client {}", fitting.join(" --client ")));
            }
            out.hint("any other client: volery init --client other");
        }
    }
    if any_written(&report.files) {
        let user = if report.scope == Scope::User { " --user" } else { "" };
        out.hint(&format!(
            "clients that run already have to be started anew; volery init --undo{user} takes it back"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
