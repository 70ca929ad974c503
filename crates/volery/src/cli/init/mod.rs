//! `volery init`: adds this server to MCP clients, and removes it again.

mod blocklist;
mod change_records;
mod config_file;
mod edit;
mod file_changes;
mod file_report;
mod generic_client;
mod json_text;
mod merge;
mod secret_masking;
mod server_command;
mod toml_text;
mod yaml_text;

use std::ffi::OsStr;
use std::io::{BufRead, IsTerminal, stderr, stdin};
use std::path::{Path, PathBuf};

use backends::client_setup::{ClientEnvironment, ClientSetup, ConfigScope, ServerCommand};
use backends::clients;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use domain::dialect::DialectName;
use serde::Serialize;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::import;
use super::output::{Out, OutputFormat};
use super::serve::dialect_parser;
use engine::EngineError;
use engine::env;

pub(super) use change_records::Records;
pub(super) use config_file::find_config_file;
pub(super) use edit::SyntaxEdit;
pub(super) use file_changes::{EditPurpose, EditRequest, FileOutcome, FileReport, set_up, undo_edits};
pub(super) use file_report::{any_left_alone, any_written, print_files};
use generic_client::Paste;
pub(super) use server_command::{command, machine_path_warning};

/// Add volery to MCP clients
///
/// Adds to a client's files what it needs to call volery's tools: the server,
/// the consent to start it, the approval of its tools, and a suitable time-out.
/// The rest of the files stays unchanged, comments included. Each file is copied
/// first, and --undo removes the additions. The approval covers only the calls
/// of volery's tools; each agent's own permission limits what the agent does.
///
/// Without --client, volery looks for clients on this machine; on a terminal it
/// asks which to set up, otherwise it only lists them. With --client other, it
/// prints the text to paste into any other client, and writes nothing.
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
    /// The client to set up; can be repeated
    #[arg(long = "client", value_name = "NAME", value_parser = client_parser())]
    clients: Vec<ClientChoice>,

    /// The system whose tools the server offers; can be repeated
    #[arg(long = "dialect", value_name = "NAME", value_parser = dialect_parser(), conflicts_with = "undo")]
    dialects: Vec<DialectName>,

    /// Change your own configuration, for every project, instead of this project's
    #[arg(long)]
    user: bool,

    /// Print the changes without writing them
    #[arg(long)]
    dry_run: bool,

    /// Remove the earlier additions, and nothing else
    #[arg(long)]
    undo: bool,
}

