//! Parses the arguments of `codex` and `codex-reply`. Unsupported ones are refused by name.

use backends::codex::permitted_settings;
use rmcp::model::JsonObject;
use serde_json::{Value, json};

/// What Codex's commands may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sandbox {
    ReadOnly,
    WorkspaceWrite,
    DangerFullAccess,
}

const SANDBOXES: [(&str, Sandbox); 3] = [
    ("read-only", Sandbox::ReadOnly),
    ("workspace-write", Sandbox::WorkspaceWrite),
    ("danger-full-access", Sandbox::DangerFullAccess),
];
/// Whether the user is asked about actions beyond the sandbox.
const POLICIES: [(&str, bool); 4] =
    [("untrusted", true), ("on-failure", true), ("on-request", true), ("never", false)];
/// The setting of Codex that Volery has its own field for.
const EFFORT: &str = "model_reasoning_effort";
const COMPACT_PROMPT: &str = "compact_prompt";

#[derive(Debug, PartialEq, Eq)]
pub(super) struct CodexRequest {
    pub(super) prompt: String,
    pub(super) model: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) sandbox: Sandbox,
    pub(super) asks_for_approval: bool,
    pub(super) base_instructions: Option<String>,
    pub(super) developer_instructions: Option<String>,
    pub(super) effort: Option<String>,
    /// Other settings of Codex, as arguments for it.
    pub(super) settings: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct CodexReply {
    pub(super) thread_id: String,
    pub(super) prompt: String,
}

impl CodexRequest {
    pub(super) fn read(arguments: JsonObject) -> Result<Self, String> {
        let mut arguments = ArgumentReader(arguments);
        let (effort, mut settings) = arguments.config()?;
        settings.extend(arguments.text("compact-prompt")?.map(|text| setting(COMPACT_PROMPT, &text.into())));
        let request = Self {
            prompt: arguments.needed("prompt")?,
            model: arguments.text("model")?,
            cwd: arguments.text("cwd")?,
            sandbox: arguments.choice("sandbox", &SANDBOXES)?.unwrap_or(Sandbox::ReadOnly),
            asks_for_approval: arguments.choice("approval-policy", &POLICIES)?.unwrap_or(true),
            base_instructions: arguments.text("base-instructions")?,
            developer_instructions: arguments.text("developer-instructions")?,
            effort,
            settings,
        };
        arguments.nothing_else()?;
        Ok(request)
    }
}

impl CodexReply {
    pub(super) fn read(arguments: JsonObject) -> Result<Self, String> {
        let mut arguments = ArgumentReader(arguments);
        let thread_id = arguments.text("threadId")?;
        // The earlier name of the argument.
        let earlier = arguments.text("conversationId")?;
        let reply = Self {
            thread_id: thread_id.or(earlier).ok_or("threadId is required")?,
            prompt: arguments.needed("prompt")?,
        };
        arguments.nothing_else()?;
        Ok(reply)
    }
}

/// Reads the arguments of a call, each once.
struct ArgumentReader(JsonObject);

impl ArgumentReader {
    fn remove(&mut self, key: &str) -> Option<Value> {
        // Many clients send null for omitted arguments.
        self.0.shift_remove(key).filter(|value| !value.is_null())
    }

    fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        match self.remove(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text).filter(|text| !text.trim().is_empty())),
            Some(_) => Err(format!("{key} must be a string")),
        }
    }

    fn needed(&mut self, key: &str) -> Result<String, String> {
        self.text(key)?.ok_or_else(|| format!("{key} is required"))
    }

    fn choice<T: Copy>(&mut self, key: &str, choices: &[(&str, T)]) -> Result<Option<T>, String> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let known = choices.iter().find(|(choice, _)| *choice == text).map(|(_, value)| *value);
        let all: Vec<&str> = choices.iter().map(|(choice, _)| *choice).collect();
        known.map(Some).ok_or_else(|| format!("{key} is {text:?}; it can be {}", all.join(", ")))
    }

    /// Reads the settings of Codex: the reasoning effort, and the others as arguments for its program.
    fn config(&mut self) -> Result<(Option<String>, Vec<String>), String> {
        let config = match self.remove("config") {
            None => return Ok((None, Vec::new())),
            Some(Value::Object(config)) => config,
            Some(_) => return Err("config must be an object".to_owned()),
        };
        let mut config = Self(config);
        let effort = config.text(EFFORT)?;
        let mut settings = Vec::new();
        for (key, value) in config.0.iter().filter(|(_, value)| !value.is_null()) {
            if !permitted_settings().any(|permitted| permitted == key) {
                return Err(format!(
                    "config.{key} cannot be set by a call; of Codex' settings, these can: {}. Put others into its own \
                     config.toml",
                    settings_list()
                ));
            }
            if !(value.is_string() || value.is_number() || value.is_boolean()) {
                return Err(format!("config.{key} must be a text, a number or true or false"));
            }
            settings.push(setting(key, value));
        }
        Ok((effort, settings))
    }

    fn nothing_else(&self) -> Result<(), String> {
        match self.0.iter().find(|(_, value)| !value.is_null()) {
            Some((key, _)) => Err(format!("{key} is not honoured here; leave it out")),
            None => Ok(()),
        }
    }
}

fn settings_list() -> String {
    permitted_settings().collect::<Vec<_>>().join(", ")
}

/// Returns a setting as an argument. Strings, numbers and booleans have the same syntax in JSON and TOML.
fn setting(key: &str, value: &Value) -> String {
    format!("--config={key}={value}")
}

/// Returns the schema of `codex`.
pub(super) fn begin_schema() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let choice = |values: Vec<&str>, description: &str| json!({ "type": "string", "enum": values, "description": description });
    json!({
        "type": "object",
        "properties": {
            "prompt": text("What Codex is asked first."),
            "model": text("The model, in Codex' words. Left out: its own default."),
            "cwd": text("Absolute path of the directory to work in."),
            "approval-policy": choice(
                POLICIES.map(|(value, _)| value).to_vec(),
                "Whether somebody is asked about what the sandbox does not allow. never: it is denied."
            ),
            "sandbox": choice(
                SANDBOXES.map(|(value, _)| value).to_vec(),
                "What its commands may do. Left out: read-only."
            ),
            "config": {
                "type": "object",
                "properties": { EFFORT: text("How hard the model thinks.") },
                "description": format!("Settings of Codex for this conversation: {}.", settings_list())
            },
            "base-instructions": text("Takes the place of Codex' own instructions."),
            "developer-instructions": text("Comes after Codex' own instructions."),
            "compact-prompt": text("Takes the place of what Codex asks for when it shortens a long conversation."),
        },
        "required": ["prompt"],
        "additionalProperties": false,
    })
}

/// Returns the schema of `codex-reply`.
pub(super) fn reply_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "threadId": { "type": "string", "description": "The conversation, as an earlier answer named it." },
            "conversationId": { "type": "string", "description": "The same, by its earlier name." },
            "prompt": { "type": "string", "description": "What Codex is asked next." },
        },
        "required": ["prompt"],
        "additionalProperties": false,
    })
}
