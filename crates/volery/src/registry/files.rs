//! Reads agents and configuration of a project and its user. A change is picked up without a restart; what has not
//! changed is not read again.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use backend::contract::ProjectProgram;
use definition::config::{Config, ConfigFile, ConfigLayer, ProjectBounds, Widening};
use domain::agent::{Agent, Layer};
use domain::diagnostic::Diagnostic;
use domain::id::AgentName;

use super::agents::{self, Agents};
use super::duplicates::split_format;
use super::file_cache::FileCache;
use super::programs_of_projects;
use super::text::{LEAVES, leaves_folder, read_text};
use crate::env;

/// Where the machine's administrator puts a configuration.
const SYSTEM_CONFIG: &str = "/etc/volery/config.toml";

static DEFINITIONS: FileCache<String, Definitions> = FileCache::new();

/// Everything that is defined for a project, and what its files would execute.
#[derive(Debug)]
pub struct Catalogue {
    definitions: Arc<Definitions>,
    programs: OnceLock<Vec<ProjectProgram>>,
}

impl Deref for Catalogue {
    type Target = Definitions;

    fn deref(&self) -> &Definitions {
        &self.definitions
    }
}

impl Catalogue {
    /// Returns what vendors' programs would execute because files at the top of the project, or above it in its work
    /// tree, say so. The first question looks; a start whose program reads no such files never asks.
    pub fn programs(&self) -> &[ProjectProgram] {
        let look = || programs_of_projects::found(&backend::user::upward(&self.project, &self.project));
        self.programs.get_or_init(look)
    }

    /// Says which settings of vendors' programs could not be read.
    pub fn unread_settings(&self) -> Vec<Diagnostic> {
        unread(self.programs())
    }
}

/// What the files of a project and its user define.
#[derive(Debug)]
pub struct Definitions {
    pub project: String,
    pub agents: BTreeMap<AgentName, Agent>,
    /// Agents whose name a stronger file has, by `FORMAT:NAME`.
    pub shadowed: BTreeMap<AgentName, Agent>,
    /// Names for which a file cannot be used, and why. Another file may define the same name.
    pub broken: BTreeMap<AgentName, Diagnostic>,
    /// What could be read of files that cannot be used. No agents, and never run.
    pub drafts: Vec<Agent>,
    pub config: Config,
    /// What the project's agents may not loosen.
    pub bounds: ProjectBounds,
    pub config_files: Vec<ConfigFound>,
    pub diagnostics: Vec<Diagnostic>,
}

impl Definitions {
    /// Returns the agent that a file defines under a name. `FORMAT:NAME` selects one of several files that define the name. An agent whose own name
    /// is spelled like that, as a plug-in's is, comes first.
    pub(super) fn agent_of_file(&self, name: &AgentName) -> Option<&Agent> {
        let of_format = || {
            let (format, plain) = split_format(name)?;
            let used = self.agents.get(&plain).filter(|agent| agent.source.format == format);
            used.or_else(|| self.shadowed.get(name))
        };
        self.agents.get(name).or_else(of_format)
    }
}

/// A configuration file that exists, and what it would execute.
#[derive(Debug, Clone)]
pub struct ConfigFound {
    pub file: String,
    pub layer: Layer,
    pub executables: String,
    /// What of that allows agents more instead of executing something, each with its line.
    pub widenings: Vec<(Widening, Option<u32>)>,
    /// A setting other than a backend could not be read.
    pub unsound: bool,
    pub diagnostics: Vec<Diagnostic>,
}

