//! `volery import`: how a set-up of another system maps to this one. Reads only, unless `--apply` or `--undo` is given.

mod apply;
mod change;
mod entry;
mod map;
mod places;
mod system;
mod systems;

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use domain::dialect::DialectName;
use serde::Serialize;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::init::{
    FileReport, Records, Scope, Surroundings, any_left_alone, any_written, command, tell_files,
};
use super::out::{Format, Out};
use crate::app::AppError;
use crate::env;
use crate::registry::{find_project, load};
use crate::report;

use entry::{ServerEntry, entries};
use map::{EntryFound, Mapping, map};
use system::{Commands, SYSTEMS, Site, System, Told};

/// Tell how a set-up of another system would work here
///
/// Looks for sub-agents-mcp, budgie, PowerSpawn, Jarvis, Kiwi and `codex
/// mcp-server` in the configurations of your clients and in the project's files,
/// and tells what each becomes: its agents as volery reads them, its tools, the
/// sessions that can be continued, which settings are honoured, what has to be put
/// right, and the lines to change.
///
/// It changes nothing without --apply. That changes the entries of clients as
/// described and shows the difference; everything else in the files stays as it
/// is, a copy of each is kept beside it, and --undo puts back what was there.
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
    /// The project [default: that of the working directory]
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: Option<PathBuf>,

    /// Look for this system only
    #[arg(long, value_name = "SYSTEM", value_parser = system_parser())]
    from: Option<&'static str>,

    /// Change the entries as described
    #[arg(long)]
    apply: bool,

    /// With --apply or --undo: show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Put back what --apply has changed for the project, and nothing else
    #[arg(long, conflicts_with_all = ["apply", "from"])]
    undo: bool,
}

fn system_parser() -> impl TypedValueParser<Value = &'static str> {
    let names = PossibleValuesParser::new(SYSTEMS.map(|system| system.name));
    names.map(|name| SYSTEMS.iter().find(|system| system.name == name).expect("one of these names").name)
}

/// What `--json` prints.
#[derive(Debug, Default, Serialize)]
struct Report {
    project: PathBuf,
    found: Vec<Mapping>,
    /// Files that could not be read.
    problems: Vec<String>,
    /// What `--apply` or `--undo` made of files.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Vec<FileReport>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

pub(crate) fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let home = env::home().ok_or_else(|| AppError::usage("HOME names no directory"))?;
    let directory = context.absolute(args.dir.as_ref())?;
    let directory = directory.unwrap_or_else(|| context.directory.to_string_lossy().into_owned());
    if !Path::new(&directory).is_dir() {
        return Err(AppError::usage(format!("{directory} is not a directory")).into());
    }
    let project = PathBuf::from(find_project(&directory));
    if args.dry_run && !args.apply && !args.undo {
        let error = AppError::usage("--dry-run goes with --apply or --undo");
        return Err(error.hint("without them, volery import changes nothing anyway").into());
    }
    let state = env::state_home().ok_or_else(|| AppError::usage("VOLERY_HOME is not an absolute path"))?;
    let records = Records::of_imports(&state);
    let order = apply::order(&project, &records, args.dry_run);
    if (args.apply || args.undo) && !args.dry_run {
        // Made and checked as for a run, since what is recorded stands in it.
        journal::Home::open(&state).map_err(|error| AppError::usage(error.to_string()))?;
    }
    if args.undo {
        let files = Some(apply::undo(&order));
        return tell(&Report { project: project.clone(), files, ..Report::default() }, &args, out);
    }
    let surroundings = Surroundings::of_process(project.clone(), home.clone());
    let (entries, problems) = entries(&surroundings);
    let catalogue = load(&project.to_string_lossy());
    let config = &catalogue.config;
    let configured: Vec<String> = config.backends.keys().map(ToString::to_string).collect();
    let commands = Commands { of_project: command(Scope::Project)?, of_user: command(Scope::User)? };
    let site = |entry| Site {
        project: &project,
        home: &home,
        entry,
        configured: &configured,
        config,
        commands: &commands,
    };
    let mut found = Vec::new();
    for system in SYSTEMS.iter().filter(|system| args.from.is_none_or(|from| from == system.name)) {
        let own: Vec<&ServerEntry> = entries.iter().filter(|entry| is_old(system, entry)).collect();
        if own.is_empty() {
            let mapping = map(system, &site(None));
            let asked = args.from.is_some() && !(mapping.agents.is_empty() && mapping.sessions.is_empty());
            if asked || (system.left_files)(&project) {
                found.push((mapping, None));
            }
        }
        found.extend(own.into_iter().map(|entry| (map(system, &site(Some(entry))), Some(entry))));
    }
    let applied = args.apply.then(|| apply::apply(&found, &order));
    let (files, warnings) = applied.map(|applied| (applied.files, applied.warnings)).unzip();
    let found = found.into_iter().map(|(mapping, _)| mapping).collect();
    let warnings = warnings.unwrap_or_default();
    tell(&Report { project: project.clone(), found, problems, files, warnings }, &args, out)
}

