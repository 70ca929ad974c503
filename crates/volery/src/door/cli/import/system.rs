//! What is known about the systems that volery can stand in for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use definition::config::Config;
use domain::agent::{Agent, Format, Layer};
use domain::dialect::DialectName;
use domain::inherit::Inherited;
use serde::Serialize;

use super::entry::ServerEntry;
use super::systems::{budgie, codex, jarvis, kiwi, powerspawn, sub_agents};
use crate::app::{Folder, Prompts};

/// What becomes of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Honoured,
    /// Honoured, but not quite as before.
    Differs(&'static str),
    NotHonoured(&'static str),
}

/// A variable or a flag of the system.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) fate: Fate,
}

pub(super) const fn honoured(name: &'static str) -> Setting {
    Setting { name, fate: Fate::Honoured }
}

pub(super) const fn differs(name: &'static str, how: &'static str) -> Setting {
    Setting { name, fate: Fate::Differs(how) }
}

pub(super) const fn not_honoured(name: &'static str, why: &'static str) -> Setting {
    Setting { name, fate: Fate::NotHonoured(why) }
}

/// A setting or an agent, and what is to be known about it. The value of a variable that volery does not know is not
/// told: it may be a secret.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Told {
    pub(super) name: String,
    pub(super) why: String,
}

impl Told {
    /// Returns both in one sentence.
    pub(super) fn sentence(&self) -> String {
        let Self { name, why } = self;
        if why.starts_with(name.as_str()) { why.clone() } else { format!("{name}: {why}") }
    }
}

/// Where a set-up was found.
pub(super) struct Site<'a> {
    pub(super) project: &'a Path,
    pub(super) home: &'a Path,
    /// The entry by which a client starts it, if there is one.
    pub(super) entry: Option<&'a ServerEntry>,
    /// The backends of the configuration, beside those that are built in.
    pub(super) configured: &'a [String],
    pub(super) config: &'a Config,
    pub(super) commands: &'a Commands,
}

/// How clients start this program.
pub(super) struct Commands {
    pub(super) of_project: String,
    pub(super) of_user: String,
}

impl Site<'_> {
    /// Returns what the agents of a system's dialect get from their user, if there is such a dialect.
    pub(super) fn inherit(&self, system: &str) -> Option<BTreeSet<Inherited>> {
        DialectName::parse(system).map(|dialect| self.config.inherit(dialect))
    }

    /// Returns a variable of the entry.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.entry.and_then(|entry| entry.env.get(name)).map(String::as_str)
    }

    /// Returns a folder that a flag names, else one below the home.
    pub(super) fn flag_or_home(&self, flag: &str, below: &str) -> PathBuf {
        self.flag_path(flag).unwrap_or_else(|| self.home.join(below))
    }

    /// Returns a path that a flag names.
    pub(super) fn flag_path(&self, flag: &str) -> Option<PathBuf> {
        let named = self.entry.and_then(|entry| entry.flag(flag));
        named.map(|path| self.project.join(expand(path, self.home)))
    }

    /// Returns a folder of agents in this place.
    pub(super) fn folder(&self, path: PathBuf, format: Format) -> Folder {
        Folder { path, format, layer: Layer::Environment, within: None, prompts: Prompts::default() }
    }
}

fn expand(path: &str, home: &Path) -> PathBuf {
    path.strip_prefix("~/").map_or_else(|| PathBuf::from(path), |below| home.join(below))
}

/// One of the systems.
pub(super) struct System {
    /// Also the name of its dialect.
    pub(super) name: &'static str,
    /// What the name of its program contains: the flags that follow are its own.
    pub(super) program: &'static str,
    /// Tells whether an entry starts it.
    pub(super) is: fn(&ServerEntry) -> bool,
    /// Tells whether its files are in a project that no client's configuration speaks of.
    pub(super) left_files: fn(&Path) -> bool,
    pub(super) tools: &'static [&'static str],
    /// The backends that its agents have, beside those that their files name.
    pub(super) backends: &'static [&'static str],
    pub(super) variables: &'static [Setting],
    pub(super) flags: &'static [Setting],
    pub(super) folders: fn(&Site<'_>) -> Vec<Folder>,
    /// Returns the sessions of these agents that can be continued, by name.
    pub(super) sessions: fn(&Site<'_>, &[Agent]) -> Vec<String>,
    /// Returns variables that the changed entry needs and the old one did not, or said in another way.
    pub(super) set_env: fn(&Site<'_>) -> Vec<(&'static str, String)>,
    /// Returns what would keep the server from starting with the changed entry, by the variable or flag.
    pub(super) refused: fn(&Site<'_>) -> Vec<Told>,
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

pub(super) fn nothing<T>(_site: &Site<'_>) -> Vec<T> {
    Vec::new()
}

pub(super) fn no_sessions(_site: &Site<'_>, _agents: &[Agent]) -> Vec<String> {
    Vec::new()
}

/// Returns the names of what a folder holds, without this ending.
pub(super) fn names_in(folder: &Path, ending: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter_map(|name| name.strip_suffix(ending).map(str::to_owned)).collect();
    names.sort();
    names
}
