//! Reads the agents and the configuration of a project and its user. Picks up changes without a restart, and does not
//! read unchanged files again.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use backends::contract::ProjectExecutable;
use backends::user_environment::ProjectFolders;
use config::settings::{Config, ConfigFile, ConfigLayer, ProjectBounds, Widening};
use domain::agent::{Agent, AgentFormat, Layer};
use domain::diagnostic::Diagnostic;
use domain::id::AgentName;

use super::agents::{self, Agents};
use super::duplicates::split_format;
use super::file_cache::FileCache;
use super::guarded_read::{ESCAPES_FOLDER, escapes_folder, read_text};
use super::trust::project_executables;
use crate::env;

/// The configuration of the machine's administrator.
const SYSTEM_CONFIG: &str = "/etc/volery/config.toml";

static DEFINITIONS: FileCache<String, Definitions> = FileCache::new();

/// Everything that is defined for a project, and what its files would execute.
#[derive(Debug)]
pub struct Catalog {
    definitions: Arc<Definitions>,
    programs: OnceLock<Vec<ProjectExecutable>>,
}

impl Deref for Catalog {
    type Target = Definitions;

    fn deref(&self) -> &Definitions {
        &self.definitions
    }
}

impl Catalog {
    /// Returns what vendors' programs would execute because of files at the top of the project, or above it in its
    /// work tree. Computed at the first call; a start whose program reads no such files never calls it.
    pub fn project_executables(&self) -> &[ProjectExecutable] {
        let find = || project_executables::find_all(&ProjectFolders::of_run(&self.project, &self.project));
        self.programs.get_or_init(find)
    }

    /// Warns about settings of vendors' programs that could not be read.
    pub fn unread_settings(&self) -> Vec<Diagnostic> {
        unread_warnings(self.project_executables())
    }
}

/// The definitions in the files of a project and its user.
#[derive(Debug)]
pub struct Definitions {
    pub project: String,
    pub agents: BTreeMap<AgentName, Arc<Agent>>,
    /// Agents whose name a stronger file has, by `FORMAT:NAME`.
    pub shadowed: BTreeMap<AgentName, Arc<Agent>>,
    /// Names with a file that cannot be used, and why. Another file may define the same name.
    pub broken: BTreeMap<AgentName, Diagnostic>,
    /// The readable parts of files that cannot be used. They are never run.
    pub drafts: Vec<Agent>,
    pub config: Config,
    /// The limits that the project's agents may not loosen.
    pub bounds: ProjectBounds,
    pub config_files: Vec<LoadedConfigFile>,
    pub diagnostics: Vec<Diagnostic>,
}

impl Definitions {
    /// Returns the agent that a file defines under a name. `FORMAT:NAME` selects one of several files that define the
    /// name. An agent whose own name has this form, such as a plug-in's, comes first.
    pub(super) fn agent_from_file(&self, name: &AgentName) -> Option<&Agent> {
        let from_format = || {
            let (format, plain) = split_format(name)?;
            let used = self.agents.get(&plain).filter(|agent| agent.source.format == format);
            used.or_else(|| self.shadowed.get(name))
        };
        self.agents.get(name).or_else(from_format).map(Arc::as_ref)
    }

    /// Returns the directives whose file has this name without its extension, in any folder. One of them may be broken.
    pub(crate) fn directives_by_stem(&self, name: &AgentName) -> Vec<&AgentName> {
        let is_directive =
            |(_, agent): &(&AgentName, &Arc<Agent>)| agent.source.format == AgentFormat::Directive;
        let usable = self.agents.iter().filter(is_directive).map(|(name, _)| name);
        let has_stem =
            |path: &&AgentName| path.as_str().rsplit_once('/').is_some_and(|(_, stem)| stem == name.as_str());
        usable.chain(self.broken.keys()).filter(has_stem).collect()
    }
}

/// An existing configuration file, and what it would execute.
#[derive(Debug, Clone)]
pub struct LoadedConfigFile {
    pub file: String,
    pub layer: Layer,
    pub executables: String,
    /// The parts of that which allow agents more instead of executing something, each with its line.
    pub widenings: Vec<(Widening, Option<u32>)>,
    /// A setting other than a backend could not be read.
    pub unsound: bool,
    pub diagnostics: Vec<Diagnostic>,
}

