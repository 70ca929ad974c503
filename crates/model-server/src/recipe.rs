//! How each agent of another vendor is pointed at a model server, and kept from everything else: argv, variables, settings.
//!
//! Written by hand, apart from the backends, so that a test of a backend does not rest on what it tests.

use serde_json::json;

use crate::play::{Folders, Recipe};
use crate::program::{Program, ProgramError};

/// What to ask, and where.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// The address of the server, without a path.
    pub url: &'a str,
    pub folders: &'a Folders,
    pub prompt: &'a str,
    /// Arguments of the case, put where the agent takes them.
    pub arguments: &'a [&'a str],
}

/// Returns how to run an agent headless, with a stream of JSON on standard output.
pub fn recipe(name: &str, order: &Order<'_>) -> Result<Recipe, ProgramError> {
    let program = Program::find(name)?;
    let mut recipe = match name {
        "claude" => claude(order),
        "codex" => codex(order),
        "gemini" => gemini(order),
        "qwen" => qwen(order),
        "copilot" => copilot(order),
        "opencode" => opencode(order),
        "goose" => goose(order),
        _ => return Err(ProgramError::Unknown(name.to_owned())),
    };
    recipe.argv.splice(0..0, program.argv);
    Ok(recipe)
}

fn claude(order: &Order<'_>) -> Recipe {
    Recipe {
        argv: argv(
            &["-p", order.prompt, "--output-format", "stream-json", "--verbose"],
            order.arguments,
            &[],
        ),
        env: variables(&[
            ("ANTHROPIC_BASE_URL", order.url),
            ("ANTHROPIC_API_KEY", "dummy"),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("CLAUDE_CODE_MAX_RETRIES", "0"),
        ]),
        ..Recipe::default()
    }
}

fn codex(order: &Order<'_>) -> Recipe {
    let url = order.url;
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
    let home = order.folders.home.join(".codex").display().to_string();
    Recipe {
        argv: argv(&["exec", "--json", "--skip-git-repo-check"], order.arguments, &["--", order.prompt]),
        env: variables(&[("CODEX_HOME", &home), ("SCRIPT_KEY", "dummy")]),
        files: vec![(".codex/config.toml".to_owned(), config)],
        ..Recipe::default()
    }
}

fn gemini(order: &Order<'_>) -> Recipe {
    let settings = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false, "maxAttempts": 1 },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
    });
    Recipe {
        argv: argv(&["-m", "gemini-2.5-flash", "-o", "stream-json"], order.arguments, &["-p", order.prompt]),
        env: variables(&[
            ("GEMINI_API_KEY", "dummy"),
            ("GOOGLE_GEMINI_BASE_URL", order.url),
            ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
            ("GEMINI_CLI_NO_RELAUNCH", "true"),
        ]),
        files: vec![(".gemini/settings.json".to_owned(), settings.to_string())],
        ..Recipe::default()
    }
}

fn qwen(order: &Order<'_>) -> Recipe {
    let settings = json!({
        "privacy": { "usageStatisticsEnabled": false },
        "general": { "enableAutoUpdate": false },
        "telemetry": { "enabled": false },
        "memory": { "enableManagedAutoMemory": false, "enableManagedAutoDream": false },
    });
    Recipe {
        argv: argv(&["--auth-type", "openai", "-o", "stream-json"], order.arguments, &[]),
        env: variables(&[
            ("OPENAI_API_KEY", "dummy"),
            ("OPENAI_BASE_URL", &format!("{}/v1", order.url)),
            ("OPENAI_MODEL", "scripted-model"),
            ("QWEN_CODE_SUPPRESS_YOLO_WARNING", "1"),
            ("QWEN_CODE_NO_RELAUNCH", "true"),
        ]),
        files: vec![(".qwen/settings.json".to_owned(), settings.to_string())],
        stdin: order.prompt.to_owned(),
        ..Recipe::default()
    }
}

fn copilot(order: &Order<'_>) -> Recipe {
    let home = order.folders.home.join(".copilot").display().to_string();
    Recipe {
        argv: argv(&["--output-format", "json"], order.arguments, &["-p", order.prompt]),
        env: variables(&[
            ("COPILOT_OFFLINE", "true"),
            ("COPILOT_PROVIDER_BASE_URL", &format!("{}/v1", order.url)),
            ("COPILOT_PROVIDER_API_KEY", "dummy"),
            ("COPILOT_MODEL", "scripted-model"),
            ("COPILOT_AUTO_UPDATE", "false"),
            ("COPILOT_HOME", &home),
        ]),
        ..Recipe::default()
    }
}

fn opencode(order: &Order<'_>) -> Recipe {
    let model = json!({
        "tool_call": true, "limit": { "context": 128_000, "output": 8192 }, "cost": { "input": 1, "output": 2 },
    });
    let config = json!({
        "autoupdate": false, "share": "disabled", "model": "script/scripted-model",
        "small_model": "script/scripted-model", "enabled_providers": ["script"],
        "provider": { "script": {
            "npm": "@ai-sdk/openai-compatible",
            "options": { "baseURL": format!("{}/v1", order.url), "apiKey": "dummy" },
            "models": { "scripted-model": model },
        } },
    });
    Recipe {
        argv: argv(&["run", "--format", "json", "--title", "t"], order.arguments, &[]),
        env: variables(&[
            ("OPENCODE_CONFIG_CONTENT", &config.to_string()),
            ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
            ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
            ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
        ]),
        stdin: order.prompt.to_owned(),
        ..Recipe::default()
    }
}

fn goose(order: &Order<'_>) -> Recipe {
    Recipe {
        argv: argv(
            &["run", "-q", "--output-format", "stream-json", "--with-builtin", "developer"],
            order.arguments,
            &["-t", order.prompt],
        ),
        env: variables(&[
            ("GOOSE_PROVIDER", "openai"),
            ("OPENAI_HOST", order.url),
            ("OPENAI_API_KEY", "dummy"),
            ("GOOSE_MODEL", "scripted-model"),
            ("GOOSE_DISABLE_KEYRING", "1"),
            ("GOOSE_MODE", "auto"),
        ]),
        ..Recipe::default()
    }
}

fn argv(before: &[&str], arguments: &[&str], after: &[&str]) -> Vec<String> {
    [before, arguments, after].concat().into_iter().map(str::to_owned).collect()
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}
