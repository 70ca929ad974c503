//! Maps the set-up of one system: its agents and sessions, and how each setting is treated.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use backends::client_setup::ConfigScope;
use domain::agent::Agent;
use domain::diagnostic::Diagnostic;
use domain::dialect::DialectName;
use domain::inherit::{Inherited, describe_all};
use domain::mcp_server::{McpServer, Transport, VariableText};
use serde::Serialize;
use serde_json::Value;

use super::server_change::ServerChange;
use super::server_entry::{ServerEntry, parse_flag};
use super::system::{SettingNote, SettingOutcome, SetupSite, System, SystemSetting};
use engine::env;
use engine::registry::read_folder;

/// How one set-up maps to Volery.
#[derive(Debug, Serialize)]
pub(super) struct Mapping {
    pub(super) system: &'static str,
    /// Whether this version of volery has its dialect.
    pub(super) available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) entry: Option<EntryFound>,
    /// The change of the entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) change: Option<ServerChange>,
    /// What must be fixed before it works.
    #[serde(rename = "to_mend")]
    pub(super) required_fixes: Vec<SettingNote>,
    pub(super) tools: &'static [&'static str],
    pub(super) agents: Vec<AgentFound>,
    /// Describes what the agents inherit from their user.
    #[serde(rename = "gives", skip_serializing_if = "Option::is_none")]
    pub(super) inherited_text: Option<String>,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) sessions: Vec<String>,
    pub(super) honoured: Vec<String>,
    pub(super) differs: Vec<SettingNote>,
    pub(super) not_honoured: Vec<SettingNote>,
    /// Why the entry cannot be changed yet: the server would not start, or the client does not read this file.
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

impl EntryFound {
    pub(super) fn new(entry: &ServerEntry) -> Self {
        let ServerEntry { client, file, below, name, .. } = entry.clone();
        Self { client, file, below, name }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct AgentFound {
    pub(super) name: String,
    pub(super) backend: String,
    pub(super) file: String,
}

pub(super) fn map_system(system: &'static System, site: &SetupSite<'_>) -> Mapping {
    let (mut agents, mut diagnostics) = (Vec::new(), Vec::new());
    for folder in (system.folders)(site).iter().filter(|folder| folder.path.is_dir()) {
        let variable = |name: &str| site.variable(name).map(str::to_owned);
        let (read, problems) = read_folder(folder, variable);
        diagnostics.extend(problems);
        agents.extend(read.into_values().map(Arc::unwrap_or_clone));
    }
    let mut mapping = Mapping {
        system: system.name,
        available: DialectName::parse(system.name).is_some(),
        entry: site.entry.map(EntryFound::new),
        change: None,
        required_fixes: Vec::new(),
        tools: system.tools,
        agents: agents.iter().map(summarize_agent).collect(),
        inherited_text: site.inherit(system.name).map(|inherit| describe_all(&inherit)),
        diagnostics,
        sessions: (system.sessions)(site, &agents),
        honoured: Vec::new(),
        differs: Vec::new(),
        not_honoured: Vec::new(),
        blockers: Vec::new(),
        note: system.note,
    };
    // Without a dialect, entries are not changed and variables not checked.
    if mapping.available {
        mapping.required_fixes = agents.iter().filter_map(|agent| missing_variables(agent, site)).collect();
        if let Some(entry) = site.entry {
            change(system, site, entry, &mut mapping);
        }
    }
    mapping
}

fn summarize_agent(agent: &Agent) -> AgentFound {
    AgentFound {
        name: agent.name.to_string(),
        backend: agent.backend.to_string(),
        file: agent.source.file.clone(),
    }
}

fn change(system: &System, site: &SetupSite<'_>, entry: &ServerEntry, mapping: &mut Mapping) {
    let set = (system.set_env)(site);
    sort_variables(system, site, &set, mapping);
    let retained_flags = sort_flags(system, entry, mapping);
    let startup_problems = (system.startup_problems)(site);
    mapping.honoured.retain(|name| !startup_problems.iter().any(|problem| problem.name == *name));
    let misplaced = entry.belongs_in.map(|right_file| SettingNote {
        name: entry.name.clone(),
        why: format!("the client reads no servers from this file: put the changed entry into {right_file}"),
    });
    let blockers: Vec<SettingNote> = misplaced.into_iter().chain(startup_problems).collect();
    mapping.blockers = blockers.iter().map(SettingNote::sentence).collect();
    mapping.required_fixes.splice(0..0, blockers);
    let args =
        ["serve", "--dialect", system.name].map(str::to_owned).into_iter().chain(retained_flags).collect();
    let set = set.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value)));
    let command = if entry.scope == ConfigScope::Project {
        &site.commands.project_command
    } else {
        &site.commands.user_command
    };
    mapping.change = Some(ServerChange::new(entry.form, command.clone(), args, set.collect()));
}