/// The effective configuration of a project.
#[derive(Debug)]
pub struct LoadedConfig {
    pub config: Config,
    pub bounds: ProjectBounds,
    pub files: Vec<LoadedConfigFile>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Returns the possible configuration files of a project, the strongest last.
pub fn config_paths(project: &str) -> Vec<(Layer, PathBuf)> {
    let user = env::config_home().map(|folder| (Layer::User, folder.join("config.toml")));
    let system = (Layer::System, PathBuf::from(SYSTEM_CONFIG));
    let own = (Layer::Project, Path::new(project).join(".volery/config.toml"));
    [Some(system), user, Some(own)].into_iter().flatten().collect()
}

/// Reads the effective configuration of a project.
pub fn load_config(project: &str) -> LoadedConfig {
    let mut diagnostics = Vec::new();
    let mut layers = Vec::new();
    let mut files = Vec::new();
    for (layer, path) in config_paths(project) {
        let Some((found, settings)) = read_config(layer, &path, project) else { continue };
        layers.push((layer, found.file.clone(), settings));
        files.push(found);
    }
    let without_project = layers.iter().filter(|(layer, ..)| *layer != Layer::Project).cloned().collect();
    let bounds = ProjectBounds::new(&config::settings::merge(without_project));
    for ((layer, file, settings), found) in layers.iter_mut().zip(&mut files) {
        if *layer == Layer::Project {
            found.diagnostics.extend(bounds.restrict_config(settings, file));
        }
        diagnostics.extend(found.diagnostics.clone());
    }
    if let Some(settings) = from_environment(&mut diagnostics) {
        layers.push((Layer::Environment, "(environment)".to_owned(), settings));
    }
    LoadedConfig { config: config::settings::merge(layers), bounds, files, diagnostics }
}

/// Returns all definitions for a project.
pub fn load(project: &str) -> Catalog {
    let definitions = DEFINITIONS.get(&project.to_owned(), || read(project));
    Catalog { definitions, programs: OnceLock::new() }
}

fn read(project: &str) -> Definitions {
    let LoadedConfig { config, bounds, files: config_files, mut diagnostics } = load_config(project);
    let Agents { usable: agents, shadowed, broken, drafts, .. } =
        agents::read(Path::new(project), &mut diagnostics);
    let project = project.to_owned();
    Definitions { project, agents, shadowed, broken, drafts, config, bounds, config_files, diagnostics }
}

fn unread_warnings(programs: &[ProjectExecutable]) -> Vec<Diagnostic> {
    let warnings = programs.iter().filter_map(|program| {
        let message = format!("could not read it: {}", program.read_error.as_ref()?);
        let hint = "agents whose program would read it need `volery trust`";
        Some(Diagnostic::warning(&program.file.display().to_string(), message).hint(hint))
    });
    let mut warnings: Vec<Diagnostic> = warnings.collect();
    warnings.dedup();
    warnings
}

fn read_config(layer: Layer, path: &Path, project: &str) -> Option<(LoadedConfigFile, ConfigLayer)> {
    let file = path.display().to_string();
    let mut diagnostics = Vec::new();
    // A repository must not choose which of the user's other files is read as a configuration.
    let linked =
        layer == Layer::Project && (path.is_symlink() || path.parent().is_some_and(Path::is_symlink));
    let leaves = linked && escapes_folder(path, Path::new(project));
    let text = match leaves {
        true => {
            diagnostics.push(Diagnostic::error(&file, ESCAPES_FOLDER));
            None
        }
        false => read_text(path, &mut diagnostics),
    };
    let Some(text) = text else {
        // An unreadable limit must not simply be ignored.
        let settings = ConfigLayer { has_errors: true, ..ConfigLayer::default() };
        let found = LoadedConfigFile {
            file,
            layer,
            executables: String::new(),
            widenings: Vec::new(),
            unsound: true,
            diagnostics,
        };
        return (!found.diagnostics.is_empty()).then_some((found, settings));
    };
    let built_in = backends::registry::built_in();
    let (settings, found) =
        config::settings::read(ConfigFile { text: &text, file: &file, layer, built_in: &built_in });
    let executables = config::settings::executables(&settings);
    let unsound = settings.has_errors;
    let widenings = match layer {
        Layer::Project => config::settings::widenings(&settings),
        _ => Vec::new(),
    };
    let widenings = widenings.into_iter().map(|widening| {
        let path: Vec<&str> = widening.path.iter().map(String::as_str).collect();
        let line = config::agent_formats::locate_key_path(&file, &text, &path).map(|(line, _)| line);
        (widening, line)
    });
    let widenings = widenings.collect();
    Some((LoadedConfigFile { file, layer, executables, widenings, unsound, diagnostics: found }, settings))
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
