//! `volery import`: how a set-up of another system maps to this one. Reads only.

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
use super::init::Surroundings;
use super::out::{Format, Out};
use crate::app::AppError;
use crate::env;
use crate::registry::{find_project, load};
use crate::report;

use entry::{ServerEntry, entries};
use map::{EntryFound, Mapping, map};
use system::{SYSTEMS, Site, System, Told};

/// Tell how a set-up of another system would work here
///
/// Looks for sub-agents-mcp, budgie, PowerSpawn, Jarvis, Kiwi and `codex
/// mcp-server` in the configurations of your clients and in the project's files,
/// and tells what each becomes: its agents as volery reads them, its tools, the
/// sessions that can be continued, which settings are honoured, what has to be put
/// right, and the lines to change. It reads only; nothing is changed.
///
/// Examples:
///   volery import
///   volery import ~/src/api --from sub-agents-mcp
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
}

fn system_parser() -> impl TypedValueParser<Value = &'static str> {
    let names = PossibleValuesParser::new(SYSTEMS.map(|system| system.name));
    names.map(|name| SYSTEMS.iter().find(|system| system.name == name).expect("one of these names").name)
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report {
    project: PathBuf,
    found: Vec<Mapping>,
    /// Files that could not be read.
    problems: Vec<String>,
}

pub(crate) fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let home = env::home().ok_or_else(|| AppError::usage("HOME names no directory"))?;
    let directory = context.absolute(args.dir.as_ref())?;
    let directory = directory.unwrap_or_else(|| context.directory.to_string_lossy().into_owned());
    if !Path::new(&directory).is_dir() {
        return Err(AppError::usage(format!("{directory} is not a directory")).into());
    }
    let project = PathBuf::from(find_project(&directory));
    let surroundings = Surroundings::of_process(project.clone(), home.clone());
    let (entries, problems) = entries(&surroundings);
    let catalogue = load(&project.to_string_lossy());
    let config = &catalogue.config;
    let configured: Vec<String> = config.backends.keys().map(ToString::to_string).collect();
    let site = |entry| Site { project: &project, home: &home, entry, configured: &configured, config };
    let mut found = Vec::new();
    for system in SYSTEMS.iter().filter(|system| args.from.is_none_or(|from| from == system.name)) {
        let own: Vec<&ServerEntry> = entries.iter().filter(|entry| is_old(system, entry)).collect();
        if own.is_empty() {
            let mapping = map(system, &site(None));
            let asked = args.from.is_some() && !(mapping.agents.is_empty() && mapping.sessions.is_empty());
            if asked || (system.left_files)(&project) {
                found.push(mapping);
            }
        }
        found.extend(own.into_iter().map(|entry| map(system, &site(Some(entry)))));
    }
    tell(&Report { project, found, problems }, args.from, out)
}

/// Returns the entries that still start the systems of these dialects, each with its client and in words.
pub(super) fn left_beside(
    surroundings: &Surroundings,
    dialects: &[DialectName],
) -> Vec<(&'static str, String)> {
    let (entries, _) = entries(surroundings);
    let systems = SYSTEMS.iter().filter(|system| dialects.iter().any(|name| name.as_str() == system.name));
    let old = systems.flat_map(|system| {
        entries.iter().filter(|entry| is_old(system, entry)).map(|entry| {
            let (name, file) = (&entry.name, entry.file.display());
            let what =
                format!("{name} in {file} still starts {}; volery import tells what to change", system.name);
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

fn tell(report: &Report, from: Option<&str>, out: &mut Out) -> Result<Exit, CommandError> {
    match out.format() {
        Format::Json => out.json(report)?,
        Format::Text => {
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
                out.note(&format!("no set-up of {} was found here", from.unwrap_or("another system")));
            }
        }
    }
    let missed = report.found.is_empty() && from.is_some();
    Ok(if missed { Exit::NotFound } else { Exit::Done })
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
    let told = |Told { name, why }: &Told| match why.starts_with(name.as_str()) {
        true => why.clone(),
        false => format!("{name}: {why}"),
    };
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