fn sort_variables(
    system: &System,
    site: &SetupSite<'_>,
    set: &[(&'static str, String)],
    mapping: &mut Mapping,
) {
    let backends: BTreeSet<String> = mapping.agents.iter().map(|agent| agent.backend.clone()).collect();
    let used = |name: &str| backends.contains(name) || system.backends.contains(&name);
    let reaches_all =
        site.inherit(system.name).is_some_and(|inherit| inherit.contains(&Inherited::Environment));
    for name in site.entry.into_iter().flat_map(|entry| entry.env.keys()) {
        let known = system.variables.iter().find(|setting| setting.name == name);
        let knowing = backends::registry::using_variable(name);
        let make_note = |why: String| SettingNote { name: name.clone(), why };
        match known.map(|setting| setting.outcome) {
            _ if set.iter().any(|(set, _)| set == name) => {
                mapping.differs.push(make_note("an absolute path is needed; see the change".to_owned()));
            }
            Some(outcome) => sort_setting(outcome, name.clone(), mapping),
            None if reaches_all || env::is_base(name) || knowing.iter().any(|backend| used(backend)) => {
                mapping.honoured.push(name.clone());
            }
            None if knowing.is_empty() => {
                let why = "volery does not know it; agents get it only if they name it in env";
                mapping.not_honoured.push(make_note(why.to_owned()));
            }
            None => {
                let why =
                    "no agent found here runs on a backend that takes it by itself; others name it in env";
                mapping.not_honoured.push(make_note(why.to_owned()));
            }
        }
    }
}

/// Sorts the flags of an entry by how they are treated. Returns the arguments to retain.
fn sort_flags(system: &System, entry: &ServerEntry, mapping: &mut Mapping) -> Vec<String> {
    let mut retained_flags = Vec::new();
    let mut seen = BTreeSet::new();
    // Flags of a launcher such as npx do not belong to the system.
    let arguments = entry.arguments_after(system.program);
    for (index, argument) in arguments.iter().enumerate() {
        let Some(flag) = parse_flag(argument).map(|flag| flag.split('=').next().unwrap_or(flag)) else {
            continue;
        };
        let known: Option<&SystemSetting> = system.flags.iter().find(|setting| setting.name == flag);
        if system.flags.is_empty() || !seen.insert(flag) {
            continue;
        }
        let outcome =
            known.map_or(SettingOutcome::NotHonoured("volery does not know it"), |setting| setting.outcome);
        let dashes = if flag.len() == 1 { "-" } else { "--" };
        sort_setting(outcome, format!("{dashes}{flag}"), mapping);
        if !matches!(outcome, SettingOutcome::NotHonoured(_)) {
            retained_flags.push(if argument.starts_with("--") {
                argument.clone()
            } else {
                format!("-{argument}")
            });
            let value =
                arguments.get(index + 1).filter(|next| !argument.contains('=') && parse_flag(next).is_none());
            retained_flags.extend(value.cloned());
        }
    }
    retained_flags
}

fn sort_setting(outcome: SettingOutcome, name: String, mapping: &mut Mapping) {
    match outcome {
        SettingOutcome::Honoured => mapping.honoured.push(name),
        SettingOutcome::Differs(why) => mapping.differs.push(SettingNote { name, why: why.to_owned() }),
        SettingOutcome::NotHonoured(why) => {
            mapping.not_honoured.push(SettingNote { name, why: why.to_owned() })
        }
    }
}

/// Notes the variables that an agent's servers need and that neither the entry nor this shell sets.
fn missing_variables(agent: &Agent, site: &SetupSite<'_>) -> Option<SettingNote> {
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
    Some(SettingNote { name: agent.name.to_string(), why })
}

fn texts(server: &McpServer) -> Vec<&VariableText> {
    match &server.transport {
        Transport::Stdio { command: _, args, env } => args.iter().chain(env.values()).collect(),
        Transport::Http { url, headers } | Transport::Sse { url, headers } => {
            std::iter::once(url).chain(headers.values()).collect()
        }
    }
}
