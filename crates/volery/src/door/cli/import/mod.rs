//! `volery import`: how a set-up of another system maps to this one. Reads only.

mod entry;
mod system;
mod systems;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use domain::diagnostic::Diagnostic;
use domain::dialect::DialectName;
use serde::Serialize;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::init::Surroundings;
use super::out::{Format, Out};
use crate::app::AppError;
use crate::env;
use crate::registry::{find_project, read_folder};
use crate::report;

use entry::{ServerEntry, entries, flag_of};
use system::{Fate, SYSTEMS, Setting, Site, System};

/// Tell how a set-up of another system would work here
///
/// Looks for sub-agents-mcp, budgie, PowerSpawn, Jarvis and Kiwi in the
/// configurations of your clients and in the project's files, and tells what each
/// becomes: its agents as volery reads them, its tools, the sessions that can be
/// continued, which settings are honoured, and the one line to change. It reads
/// only; nothing is changed.
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

/// How one set-up maps.
#[derive(Debug, Serialize)]
struct Mapping {
    system: &'static str,
    /// Whether this version of volery has its dialect.
    available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Place>,
    /// What the entry becomes.
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<Change>,
    tools: &'static [&'static str],
    agents: Vec<AgentFound>,
    diagnostics: Vec<Diagnostic>,
    sessions: Vec<String>,
    honoured: Vec<String>,
    differs: Vec<Told>,
    not_honoured: Vec<Told>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct Place {
    client: &'static str,
    file: PathBuf,
    name: String,
}

#[derive(Debug, Serialize)]
struct Change {
    command: &'static str,
    args: Vec<String>,
    /// Variables to add; those that are there stay.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    env: serde_json::Map<String, serde_json::Value>,
}

#[derive(Debug, Serialize)]
struct AgentFound {
    name: String,
    backend: String,
    file: String,
}

/// A setting, and why it is not as before. Its value is not told: it may be a secret.
#[derive(Debug, Serialize)]
struct Told {
    name: String,
    why: &'static str,
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
    let wanted = |system: &&&System| args.from.is_none_or(|from| from == system.name);
    let mut found = Vec::new();
    for system in SYSTEMS.iter().filter(wanted) {
        let own: Vec<&ServerEntry> = entries.iter().filter(|entry| is_old(system, entry)).collect();
        if own.is_empty() && (args.from.is_some() || (system.left_files)(&project)) {
            found.push(map(system, &Site { project: &project, home: &home, entry: None }));
        }
        for entry in own {
            found.push(map(system, &Site { project: &project, home: &home, entry: Some(entry) }));
        }
    }
    tell(&Report { project, found, problems }, out)
}

/// An entry that starts volery has been changed already.
fn is_old(system: &System, entry: &ServerEntry) -> bool {
    let ours = entry
        .words
        .first()
        .is_some_and(|word| Path::new(word).file_name().is_some_and(|name| name == "volery"));
    !ours && (system.is)(entry)
}

fn map(system: &'static System, site: &Site<'_>) -> Mapping {
    let (mut agents, mut diagnostics) = (Vec::new(), Vec::new());
    for folder in (system.folders)(site).iter().filter(|folder| folder.path.is_dir()) {
        let variable = |name: &str| site.entry.and_then(|entry| entry.env.get(name).cloned());
        let (read, problems) = read_folder(folder, variable);
        diagnostics.extend(problems);
        agents.extend(read.into_values().map(|agent| AgentFound {
            name: agent.name.to_string(),
            backend: agent.backend.to_string(),
            file: agent.source.file,
        }));
    }
    let mut mapping = Mapping {
        system: system.name,
        available: DialectName::parse(system.name).is_some(),
        entry: site.entry.map(|entry| Place {
            client: entry.client,
            file: entry.file.clone(),
            name: entry.name.clone(),
        }),
        change: None,
        tools: system.tools,
        agents,
        diagnostics,
        sessions: (system.sessions)(site),
        honoured: Vec::new(),
        differs: Vec::new(),
        not_honoured: Vec::new(),
        note: system.note,
    };
    let kept = site.entry.map(|entry| sort_settings(system, entry, &mut mapping)).unwrap_or_default();
    let args = ["serve", "--dialect", system.name].map(str::to_owned).into_iter().chain(kept).collect();
    let more = (system.more_env)(site);
    let more = more.into_iter().map(|(name, value)| (name.to_owned(), serde_json::Value::from(value)));
    mapping.change = site.entry.map(|_| Change { command: "volery", args, env: more.collect() });
    mapping
}

