//! How one set-up maps: what is found of it, and what becomes of each setting.

use std::collections::BTreeSet;
use std::path::PathBuf;

use domain::agent::Agent;
use domain::diagnostic::Diagnostic;
use domain::dialect::DialectName;
use domain::inherit::{Inherited, describe_all};
use domain::mcp_server::{McpServer, Transport, VariableText};
use serde::Serialize;
use serde_json::Value;

use super::super::init::Scope;
use super::change::Change;
use super::entry::{ServerEntry, flag_of};
use super::system::{Fate, Setting, Site, System, Told};
use crate::env;
use crate::registry::read_folder;

/// How one set-up maps.
#[derive(Debug, Serialize)]
pub(super) struct Mapping {
    pub(super) system: &'static str,
    /// Whether this version of volery has its dialect.
    pub(super) available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) entry: Option<EntryFound>,
    /// What the entry becomes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) change: Option<Change>,
    /// What has to be put right before it works.
    pub(super) to_mend: Vec<Told>,
    pub(super) tools: &'static [&'static str],
    pub(super) agents: Vec<AgentFound>,
    /// What the agents get from their user, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gives: Option<String>,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) sessions: Vec<String>,
    pub(super) honoured: Vec<String>,
    pub(super) differs: Vec<Told>,
    pub(super) not_honoured: Vec<Told>,
    /// Why the entry cannot be changed yet: the server would not start with it, or the client does not read it there.
    #[serde(skip)]
    pub(super) blockers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<&'static str>,
}

#[derive(Debug, Serialize)]
pub(super) struct EntryFound {
    pub(super) client: &'static str,
    pub(super) file: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) below: Option<String>,
    pub(super) name: String,
}

#[derive(Debug, Serialize)]
pub(super) struct AgentFound {
    pub(super) name: String,
    pub(super) backend: String,
    pub(super) file: String,
}

pub(super) fn map(system: &'static System, site: &Site<'_>) -> Mapping {
    let (mut agents, mut diagnostics) = (Vec::new(), Vec::new());
    for folder in (system.folders)(site).iter().filter(|folder| folder.path.is_dir()) {
        let variable = |name: &str| site.variable(name).map(str::to_owned);
        let (read, problems) = read_folder(folder, variable);
        diagnostics.extend(problems);
        agents.extend(read.into_values());
    }
    let mut mapping = Mapping {
        system: system.name,
        available: DialectName::parse(system.name).is_some(),
        entry: site.entry.map(|entry| EntryFound {
            client: entry.client,
            file: entry.file.clone(),
            below: entry.below.clone(),
            name: entry.name.clone(),
        }),
        change: None,
        to_mend: Vec::new(),
        tools: system.tools,
        agents: agents.iter().map(found).collect(),
        gives: site.inherit(system.name).map(|inherit| describe_all(&inherit)),
        diagnostics,
        sessions: (system.sessions)(site, &agents),
        honoured: Vec::new(),
        differs: Vec::new(),
        not_honoured: Vec::new(),
        blockers: Vec::new(),
        note: system.note,
    };
    // What does not run here yet is neither started nor set.
    if mapping.available {
        mapping.to_mend = agents.iter().filter_map(|agent| unset(agent, site)).collect();
        if let Some(entry) = site.entry {
            change(system, site, entry, &mut mapping);
        }
    }
    mapping
}

fn found(agent: &Agent) -> AgentFound {
    AgentFound {
        name: agent.name.to_string(),
        backend: agent.backend.to_string(),
        file: agent.source.file.clone(),
    }
}

fn change(system: &System, site: &Site<'_>, entry: &ServerEntry, mapping: &mut Mapping) {
    let set = (system.set_env)(site);
    sort_variables(system, site, &set, mapping);
    let kept = sort_flags(system, entry, mapping);
    let refused = (system.refused)(site);
    mapping.honoured.retain(|name| !refused.iter().any(|told| told.name == *name));
    let misplaced = entry.belongs_in.map(|place| Told {
        name: entry.name.clone(),
        why: format!("the client reads no servers from this file: put the changed entry into {place}"),
    });
    let blockers: Vec<Told> = misplaced.into_iter().chain(refused).collect();
    mapping.blockers = blockers.iter().map(Told::sentence).collect();
    mapping.to_mend.splice(0..0, blockers);
    let args = ["serve", "--dialect", system.name].map(str::to_owned).into_iter().chain(kept).collect();
    let set = set.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value)));
    let command =
        if entry.scope == Scope::Project { &site.commands.of_project } else { &site.commands.of_user };
    mapping.change = Some(Change::new(entry.form, command.clone(), args, set.collect()));
}

