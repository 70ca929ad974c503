//! `volery import`: shows how the set-up of another system maps to Volery. Only reads, unless `--apply` or `--undo` is given.

mod apply;
mod mapping;
mod server_change;
mod server_entry;
mod server_files;
mod system;
mod systems;

use std::path::{Path, PathBuf};

use backends::client_setup::{ClientEnvironment, ConfigScope};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use domain::dialect::DialectName;
use serde::Serialize;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::init::{
    FileReport, Records, any_left_alone, any_written, client_environment, command, print_files,
};
use super::output::{Out, OutputFormat};
use crate::report;
use engine::EngineError;
use engine::env;
use engine::registry::{find_project, load};

use mapping::{EntryFound, Mapping, map_system};
use server_entry::{ServerEntry, entries};
use system::{Commands, SYSTEMS, SettingNote, SetupSite, System};

/// Report how to migrate from another system
///
/// Looks for sub-agents-mcp, budgie, PowerSpawn, Jarvis, Kiwi and `codex
/// mcp-server` in the configurations of your clients and in the project's files.
/// The report lists the agents as volery reads them, the tools, the sessions that
/// can be continued, the supported and unsupported settings, the problems to fix,
/// and the lines to change.
///
/// Without --apply the command changes nothing. With --apply it edits the entries
/// in the clients' files and prints a diff. Everything else in the files stays
/// unchanged, each file is copied first, and --undo restores the old entries.
///
/// Examples:
///   volery import
///   volery import ~/src/api --from sub-agents-mcp
///   volery import --apply --dry-run
///   volery import --apply
///   volery import --undo
///   volery import --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The project [default: the project of the working directory]
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: Option<PathBuf>,

    /// Only look for this system
    #[arg(long, value_name = "SYSTEM", value_parser = system_parser())]
    from: Option<&'static str>,

    /// Edit the entries as the report describes
    #[arg(long)]
    apply: bool,

    /// With --apply or --undo: print the changes without writing them
    #[arg(long)]
    dry_run: bool,

    /// Restore the entries that --apply changed for the project, and nothing else
    #[arg(long, conflicts_with_all = ["apply", "from"])]
    undo: bool,
}

fn system_parser() -> impl TypedValueParser<Value = &'static str> {
    let names = PossibleValuesParser::new(SYSTEMS.map(|system| system.name));
    names.map(|name| SYSTEMS.iter().find(|system| system.name == name).expect("one of these names").name)
}

