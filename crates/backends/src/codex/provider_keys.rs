//! The variables in which the user's settings of Codex expect the keys of model providers. Only their names are read. Names in
//! a project's settings are ignored; otherwise a project could have any key sent to a service of its choice.

use std::collections::BTreeSet;
use std::path::PathBuf;

use domain::run::RunSpec;
use serde_json::Value;

use super::{HOME_VARIABLE, VARIABLES};
use crate::user_environment::{self, UserEnvironment};

const SETTINGS_FOLDER: &str = ".codex";
const SETTINGS_FILE: &str = "config.toml";
/// A limit that no ordinary configuration reaches.
const NAMES_MAX: usize = 64;

/// Returns the variables that Codex needs in addition to [`VARIABLES`].
pub(super) fn key_variables(spec: &RunSpec, user: &UserEnvironment<'_>) -> Vec<String> {
    let named_folder = spec.setup.vendor_settings.as_ref().map(PathBuf::from);
    let Some(folder) = named_folder.or_else(|| user.folder(HOME_VARIABLE, SETTINGS_FOLDER)) else {
        return Vec::new();
    };
    let settings = user_environment::read_toml(&folder.join(SETTINGS_FILE)).unwrap_or_default();
    let providers = settings["model_providers"].as_object().into_iter().flat_map(serde_json::Map::values);
    let values = providers.flat_map(|provider| {
        let headers = provider["env_http_headers"].as_object().into_iter().flat_map(serde_json::Map::values);
        std::iter::once(&provider["env_key"]).chain(headers)
    });
    let names =
        values.filter_map(Value::as_str).filter(|name| is_variable(name) && !VARIABLES.contains(name));
    let names: BTreeSet<&str> = names.collect();
    names.into_iter().take(NAMES_MAX).map(ToOwned::to_owned).collect()
}

/// Returns the variables that commands must not see: all that the agent does not name itself.
pub(super) fn hidden_from_commands<'a>(spec: &RunSpec, names: &'a [String]) -> impl Iterator<Item = &'a str> {
    names.iter().filter(|name| !spec.env.contains(name)).map(String::as_str)
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
