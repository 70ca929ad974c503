//! The settings in force in a directory. Needs no state directory, so that a person can find out why there is none.

use domain::agent::Layer;
use domain::diagnostic::Diagnostic;
use serde::Serialize;

use super::AppError;
use crate::registry;

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
    pub value: String,
    pub layer: Layer,
    /// The file that sets it, or what else does.
    pub source: String,
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
    let read = registry::load_config(&project);
    let mut settings: Vec<SettingView> = read.config.rows().into_iter().map(SettingView::from).collect();
    if read.config.slots_count.is_none() {
        // Before its neighbour, as in a file.
        let place = settings.iter().position(|setting| setting.key.starts_with("slots.")).unwrap_or(0);
        let value = crate::slots::count(&read.config).to_string();
        let source = "this machine's memory".to_owned();
        settings.insert(
            place,
            SettingView { key: "slots.count".to_owned(), value, layer: Layer::Default, source },
        );
    }
    Ok(ConfigView { project, settings, files, diagnostics: read.diagnostics })
}

impl From<definition::config::Row> for SettingView {
    fn from(row: definition::config::Row) -> Self {
        let definition::config::Row { key, value, layer, file } = row;
        Self { key, value, layer, source: file }
    }
}
