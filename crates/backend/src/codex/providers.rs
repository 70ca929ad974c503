//! The variables by which a user's own settings of Codex name keys of model services. Only their names are looked at. What
//! a project's settings name is not handed over, or any project could have any key sent to a service of its choice.

use std::collections::BTreeSet;
use std::path::PathBuf;

use domain::run::RunSpec;
use serde_json::Value;

use super::{HOME, VARIABLES};
use crate::user::{self, User};

const FOLDER: &str = ".codex";
const FILE: &str = "config.toml";
/// More than that nobody has.
const NAMES_MAX: usize = 64;

/// Names the variables that Codex needs beside those that are known of it.
pub(super) fn variables(spec: &RunSpec, user: &User<'_>) -> Vec<String> {
    let own = spec.setup.vendor_settings.as_ref().map(PathBuf::from);
    let Some(folder) = own.or_else(|| user.folder(HOME, FOLDER)) else { return Vec::new() };
    let settings = user::toml(&folder.join(FILE)).unwrap_or_default();
    let providers = settings["model_providers"].as_object().into_iter().flat_map(serde_json::Map::values);
    let named = providers.flat_map(|provider| {
        let headers = provider["env_http_headers"].as_object().into_iter().flat_map(serde_json::Map::values);
        std::iter::once(&provider["env_key"]).chain(headers)
    });
    let names = named.filter_map(Value::as_str).filter(|name| is_variable(name) && !VARIABLES.contains(name));
    let names: BTreeSet<&str> = names.collect();
    names.into_iter().take(NAMES_MAX).map(ToOwned::to_owned).collect()
}

/// Returns those that commands shall not see: all that the agent does not name itself.
pub(super) fn hidden<'a>(spec: &RunSpec, names: &'a [String]) -> impl Iterator<Item = &'a str> {
    names.iter().filter(|name| !spec.env.contains(name)).map(String::as_str)
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
}