/// What `--client` names.
#[derive(Debug, Clone, Copy)]
enum ClientChoice {
    Known(&'static ClientSetup),
    Other,
}

fn client_parser() -> impl TypedValueParser<Value = ClientChoice> {
    let names = clients::setups().map(|client| client.name).chain([generic_client::NAME]);
    PossibleValuesParser::new(names)
        .map(|name| clients::setup_by_name(&name).map_or(ClientChoice::Other, ClientChoice::Known))
}

/// What `--json` prints.
#[derive(Debug, Default, Serialize)]
struct InitReport {
    /// `None` for the user's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<PathBuf>,
    scope: ConfigScope,
    /// The clients that seem to be used here, if the command named none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    found: Vec<&'static str>,
    files: Vec<FileReport>,
    /// For clients that Volery does not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    paste: Option<Paste>,
    /// What prevents clients, here or on other machines, from using the server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    notes: Vec<String>,
}

pub(crate) fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let Args { clients, dialects, user, dry_run, undo } = args;
    let home = env::home().ok_or_else(|| EngineError::usage("HOME names no directory"))?;
    let state = env::state_home().ok_or_else(|| EngineError::usage("VOLERY_HOME is not an absolute path"))?;
    let project = PathBuf::from(engine::registry::find_project(&context.directory.to_string_lossy()));
    let environment = client_environment(project.clone(), home);
    let records = Records::for_setup(&state);
    let scope = if user { ConfigScope::User } else { ConfigScope::Project };
    let server = server_command::build_server(&dialects, scope)?;
    let owner = (!user).then(|| project.clone());
    let mut report = InitReport { project: owner.clone(), scope, ..InitReport::default() };
    let request =
        EditRequest { project: &project, owner, records: &records, dry_run, purpose: EditPurpose::SetUp };
    if clients.iter().any(|client| matches!(client, ClientChoice::Other)) && !undo {
        report.paste = Some(Paste::new(&server));
    }
    let known = clients.iter().filter_map(|client| match client {
        ClientChoice::Known(client) => Some(*client),
        ClientChoice::Other => None,
    });
    let chosen: Vec<&'static ClientSetup> = if !clients.is_empty() {
        known.collect()
    } else if undo {
        find_configured_clients(&environment, scope, &server, &request)
    } else {
        let found = find_clients(&environment);
        report.found = found.iter().map(|client| client.name).collect();
        let (fitting, others): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|client| client.supports(scope));
        let names: Vec<&str> = fitting.iter().map(|client| client.name).collect();
        let confirmed = dry_run || (out.format() == OutputFormat::Text && confirm(&names, out));
        report.notes.extend(others.iter().map(|client| client.user_scope_hint()));
        if confirmed { fitting } else { Vec::new() }
    };
    if !dry_run && !chosen.is_empty() {
        // Created and checked as for a run, because the records are stored in it.
        journal::Home::open(&state).map_err(|error| EngineError::usage(error.to_string()))?;
    }
    let setup = SetupTask { environment: &environment, scope, server: &server, request: &request };
    if undo {
        for client in chosen {
            let desired_files = (client.desired_files)(&environment, scope, &server);
            report.files.extend(undo_edits(client.name, &desired_files, &request));
        }
    } else {
        setup.set_up_all(&chosen, &dialects, &mut report);
    }
    print_report(&report, &project, undo, out)
}

/// The parameters of setting up several clients.
struct SetupTask<'a> {
    environment: &'a ClientEnvironment,
    scope: ConfigScope,
    server: &'a ServerCommand,
    request: &'a EditRequest<'a>,
}

impl SetupTask<'_> {
    fn set_up_all(&self, chosen: &[&'static ClientSetup], dialects: &[DialectName], report: &mut InitReport) {
        let leftovers = import::leftover_entries(self.environment, self.scope, dialects);
        let mut shared = Vec::new();
        for client in chosen {
            let desired_files = (client.desired_files)(self.environment, self.scope, self.server);
            if !client.supports(self.scope) {
                report.files.extend(
                    desired_files.iter().map(|desired| user_scope_only_report(client, &desired.path)),
                );
                continue;
            }
            report.warnings.extend(blocklist::find_blocks(client, self.environment, self.scope, self.server));
            let files = set_up(client.name, &desired_files, self.request);
            let changed = |state| matches!(state, FileOutcome::Written | FileOutcome::WouldChange);
            let shared_files = desired_files
                .iter()
                .zip(&files)
                .filter(|(desired, file)| desired.shared && changed(file.state));
            shared.extend(shared_files.map(|(desired, _)| desired.path.clone()));
            report.files.extend(files);
            report.notes.extend(client.notes(self.scope));
            let leftover = leftovers.iter().filter(|(client_name, _)| *client_name == client.name);
            report.notes.extend(leftover.map(|(_, what)| what.clone()));
        }
        let shared: Vec<&Path> = shared.iter().map(PathBuf::as_path).collect();
        let variables: Vec<&str> = self.server.env.iter().map(|(name, _)| name.as_str()).collect();
        report.warnings.extend(machine_path_warning(&shared, &self.server.command, &variables));
    }
}

