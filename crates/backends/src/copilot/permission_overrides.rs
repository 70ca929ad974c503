//! Finds approvals with which Copilot would not ask.

use std::path::PathBuf;

use domain::run::RunSpec;
use serde_json::Value;

use crate::user_environment::{self, UserEnvironment};

/// Copilot stores approvals by folder.
pub(super) fn find_approvals(_spec: &RunSpec, user: &UserEnvironment<'_>) -> Option<PathBuf> {
    let file = user.folder("COPILOT_HOME", ".copilot")?.join("permissions-config.json");
    let Ok(settings) = user_environment::try_read_settings(&file) else { return Some(file) };
    let settings = settings?;
    let approves = |location: &Value| !location["tool_approvals"].as_array().is_none_or(Vec::is_empty);
    settings["locations"].as_object()?.values().any(approves).then_some(file)
}
