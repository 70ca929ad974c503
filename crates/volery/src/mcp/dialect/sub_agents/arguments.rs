//! Validates the arguments of `run_agent`, with the messages of sub-agents-mcp.

use rmcp::model::JsonObject;
use serde_json::Value;

const AGENT_CHARS_MAX: usize = 100;
const PROMPT_CHARS_MAX: usize = 50_000;
const PATH_CHARS_MAX: usize = 1_000;
const EXTRA_ARGS_MAX: usize = 20;
const EXTRA_ARG_CHARS_MAX: usize = 1_000;
const SESSION_CHARS_MAX: usize = 100;

pub(super) const ARGUMENT_NAMES: [&str; 5] = ["agent", "prompt", "cwd", "extra_args", "session_id"];

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arguments {
    pub(super) agent: String,
    pub(super) prompt: String,
    pub(super) cwd: Option<String>,
    pub(super) extra_args: Vec<String>,
    pub(super) session_id: Option<String>,
}

impl Arguments {
    /// Checks the arguments in the order of sub-agents-mcp, and returns its message for the first invalid one.
    pub(super) fn read(mut arguments: JsonObject) -> Result<Self, String> {
        // Many clients send null for omitted arguments.
        arguments.retain(|_, value| !value.is_null());
        Ok(Self {
            agent: agent(arguments.get("agent"))?,
            prompt: prompt(arguments.get("prompt"))?,
            cwd: arguments.get("cwd").map(cwd).transpose()?,
            extra_args: arguments.get("extra_args").map(extra_args).transpose()?.unwrap_or_default(),
            session_id: arguments.get("session_id").map(session_id).transpose()?,
        })
    }
}

fn agent(value: Option<&Value>) -> Result<String, String> {
    let text = value.and_then(Value::as_str).filter(|text| !text.is_empty());
    let name = text.ok_or("Agent parameter is required and must be a string")?.trim();
    if name.is_empty() {
        return Err("Invalid agent parameter: cannot be empty".to_owned());
    }
    if chars(name) > AGENT_CHARS_MAX {
        return Err("Agent name too long (max 100 characters)".to_owned());
    }
    if !is_identifier(name) {
        let message =
            "Agent name contains invalid characters (only alphanumeric, underscore, and dash allowed)";
        return Err(message.to_owned());
    }
    Ok(name.to_owned())
}

/// Returns whether a text is a valid agent name.
pub(super) fn is_agent_name(text: &str) -> bool {
    !text.is_empty() && chars(text) <= AGENT_CHARS_MAX && is_identifier(text)
}

fn prompt(value: Option<&Value>) -> Result<String, String> {
    let text = value.and_then(Value::as_str).filter(|text| !text.is_empty());
    let prompt = text.ok_or("Prompt parameter is required and must be a string")?.trim();
    if prompt.is_empty() {
        return Err("Invalid prompt parameter: cannot be empty".to_owned());
    }
    if chars(prompt) > PROMPT_CHARS_MAX {
        return Err("Prompt too long (max 50,000 characters)".to_owned());
    }
    Ok(prompt.to_owned())
}

fn cwd(value: &Value) -> Result<String, String> {
    let path = value.as_str().ok_or("CWD parameter must be a string if provided")?.trim();
    if path.is_empty() {
        return Err("CWD parameter cannot be empty".to_owned());
    }
    if chars(path) > PATH_CHARS_MAX {
        return Err("Working directory path too long (max 1000 characters)".to_owned());
    }
    if path.contains("..") || path.contains('\0') {
        return Err("Invalid working directory path".to_owned());
    }
    Ok(path.to_owned())
}

fn extra_args(value: &Value) -> Result<Vec<String>, String> {
    let args = value.as_array().ok_or("Extra args parameter must be an array if provided")?;
    if args.len() > EXTRA_ARGS_MAX {
        return Err("Too many extra arguments (max 20 allowed)".to_owned());
    }
    let arg = |(index, arg): (usize, &Value)| {
        let text = arg.as_str().ok_or_else(|| format!("Extra argument at index {index} must be a string"))?;
        match chars(text) > EXTRA_ARG_CHARS_MAX {
            true => Err(format!("Extra argument at index {index} too long (max 1000 characters)")),
            false => Ok(text.to_owned()),
        }
    };
    args.iter().enumerate().map(arg).collect()
}

fn session_id(value: &Value) -> Result<String, String> {
    let id = value.as_str().ok_or("Session ID parameter must be a string if provided")?.trim();
    if id.is_empty() {
        return Err("Invalid session ID parameter: cannot be empty".to_owned());
    }
    if chars(id) > SESSION_CHARS_MAX {
        return Err("Session ID too long (max 100 characters)".to_owned());
    }
    if !is_identifier(id) {
        let message =
            "Session ID contains invalid characters (only alphanumeric, underscore, and dash allowed)";
        return Err(message.to_owned());
    }
    Ok(id.to_owned())
}

fn is_identifier(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Counts characters as JavaScript does.
pub(super) fn chars(text: &str) -> usize {
    text.encode_utf16().count()
}
