//! The settings of sub-agents-mcp from its environment. Errors that would stop it also stop here, with the variable's name.
//! Numbers that it reads only in part, or replaces by its default, count here too, with a warning.

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

/// Reads the settings from variables, with warnings. Surrounding white space is ignored.
pub(super) fn read(
    variable: &dyn Fn(&str) -> Option<String>,
    is_backend: &dyn Fn(&str) -> bool,
) -> Result<(SubAgentsSettings, Vec<String>), EngineError> {
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
    let mut warnings = Vec::new();
    let mut number = |name: &str, default: u64| match value(name) {
        None => default,
        Some(text) => {
            let (number, warning) = read_number(name, &text, default);
            warnings.extend(warning);
            number
        }
    };
    let enabled = value(env::SESSION_ENABLED).as_deref() == Some("true");
    let sessions = match enabled {
        false => None,
        true => Some(Sessions {
            folder: value(env::SESSION_DIR).unwrap_or_else(|| SESSION_FOLDER.to_owned()).into(),
            keep_ms: number(env::SESSION_RETENTION_DAYS, RETENTION_DAYS).saturating_mul(DAY_MS),
        }),
    };
    let log_level = match value(env::LOG_LEVEL) {
        None => Severity::Info,
        Some(text) => Severity::parse(&text).ok_or_else(|| {
            EngineError::usage(format!("LOG_LEVEL is {text:?}; it can be debug, info, warn or error"))
        })?,
    };
    let settings = SubAgentsSettings {
        folder: folder.into(),
        timeout_ms: number(env::EXECUTION_TIMEOUT_MS, TIMEOUT_MS),
        sessions,
        settings_path: value(env::AGENTS_SETTINGS_PATH),
        log_level,
        server_name: value(env::SERVER_NAME).unwrap_or_else(|| "sub-agents-mcp".to_owned()),
    };
    Ok((settings, warnings))
}

/// Reads a number as `parseInt` of JavaScript does: the digits that a text begins with, so `60000ms` is 60000. Returns the
/// default if there are none or the number is 0, and a warning unless the whole text is the number.
fn read_number(name: &str, text: &str, default: u64) -> (u64, Option<String>) {
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    let end = unsigned.find(|char: char| !char.is_ascii_digit()).unwrap_or(unsigned.len());
    let number = match &unsigned[..end] {
        "" => 0,
        digits => digits.parse().unwrap_or(u64::MAX),
    };
    match number {
        0 => {
            let reason = format!("which is not a whole number above 0: the default counts, {default}");
            (default, Some(format!("{name} is {text:?}, {reason}")))
        }
        number if end < unsigned.len() => {
            (number, Some(format!("{name} is {text:?}, which is not a whole number: {number} counts")))
        }
        number => (number, None),
    }
}

/// Accepts every backend of Volery, in addition to the programs of sub-agents-mcp.
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