/// Reports that a client has no configuration for a project. The user's file, which applies everywhere, is only written
/// on request.
fn user_scope_only_report(client: &ClientSetup, path: &Path) -> FileReport {
    FileReport {
        client: client.name.to_owned(),
        path: path.to_owned(),
        state: FileOutcome::LeftAlone,
        diff: String::new(),
        backup: None,
        problem: Some(client.user_scope_hint()),
        paste: None,
    }
}

/// Returns where this user's clients look for their files.
pub(super) fn client_environment(project: PathBuf, home: PathBuf) -> ClientEnvironment {
    ClientEnvironment { project, home, variable: env::directory, macos: cfg!(target_os = "macos") }
}

/// Returns the clients whose files have entries of Volery that were added for this project or user.
fn find_configured_clients(
    environment: &ClientEnvironment,
    scope: ConfigScope,
    server: &ServerCommand,
    request: &EditRequest<'_>,
) -> Vec<&'static ClientSetup> {
    let is_configured = |client: &&ClientSetup| {
        let desired_files = (client.desired_files)(environment, scope, server);
        desired_files.iter().any(|desired| {
            let found = config_file::find_config_file(&desired.path, desired.scope, request.project).ok();
            let record = found.and_then(|found| request.records.find(&found.target));
            record.is_some_and(|record| record.project == request.owner)
        })
    };
    clients::setups().filter(is_configured).collect()
}

/// Returns the clients that seem to be used: their program is installed, or they left files.
fn find_clients(environment: &ClientEnvironment) -> Vec<&'static ClientSetup> {
    let path = env::get("PATH").unwrap_or_default();
    let used = |client: &&ClientSetup| {
        let program = |name: &&str| system_files::find_program(OsStr::new(name), &path).is_some();
        let has_any = |folder: &Path, markers: &[&str]| markers.iter().any(|mark| folder.join(mark).exists());
        client.programs.iter().any(program)
            || has_any(&environment.project, client.project_markers)
            || has_any(&environment.home, client.home_markers)
    };
    clients::setups().filter(used).collect()
}

fn supports(name: &str, scope: ConfigScope) -> bool {
    clients::setup_by_name(name).is_some_and(|client| client.supports(scope))
}

/// On a terminal, asks whether to set up the clients that were found.
fn confirm(found: &[&str], out: &mut Out) -> bool {
    if found.is_empty() || !stdin().is_terminal() || !stderr().is_terminal() {
        return false;
    }
    out.notes_page(&format!("add volery to {}? [y/N] ", found.join(", ")));
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer).is_ok() && super::trust::is_yes(&answer)
}

fn print_report(
    report: &InitReport,
    project: &Path,
    undo: bool,
    out: &mut Out,
) -> Result<Exit, CommandError> {
    let exit = if any_left_alone(&report.files) { Exit::RunFailed } else { Exit::Done };
    match out.format() {
        OutputFormat::Json => out.json(report)?,
        OutputFormat::Text => print_text(report, project, undo, out)?,
    }
    Ok(exit)
}

fn print_text(report: &InitReport, project: &Path, undo: bool, out: &mut Out) -> Result<(), CommandError> {
    print_files(&report.files, project, out)?;
    if let Some(paste) = &report.paste {
        out.note("most clients take this text in their file of MCP servers:");
        out.page(&crate::report::sanitize_for_terminal(&paste.page()))?;
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
            let whose = if report.scope == ConfigScope::User { "for the user" } else { "for this project" };
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
            let fitting: Vec<&str> =
                found.iter().copied().filter(|name| supports(name, report.scope)).collect();
            if !fitting.is_empty() {
                let user = if report.scope == ConfigScope::User { " --user" } else { "" };
                out.hint(&format!("volery init{user} --client {}", fitting.join(" --client ")));
            }
            out.hint("any other client: volery init --client other");
        }
    }
    if any_written(&report.files) {
        let user = if report.scope == ConfigScope::User { " --user" } else { "" };
        out.hint(&format!(
            "clients that run already have to be started anew; volery init --undo{user} takes it back"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