fn sort_variables(system: &System, site: &Site<'_>, set: &[(&'static str, String)], mapping: &mut Mapping) {
    let backends: BTreeSet<String> = mapping.agents.iter().map(|agent| agent.backend.clone()).collect();
    let used = |name: &str| backends.contains(name) || system.backends.contains(&name);
    let reaches_all =
        site.inherit(system.name).is_some_and(|inherit| inherit.contains(&Inherited::Environment));
    for name in site.entry.into_iter().flat_map(|entry| entry.env.keys()) {
        let known = system.variables.iter().find(|setting| setting.name == name);
        let knowing = backend::registry::knowing(name);
        let told = |why: String| Told { name: name.clone(), why };
        match known.map(|setting| setting.fate) {
            _ if set.iter().any(|(set, _)| set == name) => {
                mapping.differs.push(told("an absolute path is needed; see the change".to_owned()));
            }
            Some(fate) => file(fate, name.clone(), mapping),
            None if reaches_all || env::is_base(name) || knowing.iter().any(|backend| used(backend)) => {
                mapping.honoured.push(name.clone());
            }
            None if knowing.is_empty() => {
                let why = "volery does not know it; agents get it only if they name it in env";
                mapping.not_honoured.push(told(why.to_owned()));
            }
            None => {
                let why =
                    "no agent found here runs on a backend that takes it by itself; others name it in env";
                mapping.not_honoured.push(told(why.to_owned()));
            }
        }
    }
}

/// Sorts the flags of an entry by what becomes of them. Returns the words of those that stay.
fn sort_flags(system: &System, entry: &ServerEntry, mapping: &mut Mapping) -> Vec<String> {
    let mut kept = Vec::new();
    let mut seen = BTreeSet::new();
    // What a launcher like npx takes is none of the system's.
    let words = entry.words_after(system.program);
    for (index, word) in words.iter().enumerate() {
        let Some(flag) = flag_of(word).map(|flag| flag.split('=').next().unwrap_or(flag)) else { continue };
        let known: Option<&Setting> = system.flags.iter().find(|setting| setting.name == flag);
        if system.flags.is_empty() || !seen.insert(flag) {
            continue;
        }
        let fate = known.map_or(Fate::NotHonoured("volery does not know it"), |setting| setting.fate);
        let dashes = if flag.len() == 1 { "-" } else { "--" };
        file(fate, format!("{dashes}{flag}"), mapping);
        if !matches!(fate, Fate::NotHonoured(_)) {
            kept.push(if word.starts_with("--") { word.clone() } else { format!("-{word}") });
            let value = words.get(index + 1).filter(|next| !word.contains('=') && flag_of(next).is_none());
            kept.extend(value.cloned());
        }
    }
    kept
}

fn file(fate: Fate, name: String, mapping: &mut Mapping) {
    match fate {
        Fate::Honoured => mapping.honoured.push(name),
        Fate::Differs(why) => mapping.differs.push(Told { name, why: why.to_owned() }),
        Fate::NotHonoured(why) => mapping.not_honoured.push(Told { name, why: why.to_owned() }),
    }
}

/// Tells which variables an agent's servers need that neither the entry nor this shell has.
fn unset(agent: &Agent, site: &Site<'_>) -> Option<Told> {
    let is_set = |name: &str| site.variable(name).map(str::to_owned).or_else(|| env::text(name));
    let texts = agent.setup.mcp_servers.iter().flat_map(texts);
    let missing: BTreeSet<String> = texts.filter_map(|text| text.resolve(is_set).err()).flatten().collect();
    if missing.is_empty() {
        return None;
    }
    let missing: Vec<String> = missing.into_iter().collect();
    let why = format!(
        "its servers need {}, not set here; an empty value is no longer taken, so its runs fail until it is",
        missing.join(", ")
    );
    Some(Told { name: agent.name.to_string(), why })
}

fn texts(server: &McpServer) -> Vec<&VariableText> {
    match &server.transport {
        Transport::Stdio { command: _, args, env } => args.iter().chain(env.values()).collect(),
        Transport::Http { url, headers } | Transport::Sse { url, headers } => {
            std::iter::once(url).chain(headers.values()).collect()
        }
    }
}
