//! Points each vendor's agent at a scripted server and isolates it from everything else: variables and settings.
//!
//! Written independently of the backends, so that a test of a backend does not depend on the code that it tests.

use serde_json::json;

use crate::agent_dirs::AgentDirs;

/// The environment in which an agent sends requests only to the server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CliEnvironment {
    pub env: Vec<(String, String)>,
    /// Files below its home: name and content.
    pub files: Vec<(String, String)>,
    /// The model to select, if the agent would otherwise ask another model to choose one.
    pub model: Option<&'static str>,
}

/// Returns the environment for a vendor's own agent, wherever it is installed; `None` if it cannot be pointed at a
/// server.
pub fn vendor_environment(name: &str, url: &str, folders: &AgentDirs) -> Option<CliEnvironment> {
    Some(match name {
        "claude" => claude(url),
        "codex" => codex(url, folders),
        "gemini" => gemini(url),
        "qwen" => qwen(url),
        "copilot" => copilot(url, folders),
        "opencode" => opencode(url),
        "goose" => goose(url),
        "kimi" => kimi(url, folders),
        _ => return None,
    })
}

fn claude(url: &str) -> CliEnvironment {
    CliEnvironment {
        env: variables(&[
            ("ANTHROPIC_BASE_URL", url),
            ("ANTHROPIC_API_KEY", "dummy"),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("CLAUDE_CODE_MAX_RETRIES", "0"),
        ]),
        ..CliEnvironment::default()
    }
}

fn codex(url: &str, folders: &AgentDirs) -> CliEnvironment {
    let config = format!(
        r#"model = "gpt-5.5"
model_provider = "script"
check_for_update_on_startup = false
[model_providers.script]
name = "script"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPT_KEY"
request_max_retries = 0
stream_max_retries = 0
stream_idle_timeout_ms = 10000
[features]
plugins = false
apps = false
unbounded_connection_retries = false
[analytics]
enabled = false
"#
    );
    let home = folders.home.join(".codex").display().to_string();
    CliEnvironment {
        env: variables(&[("CODEX_HOME", &home), ("SCRIPT_KEY", "dummy")]),
        files: vec![(".codex/config.toml".to_owned(), config)],
        ..CliEnvironment::default()
    }
}

fn gemini(url: &str) -> CliEnvironment {
    let settings = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false, "maxAttempts": 1 },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
    });
    CliEnvironment {
        env: variables(&[
            ("GEMINI_API_KEY", "dummy"),
            ("GOOGLE_GEMINI_BASE_URL", url),
            ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
            ("GEMINI_CLI_NO_RELAUNCH", "true"),
        ]),
        files: vec![(".gemini/settings.json".to_owned(), settings.to_string())],
        model: Some("gemini-2.5-flash"),
    }
}

fn qwen(url: &str) -> CliEnvironment {
    let settings = json!({
        "privacy": { "usageStatisticsEnabled": false },
        "general": { "enableAutoUpdate": false },
        "telemetry": { "enabled": false },
        "memory": { "enableManagedAutoMemory": false, "enableManagedAutoDream": false },
    });
    CliEnvironment {
        env: variables(&[
            ("OPENAI_API_KEY", "dummy"),
            ("OPENAI_BASE_URL", &format!("{}/v1", url)),
            ("OPENAI_MODEL", "scripted-model"),
            ("QWEN_CODE_SUPPRESS_YOLO_WARNING", "1"),
            ("QWEN_CODE_NO_RELAUNCH", "true"),
        ]),
        files: vec![(".qwen/settings.json".to_owned(), settings.to_string())],
        ..CliEnvironment::default()
    }
}

fn copilot(url: &str, folders: &AgentDirs) -> CliEnvironment {
    let home = folders.home.join(".copilot").display().to_string();
    CliEnvironment {
        env: variables(&[
            ("COPILOT_OFFLINE", "true"),
            ("COPILOT_PROVIDER_BASE_URL", &format!("{}/v1", url)),
            ("COPILOT_PROVIDER_API_KEY", "dummy"),
            ("COPILOT_MODEL", "scripted-model"),
            ("COPILOT_AUTO_UPDATE", "false"),
            ("COPILOT_HOME", &home),
        ]),
        ..CliEnvironment::default()
    }
}

fn opencode(url: &str) -> CliEnvironment {
    let model = json!({
        "tool_call": true, "temperature": true, "limit": { "context": 128_000, "output": 8192 }, "cost": { "input": 1, "output": 2 },
    });
    let config = json!({
        "autoupdate": false, "share": "disabled", "model": "script/scripted-model",
        "small_model": "script/scripted-model", "enabled_providers": ["script"],
        "provider": { "script": {
            "npm": "@ai-sdk/openai-compatible",
            "options": { "baseURL": format!("{}/v1", url), "apiKey": "dummy" },
            "models": { "scripted-model": model },
        } },
    });
    CliEnvironment {
        env: variables(&[
            ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
            ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
            ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
        ]),
        files: vec![(".config/opencode/opencode.json".to_owned(), config.to_string())],
        ..CliEnvironment::default()
    }
}

fn goose(url: &str) -> CliEnvironment {
    CliEnvironment {
        env: variables(&[
            ("GOOSE_PROVIDER", "openai"),
            ("OPENAI_HOST", url),
            ("OPENAI_API_KEY", "dummy"),
            ("GOOSE_MODEL", "scripted-model"),
            ("GOOSE_DISABLE_KEYRING", "1"),
            ("GOOSE_MODE", "auto"),
        ]),
        ..CliEnvironment::default()
    }
}

fn kimi(url: &str, folders: &AgentDirs) -> CliEnvironment {
    let home = folders.home.join(".kimi-code").display().to_string();
    CliEnvironment {
        env: variables(&[
            ("KIMI_MODEL_NAME", "scripted-model"),
            ("KIMI_MODEL_API_KEY", "dummy"),
            ("KIMI_MODEL_PROVIDER_TYPE", "openai"),
            ("KIMI_MODEL_BASE_URL", &format!("{url}/v1")),
            ("KIMI_CODE_HOME", &home),
            ("KIMI_CODE_NO_AUTO_UPDATE", "1"),
            ("KIMI_DISABLE_TELEMETRY", "1"),
        ]),
        ..CliEnvironment::default()
    }
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}
