//! The settings in force in a directory. Needs no state directory, so that a person can find out why there is none.

use definition::config::{Config, Setting};
use domain::agent::Layer;
use domain::diagnostic::Diagnostic;
use domain::id::{AgentName, BackendName};
use domain::nearest::nearest;
use domain::overlay::Overlay;
use serde::Serialize;
use serde_json::Value;

use super::AppError;
use crate::env;
use crate::registry::{self, Catalogue, Trust};

/// The settings in force, the files that set them, and what is wrong with those.
#[derive(Debug, Clone, Serialize)]
pub struct ConfigView {
    pub project: String,
    pub settings: Vec<SettingView>,
    /// The files that may set something, the one that wins last.
    pub files: Vec<ConfigPath>,
    pub diagnostics: Vec<Diagnostic>,
}

/// One setting.
#[derive(Debug, Clone, Serialize)]
pub struct SettingView {
    pub key: String,
    /// As a configuration file has it.
    pub value: Value,
    pub layer: Layer,
    /// The file that sets it, or what else does.
    pub source: String,
    /// Why it is not in force, or not all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_applied: Option<&'static str>,
}

/// Where a configuration file is, or would be.
#[derive(Debug, Clone, Serialize)]
pub struct ConfigPath {
    pub layer: Layer,
    pub file: String,
    pub exists: bool,
}

/// Reads the configuration of a directory's project.
pub fn read_configuration(directory: &str) -> Result<ConfigView, AppError> {
    let directory =
        registry::resolve_directory(directory).map_err(|error| AppError::usage(error.to_string()))?;
    let project = registry::find_project(&directory);
    let files = registry::config_paths(&project).into_iter().map(|(layer, path)| ConfigPath {
        layer,
        exists: path.exists(),
        file: path.display().to_string(),
    });
    let files = files.collect();
    let catalogue = registry::load(&project);
    let config = &catalogue.config;
    let mut settings: Vec<SettingView> = config.rows().into_iter().map(SettingView::from).collect();
    if !is_trusted(&catalogue) {
        settings.iter_mut().for_each(|setting| setting.not_applied = held_back(setting, config));
    }
    if config.slots_count.is_none() {
        // Before its neighbour, as in a file.
        let place = settings.iter().position(|setting| setting.key.starts_with("slots.")).unwrap_or(0);
        let value = crate::slots::count(config).into();
        let source = "this machine's memory".to_owned();
        settings.insert(
            place,
            SettingView {
                key: "slots.count".to_owned(),
                value,
                layer: Layer::Default,
                source,
                not_applied: None,
            },
        );
    }
    let read = registry::load_config(&project);
    let diagnostics = read.diagnostics.into_iter().chain(about_nobody(&catalogue)).collect();
    Ok(ConfigView { project, settings, files, diagnostics })
}

/// Tells whether the user trusts the project. Without a state directory nobody has said so.
fn is_trusted(catalogue: &Catalogue) -> bool {
    match env::state_home() {
        Some(home) => Trust::new(home.join("trust")).is_trusted(catalogue),
        None => Trust::executables(catalogue).is_empty(),
    }
}

/// Returns why a setting of a project that nobody has trusted is not in force.
fn held_back(setting: &SettingView, config: &Config) -> Option<&'static str> {
    if setting.layer != Layer::Project {
        return None;
    }
    let mut parts = setting.key.splitn(3, '.');
    let (section, name, key) = (parts.next()?, parts.next()?, parts.next()?);
    let overlays = match section {
        "backends" => return Some("the project is not trusted"),
        "agents" => name.parse().ok().and_then(|name: AgentName| config.agents.get(&name)),
        "defaults" => name.parse().ok().and_then(|name: BackendName| config.defaults.get(&name)),
        _ => None,
    };
    let own = overlays?.iter().find(|overlay| overlay.layer == Layer::Project)?;
    match key {
        _ if !own.value.may_widen() => None,
        "permission" => Some("only where it allows less: the project is not trusted"),
        _ => Some("the project is not trusted"),
    }
}

/// Warns of sections for agents and backends that do not exist. A user's file serves many projects, each with other agents:
/// there only a name that is nearly right is reported.
fn about_nobody(catalogue: &Catalogue) -> Vec<Diagnostic> {
    let config = &catalogue.config;
    let mut found = Vec::new();
    let agents: Vec<String> = catalogue
        .agents
        .keys()
        .map(ToString::to_string)
        .chain(backend::registry::built_in().into_iter().map(str::to_owned))
        .chain(config.backends.keys().map(ToString::to_string))
        .collect();
    for (name, sections) in &config.agents {
        let exists = catalogue.agent(name).is_some() || agents.iter().any(|known| known == name.as_str());
        let near = nearest(name.as_str(), agents.iter().map(String::as_str));
        let of_project = |section: &&Setting<Overlay>| section.layer == Layer::Project || near.is_some();
        for section in sections.iter().filter(|_| !exists).filter(of_project) {
            let message = format!("[agents.{name}]: there is no agent {name} here");
            found.push(with_nearest(Diagnostic::warning(&section.file, message), near));
        }
    }
    let backends: Vec<&str> = backend::registry::built_in()
        .into_iter()
        .chain(config.backends.keys().map(|name| name.as_str()))
        .collect();
    for (name, sections) in &config.defaults {
        let near = nearest(name.as_str(), backends.iter().copied());
        for section in sections.iter().filter(|_| !backends.contains(&name.as_str())) {
            let message = format!("[defaults.{name}]: there is no backend {name}");
            found.push(with_nearest(Diagnostic::warning(&section.file, message), near));
        }
    }
    found
}

fn with_nearest(found: Diagnostic, near: Option<&str>) -> Diagnostic {
    match near {
        Some(near) => found.hint(format!("did you mean {near}?")),
        None => found,
    }
}

impl From<definition::config::Row> for SettingView {
    fn from(row: definition::config::Row) -> Self {
        let definition::config::Row { key, value, layer, file } = row;
        Self { key, value, layer, source: file, not_applied: None }
    }
}