/// The configuration that holds in a project.
#[derive(Debug)]
pub struct ReadConfig {
    pub config: Config,
    pub bounds: ProjectBounds,
    pub files: Vec<ConfigFound>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Returns where a project's configuration may be, the file that wins last.
pub fn config_paths(project: &str) -> Vec<(Layer, PathBuf)> {
    let user = env::config_home().map(|folder| (Layer::User, folder.join("config.toml")));
    let system = (Layer::System, PathBuf::from(SYSTEM_CONFIG));
    let own = (Layer::Project, Path::new(project).join(".volery/config.toml"));
    [Some(system), user, Some(own)].into_iter().flatten().collect()
}

/// Reads the configuration that holds in a project.
pub fn load_config(project: &str) -> ReadConfig {
    let mut diagnostics = Vec::new();
    let mut layers = Vec::new();
    let mut files = Vec::new();
    for (layer, path) in config_paths(project) {
        let Some((found, settings)) = read_config(layer, &path, project) else { continue };
        layers.push((layer, found.file.clone(), settings));
        files.push(found);
    }
    let without_project = layers.iter().filter(|(layer, ..)| *layer != Layer::Project).cloned().collect();
    let bounds = ProjectBounds::new(&definition::config::merge(without_project));
    for ((layer, file, settings), found) in layers.iter_mut().zip(&mut files) {
        if *layer == Layer::Project {
            found.diagnostics.extend(bounds.hold_config(settings, file));
        }
        diagnostics.extend(found.diagnostics.clone());
    }
    if let Some(settings) = from_environment(&mut diagnostics) {
        layers.push((Layer::Environment, "(environment)".to_owned(), settings));
    }
    ReadConfig { config: definition::config::merge(layers), bounds, files, diagnostics }
}

/// Returns all definitions that hold in a project.
pub fn load(project: &str) -> Catalogue {
    let definitions = DEFINITIONS.get(&project.to_owned(), || read(project));
    Catalogue { definitions, programs: OnceLock::new() }
}

fn read(project: &str) -> Definitions {
    let ReadConfig { config, bounds, files: config_files, mut diagnostics } = load_config(project);
    let Agents { sound: agents, shadowed, broken, drafts, .. } =
        agents::read(Path::new(project), &mut diagnostics);
    let project = project.to_owned();
    Definitions { project, agents, shadowed, broken, drafts, config, bounds, config_files, diagnostics }
}

fn unread(programs: &[ProjectProgram]) -> Vec<Diagnostic> {
    let unread = programs.iter().filter_map(|program| {
        let message = format!("could not read it: {}", program.unread.as_ref()?);
        let hint = "agents whose program would read it need `volery trust`";
        Some(Diagnostic::warning(&program.file.display().to_string(), message).hint(hint))
    });
    let mut unread: Vec<Diagnostic> = unread.collect();
    unread.dedup();
    unread
}

fn read_config(layer: Layer, path: &Path, project: &str) -> Option<(ConfigFound, ConfigLayer)> {
    let file = path.display().to_string();
    let mut diagnostics = Vec::new();
    // A repository must not choose which of the user's other files is read as a configuration.
    let linked =
        layer == Layer::Project && (path.is_symlink() || path.parent().is_some_and(Path::is_symlink));
    let leaves = linked && leaves_folder(path, Path::new(project));
    let text = match leaves {
        true => {
            diagnostics.push(Diagnostic::error(&file, LEAVES));
            None
        }
        false => read_text(path, &mut diagnostics),
    };
    let Some(text) = text else {
        // A limit that cannot be read is not simply left out.
        let settings = ConfigLayer { unsound: true, ..ConfigLayer::default() };
        let found = ConfigFound {
            file,
            layer,
            executables: String::new(),
            widenings: Vec::new(),
            unsound: true,
            diagnostics,
        };
        return (!found.diagnostics.is_empty()).then_some((found, settings));
    };
    let built_in = backend::registry::built_in();
    let (settings, found) =
        definition::config::read(ConfigFile { text: &text, file: &file, layer, built_in: &built_in });
    let executables = definition::config::executables(&settings);
    let unsound = settings.unsound;
    let widenings = match layer {
        Layer::Project => definition::config::widenings(&settings),
        _ => Vec::new(),
    };
    let widenings = widenings.into_iter().map(|widening| {
        let path: Vec<&str> = widening.path.iter().map(String::as_str).collect();
        let line = definition::agent::place_of_path(&file, &text, &path).map(|(line, _)| line);
        (widening, line)
    });
    let widenings = widenings.collect();
    Some((ConfigFound { file, layer, executables, widenings, unsound, diagnostics: found }, settings))
}

fn from_environment(diagnostics: &mut Vec<Diagnostic>) -> Option<ConfigLayer> {
    let value = env::get(env::VOLERY_SLOTS)?;
    let mut settings = ConfigLayer::default();
    match value.to_str().and_then(|text| text.parse().ok()).filter(|count| *count > 0) {
        Some(count) => settings.slots.count = Some(count),
        None => {
            let message = format!("{} is {value:?}, which is not a number above 0", env::VOLERY_SLOTS);
            diagnostics.push(Diagnostic::warning("(environment)", message));
        }
    }
    Some(settings)
}
