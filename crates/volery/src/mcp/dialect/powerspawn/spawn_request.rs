//! Parses the arguments of a spawning tool.

use rmcp::model::JsonObject;
use serde_json::Value;

use super::tools::Spawner;
use engine::EngineError;

pub(super) const TIMEOUT_S_MAX: u64 = 86_400;

pub(super) struct SpawnRequest {
    pub(super) prompt: String,
    pub(super) model: Option<String>,
    pub(super) system_prompt: Option<String>,
    pub(super) timeout_s: u64,
    pub(super) unrestricted: Option<bool>,
}

impl SpawnRequest {
    pub(super) fn read(spawner: &Spawner, arguments: &JsonObject) -> Result<Self, EngineError> {
        let present = |key: &str| arguments.get(key).filter(|value| !value.is_null());
        let text = |key: &str| match present(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.trim().is_empty())),
            Some(_) => Err(EngineError::usage(format!("{key} must be a string"))),
        };
        let prompt =
            text("prompt")?.ok_or_else(|| EngineError::usage("prompt is required and must be a string"))?;
        let timeout_s = match present("timeout") {
            None => spawner.timeout_s,
            Some(value) => whole_number(value)
                .filter(|seconds| (1..=TIMEOUT_S_MAX).contains(seconds))
                .ok_or_else(|| {
                    EngineError::usage(format!(
                        "timeout must be a number of seconds from 1 to {TIMEOUT_S_MAX}"
                    ))
                })?,
        };
        let unrestricted = match spawner
            .unrestricted_flag
            .and_then(|unrestricted_flag| Some((unrestricted_flag.key, present(unrestricted_flag.key)?)))
        {
            None => None,
            Some((_, Value::Bool(unrestricted))) => Some(*unrestricted),
            Some((key, _)) => return Err(EngineError::usage(format!("{key} must be true or false"))),
        };
        let system_prompt = if spawner.takes_system_prompt { text("system_prompt")? } else { None };
        Ok(Self { prompt, model: text("model")?, system_prompt, timeout_s, unrestricted })
    }
}

/// Parses a number of seconds, also from a string or a decimal number.
pub(super) fn whole_number(value: &Value) -> Option<u64> {
    let decimal =
        || value.as_f64().filter(|seconds| (0.0..1e9).contains(seconds)).map(|seconds| seconds.ceil() as u64);
    value.as_u64().or_else(decimal).or_else(|| value.as_str()?.trim().parse().ok())
}
