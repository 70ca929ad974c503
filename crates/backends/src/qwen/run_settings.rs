//! The settings file that Qwen Code gets for a run, in place of the system's settings: nothing takes precedence over it.

use std::path::PathBuf;

use domain::run::RunSpec;
use serde_json::{Value, json};

use super::{PROJECT_SETTINGS, versions};
use crate::contract::{EnvValue, LaunchContext, ProcessLaunch, ProjectExecutables, WorkFile};
use crate::project_executables;
use crate::user_environment::{self, UserEnvironment};

/// The variable with the path of the system's settings, their default path, and the name of the run's file.
pub(super) const SYSTEM_SETTINGS_VARIABLE: &str = "QWEN_CODE_SYSTEM_SETTINGS_PATH";
const SYSTEM_SETTINGS_PATH: &str = "/etc/qwen-code/settings.json";
pub(super) const SYSTEM_SETTINGS_FILE: &str = "secret-machine-settings.json";

/// Adds a copy of the system's settings, if the run changes any. It turns off the hooks of an untrusted project, excludes variables
/// in `.env` files other than keys and models, limits retries if there are fallbacks, and sets the temperature.
pub(super) fn add_system_settings(
    spec: &RunSpec,
    launch: &mut ProcessLaunch,
    context: &LaunchContext<'_>,
    user: &UserEnvironment<'_>,
) -> Result<(), String> {
    PROJECT_SETTINGS.check_ancestors(spec, user.home)?;
    let excluded_variables = project_executables::dotenv_variables(&spec.directory, user.home)?;
    let has_fallbacks = !spec.fallbacks.is_empty();
    let temperature = spec.setup.temperature;
    let changes_model = has_fallbacks || temperature.is_some();
    if context.project_executables == ProjectExecutables::On
        && excluded_variables.is_empty()
        && !changes_model
    {
        return Ok(());
    }
    let path_from_user = (user.variable)(SYSTEM_SETTINGS_VARIABLE).map(PathBuf::from);
    let path = path_from_user.unwrap_or_else(|| PathBuf::from(SYSTEM_SETTINGS_PATH));
    let settings = user_environment::read_settings(&path).unwrap_or_default();
    let mut settings = settings.as_object().cloned().unwrap_or_default();
    if context.project_executables == ProjectExecutables::Off {
        settings.insert("disableAllHooks".to_owned(), json!(true));
    }
    if !excluded_variables.is_empty() {
        project_executables::exclude_variables(
            &mut settings,
            &versions::EXCLUDED_VARIABLES,
            &excluded_variables,
        );
    }
    if let Some(temperature) = temperature {
        let model = user_environment::section(&mut settings, "model");
        let generation = user_environment::section(model, "generationConfig");
        let sampling = user_environment::section(generation, "samplingParams");
        sampling.insert("temperature".to_owned(), json!(temperature.degrees()));
    }
    if has_fallbacks {
        let model = user_environment::section(&mut settings, "model");
        let generation = user_environment::section(model, "generationConfig");
        generation.extend(versions::RETRY_SETTINGS.map(|(name, value)| (name.to_owned(), json!(value))));
    }
    launch.files.push(WorkFile::plain(SYSTEM_SETTINGS_FILE, Value::Object(settings).to_string()));
    launch.env_overrides.push((
        SYSTEM_SETTINGS_VARIABLE.to_owned(),
        EnvValue::Plain(context.work_file_path(SYSTEM_SETTINGS_FILE)),
    ));
    Ok(())
}
