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

/// What must be around an agent so that it asks the server and nobody else.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Surroundings {
    pub env: Vec<(String, String)>,
    /// Below its home: name and content.
    pub files: Vec<(String, String)>,
    /// The model to ask for, where the agent would ask another one which to take.
    pub model: Option<&'static str>,
}

/// Returns how to run an agent headless, with a stream of JSON on standard output.
pub fn recipe(name: &str, order: &Order<'_>) -> Result<Recipe, ProgramError> {
    let program = Program::find(name)?;
    let Surroundings { env, files, model: _ } = surroundings(name, order.url, order.folders)?;
    let Order { prompt, arguments, .. } = *order;
    let (before, after, stdin): (&[&str], &[&str], &str) = match name {
        "claude" => (&["-p", prompt, "--output-format", "stream-json", "--verbose"], &[], ""),
        "codex" => (&["exec", "--json", "--skip-git-repo-check"], &["--", prompt], ""),
        "gemini" => (&["-m", "gemini-2.5-flash", "-o", "stream-json"], &["-p", prompt], ""),
        "qwen" => (&["--auth-type", "openai", "-o", "stream-json"], &[], prompt),
        "copilot" => (&["--output-format", "json"], &["-p", prompt], ""),
        "opencode" => (&["run", "--format", "json", "--title", "t"], &[], prompt),
        "goose" => (
            &["run", "-q", "--output-format", "stream-json", "--with-builtin", "developer"],
            &["-t", prompt],
            "",
        ),
        "kimi" => (&["--output-format", "stream-json"], &["-p", prompt], ""),
        // Adapters take no prompt, but a conversation.
        "claude-agent-acp" | "codex-acp" => (&[], &[], prompt),
        _ => return Err(ProgramError::Unknown(name.to_owned())),
    };
    let own = [before, arguments, after].concat().into_iter().map(str::to_owned);
    let argv = program.argv.into_iter().chain(own).collect();
    Ok(Recipe { argv, env, files, stdin: stdin.to_owned(), terminate_after: None })
}

/// Returns what must be around an agent of a vendor's own, wherever it is installed; nothing for one that cannot be
/// pointed at a server.
pub fn around(name: &str, url: &str, folders: &Folders) -> Option<Surroundings> {
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

/// Returns what must be around an agent, however it is started: also around adapters, which drive an installed one.
pub fn surroundings(name: &str, url: &str, folders: &Folders) -> Result<Surroundings, ProgramError> {
    if let Some(known) = around(name, url, folders) {
        return Ok(known);
    }
    match name {
        "claude-agent-acp" => driving(claude(url), "CLAUDE_CODE_EXECUTABLE", "claude"),
        "codex-acp" => driving(codex(url, folders), "CODEX_PATH", "codex"),
        _ => Err(ProgramError::Unknown(name.to_owned())),
    }
}

/// Tells an adapter by a variable which program it drives.
fn driving(mut around: Surroundings, variable: &str, driven: &str) -> Result<Surroundings, ProgramError> {
    let path = Program::find(driven)?.argv.pop().unwrap_or_default();
    around.env.push((variable.to_owned(), path));
    Ok(around)
}

fn claude(url: &str) -> Surroundings {
    Surroundings {
        env: variables(&[
            ("ANTHROPIC_BASE_URL", url),
            ("ANTHROPIC_API_KEY", "dummy"),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("CLAUDE_CODE_MAX_RETRIES", "0"),
        ]),
        ..Surroundings::default()
    }
}

fn codex(url: &str, folders: &Folders) -> Surroundings {
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
    Surroundings {
        env: variables(&[("CODEX_HOME", &home), ("SCRIPT_KEY", "dummy")]),
        files: vec![(".codex/config.toml".to_owned(), config)],
        ..Surroundings::default()
    }
}

fn gemini(url: &str) -> Surroundings {
    let settings = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false, "maxAttempts": 1 },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
    });
    Surroundings {
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

fn qwen(url: &str) -> Surroundings {
    let settings = json!({
        "privacy": { "usageStatisticsEnabled": false },
        "general": { "enableAutoUpdate": false },
        "telemetry": { "enabled": false },
        "memory": { "enableManagedAutoMemory": false, "enableManagedAutoDream": false },
    });
    Surroundings {
        env: variables(&[
            ("OPENAI_API_KEY", "dummy"),
            ("OPENAI_BASE_URL", &format!("{}/v1", url)),
            ("OPENAI_MODEL", "scripted-model"),
            ("QWEN_CODE_SUPPRESS_YOLO_WARNING", "1"),
            ("QWEN_CODE_NO_RELAUNCH", "true"),
        ]),
        files: vec![(".qwen/settings.json".to_owned(), settings.to_string())],
        ..Surroundings::default()
    }
}

fn copilot(url: &str, folders: &Folders) -> Surroundings {
    let home = folders.home.join(".copilot").display().to_string();
    Surroundings {
        env: variables(&[
            ("COPILOT_OFFLINE", "true"),
            ("COPILOT_PROVIDER_BASE_URL", &format!("{}/v1", url)),
            ("COPILOT_PROVIDER_API_KEY", "dummy"),
            ("COPILOT_MODEL", "scripted-model"),
            ("COPILOT_AUTO_UPDATE", "false"),
            ("COPILOT_HOME", &home),
        ]),
        ..Surroundings::default()
    }
}

fn opencode(url: &str) -> Surroundings {
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
    Surroundings {
        env: variables(&[
            ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
            ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
            ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
        ]),
        files: vec![(".config/opencode/opencode.json".to_owned(), config.to_string())],
        ..Surroundings::default()
    }
}

fn goose(url: &str) -> Surroundings {
    Surroundings {
        env: variables(&[
            ("GOOSE_PROVIDER", "openai"),
            ("OPENAI_HOST", url),
            ("OPENAI_API_KEY", "dummy"),
            ("GOOSE_MODEL", "scripted-model"),
            ("GOOSE_DISABLE_KEYRING", "1"),
            ("GOOSE_MODE", "auto"),
        ]),
        ..Surroundings::default()
    }
}

fn kimi(url: &str, folders: &Folders) -> Surroundings {
    let home = folders.home.join(".kimi-code").display().to_string();
    Surroundings {
        env: variables(&[
            ("KIMI_MODEL_NAME", "scripted-model"),
            ("KIMI_MODEL_API_KEY", "dummy"),
            ("KIMI_MODEL_PROVIDER_TYPE", "openai"),
            ("KIMI_MODEL_BASE_URL", &format!("{url}/v1")),
            ("KIMI_CODE_HOME", &home),
            ("KIMI_CODE_NO_AUTO_UPDATE", "1"),
            ("KIMI_DISABLE_TELEMETRY", "1"),
        ]),
        ..Surroundings::default()
    }
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}