/// What `--json` prints.
#[derive(Debug, Default, Serialize)]
struct ImportReport {
    project: PathBuf,
    found: Vec<Mapping>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed_already: Vec<ChangedEntry>,
    /// Files that could not be read.
    problems: Vec<String>,
    /// The edits of `--apply` or `--undo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Vec<FileReport>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// An entry that starts volery in place of a system.
#[derive(Debug, Serialize)]
struct ChangedEntry {
    system: &'static str,
    entry: EntryFound,
}

pub(crate) fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let home = env::home().ok_or_else(|| EngineError::usage("HOME names no directory"))?;
    let directory = context.absolute(args.dir.as_ref())?;
    let directory = directory.unwrap_or_else(|| context.directory.to_string_lossy().into_owned());
    if !Path::new(&directory).is_dir() {
        return Err(EngineError::usage(format!("{directory} is not a directory")).into());
    }
    let project = PathBuf::from(find_project(&directory));
    if args.dry_run && !args.apply && !args.undo {
        let error = EngineError::usage("--dry-run goes with --apply or --undo");
        return Err(error.hint("without them, volery import changes nothing anyway").into());
    }
    let state = env::state_home().ok_or_else(|| EngineError::usage("VOLERY_HOME is not an absolute path"))?;
    let records = Records::for_imports(&state);
    let request = apply::edit_request(&project, &records, args.dry_run);
    if (args.apply || args.undo) && !args.dry_run {
        // Created and checked as for a run, because the records are stored in it.
        journal::Home::open(&state).map_err(|error| EngineError::usage(error.to_string()))?;
    }
    if args.undo {
        let files = Some(apply::undo(&request));
        return print_report(
            &ImportReport { project: project.clone(), files, ..ImportReport::default() },
            &args,
            out,
        );
    }
    let environment = client_environment(project.clone(), home.clone());
    let (entries, problems) = entries(&environment);
    let catalogue = load(&project.to_string_lossy());
    let config = &catalogue.config;
    let configured: Vec<String> = config.backends.keys().map(ToString::to_string).collect();
    let commands = Commands {
        project_command: command(ConfigScope::Project)?,
        user_command: command(ConfigScope::User)?,
    };
    let site = |entry| SetupSite {
        project: &project,
        home: &home,
        entry,
        configured: &configured,
        config,
        commands: &commands,
    };
    let mut found = Vec::new();
    let mut changed_already = Vec::new();
    for system in SYSTEMS.iter().filter(|system| args.from.is_none_or(|from| from == system.name)) {
        let changed = entries.iter().filter(|entry| serves_dialect(system, entry)).map(EntryFound::new);
        changed_already.extend(changed.map(|entry| ChangedEntry { system: system.name, entry }));
        let own: Vec<&ServerEntry> = entries.iter().filter(|entry| starts_system(system, entry)).collect();
        if own.is_empty() {
            let mapping = map_system(system, &site(None));
            let is_relevant =
                args.from.is_some() && !(mapping.agents.is_empty() && mapping.sessions.is_empty());
            if is_relevant || (system.has_files)(&project) {
                found.push((mapping, None));
            }
        }
        found.extend(own.into_iter().map(|entry| (map_system(system, &site(Some(entry))), Some(entry))));
    }
    let applied = args.apply.then(|| apply::apply(&found, &request));
    let (files, warnings) = applied.map(|applied| (applied.files, applied.warnings)).unzip();
    let found = found.into_iter().map(|(mapping, _)| mapping).collect();
    let warnings = warnings.unwrap_or_default();
    let project = project.clone();
    print_report(&ImportReport { project, found, changed_already, problems, files, warnings }, &args, out)
}

/// Describes the entries that still start the systems of these dialects, each with its client.
pub(super) fn leftover_entries(
    environment: &ClientEnvironment,
    scope: ConfigScope,
    dialects: &[DialectName],
) -> Vec<(&'static str, String)> {
    let (entries, _) = entries(environment);
    let systems = SYSTEMS.iter().filter(|system| dialects.iter().any(|name| name.as_str() == system.name));
    let old = systems.flat_map(|system| {
        let old = |entry: &&ServerEntry| starts_system(system, entry) && entry.scope.is_within(scope);
        entries.iter().filter(old).map(|entry| {
            let (name, file) = (&entry.name, entry.file.display());
            let what =
                format!("{name} in {file} still starts {}; volery import --apply changes that", system.name);
            (entry.client, what)
        })
    });
    old.collect()
}

/// Returns whether an entry starts the system itself; one that starts volery was changed before.
fn starts_system(system: &System, entry: &ServerEntry) -> bool {
    !starts_volery(entry) && (system.matches_entry)(entry)
}

/// Returns whether an entry starts volery with the dialect of the system.
fn serves_dialect(system: &System, entry: &ServerEntry) -> bool {
    starts_volery(entry) && entry.flag("dialect") == Some(system.name)
}

fn starts_volery(entry: &ServerEntry) -> bool {
    let program = entry.command_line.first();
    program.is_some_and(|program| Path::new(program).file_name().is_some_and(|name| name == "volery"))
}

