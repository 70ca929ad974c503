//! What a call of a tool that spawns asks for.

use rmcp::model::JsonObject;
use serde_json::Value;

use super::tools::Spawner;
use crate::app::AppError;

pub(super) const TIMEOUT_S_MAX: u64 = 86_400;

pub(super) struct Asked {
    pub(super) prompt: String,
    pub(super) model: Option<String>,
    pub(super) system_prompt: Option<String>,
    pub(super) timeout_s: u64,
    pub(super) loose: Option<bool>,
}

impl Asked {
    pub(super) fn read(spawner: &Spawner, arguments: &JsonObject) -> Result<Self, AppError> {
        let given = |key: &str| arguments.get(key).filter(|value| !value.is_null());
        let text = |key: &str| match given(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.trim().is_empty())),
            Some(_) => Err(AppError::usage(format!("{key} must be a string"))),
        };
        let prompt =
            text("prompt")?.ok_or_else(|| AppError::usage("prompt is required and must be a string"))?;
        let timeout_s = match given("timeout") {
            None => spawner.timeout_s,
            Some(value) => whole_number(value)
                .filter(|seconds| (1..=TIMEOUT_S_MAX).contains(seconds))
                .ok_or_else(|| {
                    AppError::usage(format!("timeout must be a number of seconds from 1 to {TIMEOUT_S_MAX}"))
                })?,
        };
        let loose = match spawner.loosening.and_then(|loosening| Some((loosening.key, given(loosening.key)?)))
        {
            None => None,
            Some((_, Value::Bool(loose))) => Some(*loose),
            Some((key, _)) => return Err(AppError::usage(format!("{key} must be true or false"))),
        };
        let system_prompt = if spawner.takes_system_prompt { text("system_prompt")? } else { None };
        Ok(Self { prompt, model: text("model")?, system_prompt, timeout_s, loose })
    }
}

/// Returns a number of seconds, also where a client writes it as a text or with a point.
pub(super) fn whole_number(value: &Value) -> Option<u64> {
    let decimal =
        || value.as_f64().filter(|seconds| (0.0..1e9).contains(seconds)).map(|seconds| seconds.ceil() as u64);
    value.as_u64().or_else(decimal).or_else(|| value.as_str()?.trim().parse().ok())
}
