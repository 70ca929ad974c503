//! The settings of sub-agents-mcp from its environment. Errors that would stop it also stop here, with the variable's name.

use std::path::{Path, PathBuf};

use super::log::Severity;
use engine::EngineError;
use engine::env;

/// The programs that sub-agents-mcp knows.
const TYPES: [&str; 8] = ["cursor", "claude", "gemini", "codex", "glm", "kimi", "grok", "opencode"];
/// The programs without a reasoning effort.
const WITHOUT_EFFORT: [&str; 2] = ["cursor", "gemini"];
const TIMEOUT_MS: u64 = 300_000;
const SESSION_FOLDER: &str = ".mcp-sessions";
const RETENTION_DAYS: u64 = 1;
const DAY_MS: u64 = 86_400_000;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct SubAgentsSettings {
    pub(super) folder: PathBuf,
    pub(super) timeout_ms: u64,
    /// `None`: sessions are off.
    pub(super) sessions: Option<Sessions>,
    pub(super) settings_path: Option<String>,
    pub(super) log_level: Severity,
    pub(super) server_name: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sessions {
    /// Where sub-agents-mcp stored its own sessions.
    pub(super) folder: PathBuf,
    pub(super) keep_ms: u64,
}

/// Reads the settings from variables. Surrounding white space is ignored.
pub(super) fn read(
    variable: &dyn Fn(&str) -> Option<String>,
    is_backend: &dyn Fn(&str) -> bool,
) -> Result<SubAgentsSettings, EngineError> {
    let value = &|name: &str| env::trimmed(variable(name));
    let folder = value(env::AGENTS_DIR).ok_or_else(|| {
        EngineError::usage("AGENTS_DIR is not set")
            .hint("set AGENTS_DIR to the absolute path of the folder with your agents' .md or .txt files")
    })?;
    if !Path::new(&folder).is_absolute() {
        return Err(EngineError::usage(format!("AGENTS_DIR is {folder:?}, which is not an absolute path")));
    }
    check_type(value, is_backend)?;
    check_permission(value)?;
    let number = |name: &str, default: u64| match value(name) {
        None => Ok(default),
        Some(text) => text.parse().ok().filter(|number| *number > 0).ok_or_else(|| {
            EngineError::usage(format!("{name} is {text:?}, which is not a whole number above 0"))
        }),
    };
    let enabled = value(env::SESSION_ENABLED).as_deref() == Some("true");
    let sessions = match enabled {
        false => None,
        true => Some(Sessions {
            folder: value(env::SESSION_DIR).unwrap_or_else(|| SESSION_FOLDER.to_owned()).into(),
            keep_ms: number(env::SESSION_RETENTION_DAYS, RETENTION_DAYS)?.saturating_mul(DAY_MS),
        }),
    };
    let log_level = match value(env::LOG_LEVEL) {
        None => Severity::Info,
        Some(text) => Severity::parse(&text).ok_or_else(|| {
            EngineError::usage(format!("LOG_LEVEL is {text:?}; it can be debug, info, warn or error"))
        })?,
    };
    Ok(SubAgentsSettings {
        folder: folder.into(),
        timeout_ms: number(env::EXECUTION_TIMEOUT_MS, TIMEOUT_MS)?,
        sessions,
        settings_path: value(env::AGENTS_SETTINGS_PATH),
        log_level,
        server_name: value(env::SERVER_NAME).unwrap_or_else(|| "sub-agents-mcp".to_owned()),
    })
}

/// Accepts every backend of ours, in addition to the programs of sub-agents-mcp.
fn check_type(
    value: &dyn Fn(&str) -> Option<String>,
    is_backend: &dyn Fn(&str) -> bool,
) -> Result<(), EngineError> {
    let kind = value(env::AGENT_TYPE).unwrap_or_else(|| TYPES[0].to_owned());
    let known = TYPES.contains(&kind.as_str()) || is_backend(&kind);
    if !known {
        let message = format!("Invalid AGENT_TYPE: \"{kind}\". Must be one of: {}", TYPES.join(", "));
        return Err(EngineError::usage(message));
    }
    if value(env::AGENT_EFFORT).is_some() && WITHOUT_EFFORT.contains(&kind.as_str()) {
        let message = format!("AGENT_EFFORT is set, and {kind} takes no effort");
        return Err(EngineError::usage(message).hint("unset AGENT_EFFORT, or choose another AGENT_TYPE"));
    }
    Ok(())
}

fn check_permission(value: &dyn Fn(&str) -> Option<String>) -> Result<(), EngineError> {
    match value(env::AGENT_PERMISSION).as_deref() {
        None | Some("read-only" | "safe-edit" | "yolo") => Ok(()),
        Some(other) => Err(EngineError::usage(format!(
            "Invalid AGENT_PERMISSION: \"{other}\". Must be one of: read-only, safe-edit, yolo"
        ))),
    }
}
