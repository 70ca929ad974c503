//! The settings file that Claude Code gets for a run. It takes precedence over the settings of the user and the project: Claude
//! Code asks about what those would allow silently, so that the permission decides.

use domain::inherit::Inherited;
use domain::run::RunSpec;
use serde_json::{Map, Value, json};

use super::{Endpoint, permission, user_settings};

/// Variables that authenticate to a service or select one. Those of one service must not reach another; settings can contain
/// them too.
const SERVICE_VARIABLES: [&str; 9] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_FOUNDRY_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_VERTEX",
];

/// Returns the variables that a service must not get: all except the one with its own key.
pub(super) fn foreign_service_variables(service: Endpoint) -> impl Iterator<Item = &'static str> {
    SERVICE_VARIABLES.into_iter().filter(move |name| *name != service.target_variable)
}

/// Returns the settings of a run, or `None` if it uses the usual service and needs none. Another vendor's service gets only
/// its own key, here as a reference to a variable.
pub(super) fn build_settings(spec: &RunSpec, service: Option<Endpoint>) -> Option<Value> {
    let mut settings = Map::new();
    if spec.setup.inherits(Inherited::McpServers) {
        // `adapt` fills in the names, which depend on the user.
        settings.insert(user_settings::DISABLED_SERVERS_KEY.to_owned(), json!([]));
    }
    let confirmed = permission::confirmed_tools(spec);
    if !confirmed.is_empty() {
        settings.insert("permissions".to_owned(), json!({ "ask": confirmed }));
    }
    if let Some(service) = service {
        let mut env: Map<String, Value> =
            foreign_service_variables(service).map(|name| (name.to_owned(), json!(""))).collect();
        env.insert("ANTHROPIC_BASE_URL".to_owned(), json!(service.base_url));
        env.insert(service.target_variable.to_owned(), json!(format!("${{{}}}", service.source_variable)));
        settings.insert("env".to_owned(), Value::Object(env));
        // A value that is not a string makes Claude Code ignore this whole file.
        settings.insert("apiKeyHelper".to_owned(), json!(""));
    }
    (!settings.is_empty()).then_some(Value::Object(settings))
}

/// Merges two settings: lists are concatenated, and for everything else `overrides` wins.
pub(super) fn merge_settings(base: Value, overrides: &Value) -> Value {
    let mut merged = match base {
        Value::Object(merged) => merged,
        _ => Map::new(),
    };
    for (key, value) in overrides.as_object().into_iter().flatten() {
        let merged_value = match (merged.remove(key), value) {
            (Some(Value::Array(mut existing)), Value::Array(more)) => {
                existing.extend(more.iter().cloned());
                Value::Array(existing)
            }
            (Some(existing @ Value::Object(_)), Value::Object(_)) => merge_settings(existing, value),
            (_, value) => value.clone(),
        };
        merged.insert(key.clone(), merged_value);
    }
    Value::Object(merged)
}