/// Returns the entries that still start the systems of these dialects, each with its client and in words.
pub(super) fn left_beside(
    surroundings: &Surroundings,
    scope: Scope,
    dialects: &[DialectName],
) -> Vec<(&'static str, String)> {
    let (entries, _) = entries(surroundings);
    let systems = SYSTEMS.iter().filter(|system| dialects.iter().any(|name| name.as_str() == system.name));
    let old = systems.flat_map(|system| {
        let old = |entry: &&ServerEntry| is_old(system, entry) && entry.scope.is_within(scope);
        entries.iter().filter(old).map(|entry| {
            let (name, file) = (&entry.name, entry.file.display());
            let what =
                format!("{name} in {file} still starts {}; volery import --apply changes that", system.name);
            (entry.client, what)
        })
    });
    old.collect()
}

/// An entry that starts volery has been changed already.
fn is_old(system: &System, entry: &ServerEntry) -> bool {
    let ours = entry
        .words
        .first()
        .is_some_and(|word| Path::new(word).file_name().is_some_and(|name| name == "volery"));
    !ours && (system.is)(entry)
}

fn tell(report: &Report, args: &Args, out: &mut Out) -> Result<Exit, CommandError> {
    match (out.format(), &report.files) {
        (Format::Json, _) => out.json(report)?,
        (Format::Text, Some(files)) => tell_changes(report, files, args, out)?,
        (Format::Text, None) => {
            for (index, mapping) in report.found.iter().enumerate() {
                let gap = if index == 0 { "" } else { "\n" };
                let page = report::facts(&title(mapping), &facts(mapping), &out.look());
                out.page(&format!("{gap}{page}"))?;
                let page = report::diagnostics(&mapping.diagnostics, &out.notes_look());
                out.notes_page(&page);
            }
            for problem in &report.problems {
                out.warning(problem);
            }
            if report.found.is_empty() {
                out.note(&nothing_found(args));
            }
            if report.found.iter().any(|mapping| mapping.change.is_some()) {
                out.hint("volery import --apply makes the changes; --undo takes them back");
            }
        }
    }
    let failed = report.files.as_ref().is_some_and(|files| any_left_alone(files));
    let missed = report.found.is_empty() && args.from.is_some();
    Ok(match (failed, missed) {
        (true, _) => Exit::RunFailed,
        (false, true) => Exit::NotFound,
        (false, false) => Exit::Done,
    })
}

fn nothing_found(args: &Args) -> String {
    format!("no set-up of {} was found here", args.from.unwrap_or("another system"))
}

/// Tells what became of files. What a set-up becomes is for the report without `--apply`.
fn tell_changes(
    report: &Report,
    files: &[FileReport],
    args: &Args,
    out: &mut Out,
) -> Result<(), CommandError> {
    tell_files(files, &report.project, out)?;
    for warning in report.problems.iter().chain(&report.warnings) {
        out.warning(warning);
    }
    for mapping in report.found.iter().filter(|mapping| mapping.change.is_none()) {
        let why = if mapping.available { "has no entry to change" } else { "has no dialect here yet" };
        out.note(&format!("{}: {why}", title(mapping)));
    }
    if files.is_empty() && args.undo {
        out.note("nothing was changed for this project");
    } else if report.found.is_empty() && !args.undo {
        out.note(&nothing_found(args));
    }
    if any_written(files) {
        out.hint("clients that run already have to be started anew; volery import --undo takes it back");
    }
    Ok(())
}

fn title(mapping: &Mapping) -> String {
    let place = match &mapping.entry {
        Some(EntryFound { client, file, below, name }) => {
            let below = below.as_ref().map(|below| format!(", below {below}")).unwrap_or_default();
            format!("{name} in {}{below} ({client})", file.display())
        }
        None => "by its files; no client's configuration starts it".to_owned(),
    };
    format!("{}: {place}", mapping.system)
}

fn facts(mapping: &Mapping) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if !mapping.available {
        facts.push(("not yet", format!("this version has no dialect {}", mapping.system)));
    }
    let lines = mapping.change.iter().flat_map(|change| &change.lines).enumerate();
    facts.extend(lines.map(|(index, line)| (if index == 0 { "change to" } else { "" }, line.clone())));
    let told = Told::sentence;
    facts.extend(mapping.to_mend.iter().map(|setting| ("to mend", told(setting))));
    facts.push(("tools", mapping.tools.join(", ")));
    let agents: Vec<String> =
        mapping.agents.iter().map(|agent| format!("{} ({})", agent.name, agent.backend)).collect();
    facts.push(("agents", agents.join(", ")));
    if let Some(gives) = &mapping.gives {
        facts.push(("agents get", gives.clone()));
    }
    facts.push(("sessions", mapping.sessions.join(", ")));
    facts.push(("honoured", mapping.honoured.join(", ")));
    facts.extend(mapping.differs.iter().map(|setting| ("differs", told(setting))));
    facts.extend(mapping.not_honoured.iter().map(|setting| ("ignored", told(setting))));
    facts.push(("note", mapping.note.unwrap_or_default().to_owned()));
    facts
}