fn print_report(report: &ImportReport, args: &Args, out: &mut Out) -> Result<Exit, CommandError> {
    match (out.format(), &report.files) {
        (OutputFormat::Json, _) => out.json(report)?,
        (OutputFormat::Text, Some(files)) => print_changes(report, files, args, out)?,
        (OutputFormat::Text, None) => {
            for (index, mapping) in report.found.iter().enumerate() {
                let gap = if index == 0 { "" } else { "\n" };
                let page = report::details_page(
                    &title(mapping.system, mapping.entry.as_ref()),
                    &mapping_details(mapping),
                    &out.style(),
                );
                out.page(&format!("{gap}{page}"))?;
                let page = report::diagnostics(
                    &mapping.diagnostics,
                    &report.project.to_string_lossy(),
                    &out.notes_style(),
                );
                out.notes_page(&page);
            }
            for problem in &report.problems {
                out.warning(problem);
            }
            print_unchanged_entries(report, args, out);
            if report.found.iter().any(|mapping| mapping.change.is_some()) {
                out.hint("volery import --apply makes the changes; --undo takes them back");
            }
        }
    }
    let failed = report.files.as_ref().is_some_and(|files| any_left_alone(files));
    let missed = report.found.is_empty() && report.changed_already.is_empty() && args.from.is_some();
    Ok(match (failed, missed) {
        (true, _) => Exit::RunFailed,
        (false, true) => Exit::NotFound,
        (false, false) => Exit::Done,
    })
}

/// Prints the entries that were changed before, or that there is no set-up.
fn print_unchanged_entries(report: &ImportReport, args: &Args, out: &mut Out) {
    for ChangedEntry { system, entry } in &report.changed_already {
        out.note(&format!("{}: starts volery already", title(system, Some(entry))));
    }
    if report.found.is_empty() && report.changed_already.is_empty() {
        out.note(&format!("no set-up of {} was found here", args.from.unwrap_or("another system")));
    }
}

/// Prints the edits. How settings map is printed only without `--apply`.
fn print_changes(
    report: &ImportReport,
    files: &[FileReport],
    args: &Args,
    out: &mut Out,
) -> Result<(), CommandError> {
    print_files(files, &report.project, out)?;
    for warning in report.problems.iter().chain(&report.warnings) {
        out.warning(warning);
    }
    for mapping in report.found.iter().filter(|mapping| mapping.change.is_none()) {
        let why = if mapping.available { "has no entry to change" } else { "has no dialect here yet" };
        out.note(&format!("{}: {why}", title(mapping.system, mapping.entry.as_ref())));
    }
    if files.is_empty() && args.undo {
        out.note("nothing was changed for this project");
    } else if !args.undo {
        print_unchanged_entries(report, args, out);
    }
    if any_written(files) {
        out.hint("clients that run already have to be started anew; volery import --undo takes it back");
    }
    Ok(())
}

fn title(system: &str, entry: Option<&EntryFound>) -> String {
    let location = match entry {
        Some(EntryFound { client, file, below, name }) => {
            let below = below.as_ref().map(|below| format!(", below {below}")).unwrap_or_default();
            format!("{name} in {}{below} ({client})", file.display())
        }
        None => "by its files; no client's configuration starts it".to_owned(),
    };
    format!("{system}: {location}")
}

fn mapping_details(mapping: &Mapping) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if !mapping.available {
        facts.push(("not yet", format!("this version has no dialect {}", mapping.system)));
    }
    let lines = mapping.change.iter().flat_map(|change| &change.lines).enumerate();
    facts.extend(lines.map(|(index, line)| (if index == 0 { "change to" } else { "" }, line.clone())));
    let sentence = SettingNote::sentence;
    facts.extend(mapping.required_fixes.iter().map(|setting| ("to mend", sentence(setting))));
    facts.push(("tools", mapping.tools.join(", ")));
    let agents: Vec<String> =
        mapping.agents.iter().map(|agent| format!("{} ({})", agent.name, agent.backend)).collect();
    facts.push(("agents", agents.join(", ")));
    if let Some(inherited) = &mapping.inherited_text {
        facts.push(("agents get", inherited.clone()));
    }
    facts.push(("sessions", mapping.sessions.join(", ")));
    facts.push(("honoured", mapping.honoured.join(", ")));
    facts.extend(mapping.differs.iter().map(|setting| ("differs", sentence(setting))));
    facts.extend(mapping.not_honoured.iter().map(|setting| ("ignored", sentence(setting))));
    facts.push(("note", mapping.note.unwrap_or_default().to_owned()));
    facts
}