/// Sorts the settings of an entry by what becomes of them. Returns the words of the flags that stay.
fn sort_settings(system: &System, entry: &ServerEntry, mapping: &mut Mapping) -> Vec<String> {
    const UNKNOWN: &str = "volery does not know it; agents get it only if they name it in env";
    let mut sort = |shown: String, known: Option<&Setting>, unknown: &'static str| {
        let fate = known.map_or(Fate::NotHonoured(unknown), |setting| setting.fate);
        match fate {
            Fate::Honoured => mapping.honoured.push(shown),
            Fate::Differs(why) => mapping.differs.push(Told { name: shown, why }),
            Fate::NotHonoured(why) => mapping.not_honoured.push(Told { name: shown, why }),
        }
        !matches!(fate, Fate::NotHonoured(_))
    };
    for name in entry.env.keys() {
        sort(name.clone(), system.variables.iter().find(|setting| setting.name == name), UNKNOWN);
    }
    let mut kept = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, word) in entry.words.iter().enumerate().skip(1) {
        let Some(flag) = flag_of(word).map(|flag| flag.split('=').next().unwrap_or(flag)) else { continue };
        let known = system.flags.iter().find(|setting| setting.name == flag);
        // What a launcher like npx takes is none of the system's.
        if system.flags.is_empty() || !seen.insert(flag) {
            continue;
        }
        if sort(format!("--{flag}"), known, "volery does not know it") {
            kept.push(if word.starts_with("--") { word.clone() } else { format!("-{word}") });
            let value =
                entry.words.get(index + 1).filter(|next| !word.contains('=') && flag_of(next).is_none());
            kept.extend(value.cloned());
        }
    }
    kept
}

fn tell(report: &Report, out: &mut Out) -> Result<Exit, CommandError> {
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
                out.note("no set-up of another system was found here");
            }
        }
    }
    Ok(Exit::Done)
}

fn title(mapping: &Mapping) -> String {
    let place = match &mapping.entry {
        Some(Place { client, file, name }) => format!("{name} in {} ({client})", file.display()),
        None => "by its files; no client's configuration starts it".to_owned(),
    };
    format!("{}: {place}", mapping.system)
}

fn facts(mapping: &Mapping) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if !mapping.available {
        facts.push(("not yet", format!("this version has no dialect {}", mapping.system)));
    }
    if let Some(Change { command, args, env }) = &mapping.change {
        let args = serde_json::json!(args);
        let env = if env.is_empty() {
            String::new()
        } else {
            format!(", and to \"env\" add {}", serde_json::json!(env))
        };
        facts.push(("change to", format!("\"command\": \"{command}\", \"args\": {args}{env}")));
    }
    facts.push(("tools", mapping.tools.join(", ")));
    let agents: Vec<String> =
        mapping.agents.iter().map(|agent| format!("{} ({})", agent.name, agent.backend)).collect();
    facts.push(("agents", agents.join(", ")));
    facts.push(("sessions", mapping.sessions.join(", ")));
    facts.push(("honoured", mapping.honoured.join(", ")));
    let told = |told: &Told| format!("{}: {}", told.name, told.why);
    facts.extend(mapping.differs.iter().map(|setting| ("differs", told(setting))));
    facts.extend(mapping.not_honoured.iter().map(|setting| ("ignored", told(setting))));
    facts.push(("note", mapping.note.unwrap_or_default().to_owned()));
    facts
}
