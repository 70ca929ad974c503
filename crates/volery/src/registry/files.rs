//! Reads agents and configuration of a project and its user, freshly each time: the files are few and small, and
//! a change is picked up without a restart.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use definition::agent::AgentFile;
use definition::config::{Config, ConfigFile, ConfigLayer};
use domain::agent::{Agent, Layer, Script, ScriptSource};
use domain::diagnostic::Diagnostic;
use domain::id::AgentName;

use crate::env;

/// The most agent files that are read from one folder.
const FILES_MAX: usize = 1_000;
/// Where the machine's administrator puts a configuration.
const SYSTEM_CONFIG: &str = "/etc/volery/config.toml";

/// Everything that is defined for a project.
#[derive(Debug)]
pub struct Catalogue {
    pub project: String,
    pub agents: BTreeMap<AgentName, Agent>,
    pub config: Config,
    pub config_files: Vec<ConfigFound>,
    pub diagnostics: Vec<Diagnostic>,
}

/// A configuration file that exists, and what it would execute.
#[derive(Debug, Clone)]
pub struct ConfigFound {
    pub file: String,
    pub layer: Layer,
    pub executables: String,
    /// A setting other than a backend could not be read.
    pub unsound: bool,
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads all definitions that hold in a project.
pub fn load(project: &str) -> Catalogue {
    let user = env::config_home();
    let mut diagnostics = Vec::new();
    let mut layers = Vec::new();
    let mut config_files = Vec::new();
    let candidates = [
        (Layer::System, Some(PathBuf::from(SYSTEM_CONFIG))),
        (Layer::User, user.as_ref().map(|path| path.join("config.toml"))),
        (Layer::Project, Some(Path::new(project).join(".volery/config.toml"))),
    ];
    for (layer, path) in candidates {
        let Some(path) = path else { continue };
        let Some((found, settings)) = read_config(layer, &path, &mut diagnostics) else { continue };
        layers.push((layer, found.file.clone(), settings));
        diagnostics.extend(found.diagnostics.clone());
        config_files.push(found);
    }
    if let Some(settings) = from_environment(&mut diagnostics) {
        layers.push((Layer::Environment, "(environment)".to_owned(), settings));
    }
    let config = definition::config::merge(layers);
    let mut agents = BTreeMap::new();
    // Nearer folders come later, and win.
    if let Some(user) = user {
        read_agents(Layer::User, &user.join("agents"), &mut agents, &mut diagnostics);
    }
    let own = Path::new(project).join(".volery/agents");
    read_agents(Layer::Project, &own, &mut agents, &mut diagnostics);
    Catalogue { project: project.to_owned(), agents, config, config_files, diagnostics }
}

fn read_config(
    layer: Layer,
    path: &Path,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<(ConfigFound, ConfigLayer)> {
    let file = path.display().to_string();
    let text = read_text(path, diagnostics)?;
    let built_in = backend::registry::built_in();
    let (settings, found) =
        definition::config::read(ConfigFile { text: &text, file: &file, layer, built_in: &built_in });
    let executables = definition::config::executables(&settings);
    let unsound = settings.unsound;
    Some((ConfigFound { file, layer, executables, unsound, diagnostics: found }, settings))
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

fn read_agents(
    layer: Layer,
    folder: &Path,
    agents: &mut BTreeMap<AgentName, Agent>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    if paths.len() > FILES_MAX {
        let message = format!("only the first {FILES_MAX} of {} agent files are read", paths.len());
        diagnostics.push(Diagnostic::warning(&folder.display().to_string(), message));
        paths.truncate(FILES_MAX);
    }
    for path in paths {
        // Only a link can lead elsewhere, and resolving a path costs a system call for each of its parts.
        if path.is_symlink() && leaves_folder(&path, folder) {
            let message = "the symbolic link leaves its folder, so it is not read";
            diagnostics.push(Diagnostic::error(&path.display().to_string(), message));
            continue;
        }
        let Some(mut agent) = read_agent(layer, &path, diagnostics) else { continue };
        resolve_script(&mut agent, folder, diagnostics);
        if let Some(known) = agents.get(&agent.name) {
            let file = &agent.source.file;
            let message = match known.source.layer == layer {
                true => {
                    format!("agent {} is also defined in {}; this one is used", agent.name, known.source.file)
                }
                false => format!("agent {} hides the one in {}", agent.name, known.source.file),
            };
            diagnostics.push(Diagnostic::warning(file, message));
        }
        agents.insert(agent.name.clone(), agent);
    }
}

fn read_agent(layer: Layer, path: &Path, diagnostics: &mut Vec<Diagnostic>) -> Option<Agent> {
    let file = path.display().to_string();
    let text = read_text(path, diagnostics)?;
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let (agent, found) = definition::agent::volery::read(AgentFile { text: &text, file: &file, stem, layer });
    diagnostics.extend(found);
    agent
}

/// Reads the script that an agent names, so that a run holds its steps and not a path.
fn resolve_script(agent: &mut Agent, folder: &Path, diagnostics: &mut Vec<Diagnostic>) {
    let Some(ScriptSource::File(relative)) = &agent.script else { return };
    let path = folder.join(relative);
    let script = if leaves_folder(&path, folder) {
        diagnostics
            .push(Diagnostic::error(&agent.source.file, format!("the script {relative} leaves its folder")));
        None
    } else if let Some(text) = read_text(&path, diagnostics) {
        let (script, found) = definition::script::read(&text, &path.display().to_string());
        diagnostics.extend(found);
        script
    } else {
        diagnostics
            .push(Diagnostic::error(&agent.source.file, format!("the script {relative} cannot be read")));
        None
    };
    agent.script = Some(ScriptSource::Inline(script.unwrap_or_else(|| unreadable(relative))));
}

/// A rehearsal whose script is broken fails with the reason, instead of succeeding at nothing.
fn unreadable(relative: &str) -> Script {
    let message = format!("the script {relative} could not be read; `volery agents check` tells why");
    Script { steps: vec![domain::agent::Step::Fail(message)] }
}

fn leaves_folder(path: &Path, folder: &Path) -> bool {
    match (path.canonicalize(), folder.canonicalize()) {
        (Ok(path), Ok(folder)) => !path.starts_with(folder),
        // What cannot be resolved cannot be read either, and reading says why.
        (Err(_), _) | (_, Err(_)) => false,
    }
}

/// Returns the text of a file; a file that is not there says nothing, anything else is reported.
fn read_text(path: &Path, diagnostics: &mut Vec<Diagnostic>) -> Option<String> {
    let shown = path.display().to_string();
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            diagnostics.push(Diagnostic::error(&shown, format!("could not read it: {error}")));
            return None;
        }
    };
    let max = definition::FILE_BYTES_MAX as u64;
    let mut bytes = Vec::with_capacity(4 << 10);
    if let Err(error) = file.take(max + 1).read_to_end(&mut bytes) {
        diagnostics.push(Diagnostic::error(&shown, format!("could not read it: {error}")));
        return None;
    }
    if bytes.len() as u64 > max {
        diagnostics.push(Diagnostic::error(&shown, format!("it is larger than {} KiB", max >> 10)));
        return None;
    }
    match String::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) => {
            let line =
                error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n');
            let line = u32::try_from(line.count() + 1).unwrap_or(u32::MAX);
            diagnostics.push(Diagnostic::error(&shown, "it is not valid UTF-8").at(line, 1));
            None
        }
    }
}
