//! Finds settings of a project with which Cursor would act without a question.

use std::path::PathBuf;

use domain::run::RunSpec;
use serde_json::Value;

use crate::user_environment::{self, UserEnvironment};

/// Cursor executes without a question what a project allows. What its user allows is its behaviour without force.
pub(super) fn find_allowing_settings(spec: &RunSpec, _user: &UserEnvironment<'_>) -> Option<PathBuf> {
    let folders = user_environment::directories_up_to_root(&spec.directory, &spec.project);
    folders.into_iter().map(|folder| folder.join(".cursor/cli.json")).find(|file| {
        let settings = user_environment::read_settings(file);
        // A file that cannot be read may allow something.
        let allows = |settings: Value| !settings["permissions"]["allow"].as_array().is_none_or(Vec::is_empty);
        settings.map_or_else(|| file.exists(), allows)
    })
}
