//! The systems that Volery can replace.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use config::settings::Config;
use domain::agent::{Agent, AgentFormat, Layer};
use domain::dialect::DialectName;
use domain::inherit::Inherited;
use serde::Serialize;

use super::server_entry::ServerEntry;
use super::systems::{budgie, codex, jarvis, kiwi, powerspawn, sub_agents};
use engine::{AgentFolder, KiroPrompts};

/// How Volery treats a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SettingOutcome {
    Honoured,
    /// Honoured with a difference.
    Differs(&'static str),
    NotHonoured(&'static str),
}

/// An environment variable or a flag of the system.
#[derive(Debug)]
pub(super) struct SystemSetting {
    pub(super) name: &'static str,
    pub(super) outcome: SettingOutcome,
}

pub(super) const fn honoured(name: &'static str) -> SystemSetting {
    SystemSetting { name, outcome: SettingOutcome::Honoured }
}

pub(super) const fn differs(name: &'static str, how: &'static str) -> SystemSetting {
    SystemSetting { name, outcome: SettingOutcome::Differs(how) }
}

pub(super) const fn not_honoured(name: &'static str, why: &'static str) -> SystemSetting {
    SystemSetting { name, outcome: SettingOutcome::NotHonoured(why) }
}

/// A note about a setting or an agent. The values of unknown variables are left out, because they may be secrets.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct SettingNote {
    pub(super) name: String,
    pub(super) why: String,
}

impl SettingNote {
    /// Returns the name and the note in one sentence.
    pub(super) fn sentence(&self) -> String {
        let Self { name, why } = self;
        if why.starts_with(name.as_str()) { why.clone() } else { format!("{name}: {why}") }
    }
}

/// Where a set-up was found.
pub(super) struct SetupSite<'a> {
    pub(super) project: &'a Path,
    pub(super) home: &'a Path,
    /// The entry of the client that starts it, if there is one.
    pub(super) entry: Option<&'a ServerEntry>,
    /// The backends of the configuration, in addition to the built-in ones.
    pub(super) configured: &'a [String],
    pub(super) config: &'a Config,
    pub(super) commands: &'a Commands,
}

/// The commands by which clients start this program.
pub(super) struct Commands {
    pub(super) project_command: String,
    pub(super) user_command: String,
}

impl SetupSite<'_> {
    /// Returns what the agents of a system's dialect inherit from their user, if there is such a dialect.
    pub(super) fn inherit(&self, system: &str) -> Option<BTreeSet<Inherited>> {
        DialectName::parse(system).map(|dialect| self.config.inherit(dialect))
    }

    /// Returns a variable of the entry.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.entry.and_then(|entry| entry.env.get(name)).map(String::as_str)
    }

    /// Returns the folder that a flag names, else one in the home.
    pub(super) fn flag_or_home(&self, flag: &str, below: &str) -> PathBuf {
        self.flag_path(flag).unwrap_or_else(|| self.home.join(below))
    }

    /// Returns the path that a flag names.
    pub(super) fn flag_path(&self, flag: &str) -> Option<PathBuf> {
        let path_flag = self.entry.and_then(|entry| entry.flag(flag));
        path_flag.map(|path| self.project.join(expand(path, self.home)))
    }

    /// Returns a folder of agents.
    pub(super) fn folder(&self, path: PathBuf, format: AgentFormat) -> AgentFolder {
        AgentFolder {
            path,
            format,
            layer: Layer::Environment,
            boundary: None,
            prompts: KiroPrompts::default(),
        }
    }
}

fn expand(path: &str, home: &Path) -> PathBuf {
    path.strip_prefix("~/").map_or_else(|| PathBuf::from(path), |below| home.join(below))
}

/// A system that Volery can replace.
pub(super) struct System {
    /// Also the name of its dialect.
    pub(super) name: &'static str,
    /// A part of its program's name: the flags after it belong to the system.
    pub(super) program: &'static str,
    /// Returns whether an entry starts it.
    pub(super) matches_entry: fn(&ServerEntry) -> bool,
    /// Returns whether a project has its files, even if no client starts it.
    pub(super) has_files: fn(&Path) -> bool,
    pub(super) tools: &'static [&'static str],
    /// The backends that its agents use, in addition to those in their files.
    pub(super) backends: &'static [&'static str],
    pub(super) variables: &'static [SystemSetting],
    pub(super) flags: &'static [SystemSetting],
    pub(super) folders: fn(&SetupSite<'_>) -> Vec<AgentFolder>,
    /// Returns the names of the agents' sessions that can be continued.
    pub(super) sessions: fn(&SetupSite<'_>, &[Agent]) -> Vec<String>,
    /// Returns variables that the changed entry needs and the old one lacks or has in another form.
    pub(super) set_env: fn(&SetupSite<'_>) -> Vec<(&'static str, String)>,
    /// Returns the variables and flags with which the server would refuse to start.
    pub(super) startup_problems: fn(&SetupSite<'_>) -> Vec<SettingNote>,
    pub(super) note: Option<&'static str>,
}

pub(super) const SYSTEMS: [&System; 6] = [
    &sub_agents::SYSTEM,
    &budgie::SYSTEM,
    &powerspawn::SYSTEM,
    &jarvis::SYSTEM,
    &kiwi::SYSTEM,
    &codex::SYSTEM,
];

pub(super) fn nothing<T>(_site: &SetupSite<'_>) -> Vec<T> {
    Vec::new()
}

pub(super) fn no_sessions(_site: &SetupSite<'_>, _agents: &[Agent]) -> Vec<String> {
    Vec::new()
}

/// Returns the names of a folder's entries that have this ending, without it.
pub(super) fn names_in(folder: &Path, ending: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter_map(|name| name.strip_suffix(ending).map(str::to_owned)).collect();
    names.sort();
    names
}
