//! Finds settings with which Kimi Code would not ask.

use std::path::PathBuf;

use domain::run::RunSpec;
use serde_json::Value;

use crate::user_environment::{self, UserEnvironment};

/// Kimi Code starts every session in the mode of its settings, which can also hold rules.
pub(super) fn find_allowing_settings(_spec: &RunSpec, user: &UserEnvironment<'_>) -> Option<PathBuf> {
    const ASKING_MODES: [&str; 3] = ["default", "manual", "ask"];
    let file = user.folder("KIMI_CODE_HOME", ".kimi-code")?.join("config.toml");
    let Ok(text) = user_environment::try_read_text(&file) else { return Some(file) };
    let Ok(settings) = toml::from_str::<Value>(&text?) else { return Some(file) };
    let mode = settings["default_permission_mode"].as_str();
    let is_overridden = mode.is_some_and(|mode| !ASKING_MODES.contains(&mode))
        || settings["yolo"].as_bool() == Some(true)
        || !settings["permission"].is_null();
    is_overridden.then_some(file)
}
