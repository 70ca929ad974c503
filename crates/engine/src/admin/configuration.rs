//! The effective settings in a directory. Needs no state directory, so that a user can find out why there is none.

use std::borrow::Cow;

use config::settings::ConfigSetting;
use domain::agent::{Agent, AgentFormat, AgentSource, Layer};
use domain::diagnostic::Diagnostic;
use domain::id::{AgentName, BackendName};
use domain::nearest::nearest;
use domain::overlay::Overlay;
use serde::Serialize;
use serde_json::Value;

use crate::api::EngineError;
use crate::env;
use crate::registry::{self, Catalog, TrustStore};

/// The effective settings, the files that set them, and the diagnostics about those.
#[derive(Debug, Clone, Serialize)]
pub struct ConfigView {
    pub project: String,
    pub settings: Vec<SettingView>,
    /// The possible configuration files, the strongest last.
    pub files: Vec<ConfigPath>,
    pub diagnostics: Vec<Diagnostic>,
}

#[derive(Debug, Clone, Serialize)]
pub struct SettingView {
    pub key: String,
    /// In the notation of a configuration file.
    pub value: Value,
    pub layer: Layer,
    /// The file that sets it, or another source.
    pub source: String,
    /// Why it does not apply, or not all of it.
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
pub fn read_configuration(directory: &str) -> Result<ConfigView, EngineError> {
    let directory =
        registry::resolve_directory(directory).map_err(|error| EngineError::usage(error.to_string()))?;
    let project = registry::find_project(&directory);
    let files = registry::config_paths(&project).into_iter().map(|(layer, path)| ConfigPath {
        layer,
        exists: path.exists(),
        file: path.display().to_string(),
    });
    let files = files.collect();
    let catalog = registry::load(&project);
    let config = &catalog.config;
    let mut settings: Vec<SettingView> = config.rows().into_iter().map(SettingView::from).collect();
    if !is_trusted(&catalog) {
        settings.iter_mut().for_each(|setting| setting.not_applied = not_applied_reason(setting, &catalog));
    }
    if config.slots_count.is_none() {
        // Before its neighbour, as in a file.
        let position = settings.iter().position(|setting| setting.key.starts_with("slots.")).unwrap_or(0);
        let value = crate::slot_count::slot_count(config).into();
        let source = "this machine's memory".to_owned();
        settings.insert(
            position,
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
    let diagnostics = read.diagnostics.into_iter().chain(unknown_sections(&catalog)).collect();
    Ok(ConfigView { project, settings, files, diagnostics })
}

/// Returns whether the user trusts the project. Without a state directory there is no trust.
fn is_trusted(catalog: &Catalog) -> bool {
    match env::state_home() {
        Some(home) => TrustStore::new(home.join("trust")).is_trusted(catalog),
        None => TrustStore::executables(catalog).is_empty(),
    }
}

/// Returns why a setting of an untrusted project does not apply.
fn not_applied_reason(setting: &SettingView, catalog: &Catalog) -> Option<&'static str> {
    let config = &catalog.config;
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
        "permission" if is_permission_applied(section, name, own, catalog) => None,
        "permission" if own.value.permission.deny.is_empty() => {
            Some("it allows more, and the project is not trusted")
        }
        "permission" => Some("it allows more, and the project is not trusted; only its deny rules apply"),
        _ => Some("the project is not trusted"),
    }
}

/// Returns whether a permission of an untrusted project applies to the agent of the section, or to an agent without a
/// permission on the backend of the section: it does where it allows less.
fn is_permission_applied(
    section: &str,
    name: &str,
    overlay: &ConfigSetting<Overlay>,
    catalog: &Catalog,
) -> bool {
    let agent = match section {
        "agents" => name.parse().ok().and_then(|name: AgentName| catalog.agent(&name)),
        _ => name.parse().ok().map(|backend: BackendName| {
            let source = AgentSource {
                file: overlay.file.clone(),
                format: AgentFormat::Volery,
                layer: Layer::Project,
            };
            let any: AgentName = "any".parse().expect("this is a name");
            Cow::Owned(Agent::new(any, backend, source))
        }),
    };
    let Some(agent) = agent else { return false };
    let resolved = crate::admission::resolve_untrusted(catalog, agent);
    let by = crate::admission::section_name(&format!("{section}.{name}"), &overlay.file);
    resolved.grants.iter().any(|grant| grant.by == by)
}

/// Warns about sections for agents and backends that do not exist. A user's file serves many projects with different
/// agents: there only a name that is nearly right is reported.
fn unknown_sections(catalog: &Catalog) -> Vec<Diagnostic> {
    let config = &catalog.config;
    let mut found = Vec::new();
    let agents: Vec<String> = catalog
        .agents
        .keys()
        .map(ToString::to_string)
        .chain(backends::registry::built_in().into_iter().map(str::to_owned))
        .chain(config.backends.keys().map(ToString::to_string))
        .collect();
    for (name, sections) in &config.agents {
        let exists = catalog.agent(name).is_some() || agents.iter().any(|known| known == name.as_str());
        let near = nearest(name.as_str(), agents.iter().map(String::as_str));
        let is_reported =
            |section: &&ConfigSetting<Overlay>| section.layer == Layer::Project || near.is_some();
        for section in sections.iter().filter(|_| !exists).filter(is_reported) {
            let message = format!("[agents.{name}]: there is no agent {name} here");
            found.push(with_nearest(Diagnostic::warning(&section.file, message), near));
        }
    }
    let backends: Vec<&str> = backends::registry::built_in()
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

impl From<config::settings::SettingRow> for SettingView {
    fn from(row: config::settings::SettingRow) -> Self {
        let config::settings::SettingRow { key, value, layer, file } = row;
        Self { key, value, layer, source: file, not_applied: None }
    }
}
