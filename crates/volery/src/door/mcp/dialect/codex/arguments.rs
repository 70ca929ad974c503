//! What `codex` and `codex-reply` take. What cannot be honoured here is refused by name.

use backend::codex::permitted_settings;
use rmcp::model::JsonObject;
use serde_json::{Value, json};

/// What its commands may do.
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
/// Whether somebody is asked about what is beyond the sandbox.
const POLICIES: [(&str, bool); 4] =
    [("untrusted", true), ("on-failure", true), ("on-request", true), ("never", false)];
/// The setting of Codex that has a word of ours.
const EFFORT: &str = "model_reasoning_effort";
const COMPACT_PROMPT: &str = "compact_prompt";

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Begin {
    pub(super) prompt: String,
    pub(super) model: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) sandbox: Sandbox,
    pub(super) asks: bool,
    pub(super) base_instructions: Option<String>,
    pub(super) developer_instructions: Option<String>,
    pub(super) effort: Option<String>,
    /// Other settings of Codex, as arguments for it.
    pub(super) settings: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) thread_id: String,
    pub(super) prompt: String,
}

impl Begin {
    pub(super) fn read(given: JsonObject) -> Result<Self, String> {
        let mut given = Given(given);
        let (effort, mut settings) = given.config()?;
        settings.extend(given.text("compact-prompt")?.map(|text| setting(COMPACT_PROMPT, &text.into())));
        let begun = Self {
            prompt: given.needed("prompt")?,
            model: given.text("model")?,
            cwd: given.text("cwd")?,
            sandbox: given.choice("sandbox", &SANDBOXES)?.unwrap_or(Sandbox::ReadOnly),
            asks: given.choice("approval-policy", &POLICIES)?.unwrap_or(true),
            base_instructions: given.text("base-instructions")?,
            developer_instructions: given.text("developer-instructions")?,
            effort,
            settings,
        };
        given.nothing_else()?;
        Ok(begun)
    }
}

impl Reply {
    pub(super) fn read(given: JsonObject) -> Result<Self, String> {
        let mut given = Given(given);
        let named = given.text("threadId")?;
        // The name that it had before.
        let earlier = given.text("conversationId")?;
        let reply = Self {
            thread_id: named.or(earlier).ok_or("threadId is required")?,
            prompt: given.needed("prompt")?,
        };
        given.nothing_else()?;
        Ok(reply)
    }
}

/// The arguments of a call, each of which is taken once.
struct Given(JsonObject);

impl Given {
    fn take(&mut self, key: &str) -> Option<Value> {
        // Many clients send null for what is left out.
        self.0.shift_remove(key).filter(|value| !value.is_null())
    }

    fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text).filter(|text| !text.trim().is_empty())),
            Some(_) => Err(format!("{key} must be a string")),
        }
    }

    fn needed(&mut self, key: &str) -> Result<String, String> {
        self.text(key)?.ok_or_else(|| format!("{key} is required"))
    }

    fn choice<T: Copy>(&mut self, key: &str, words: &[(&str, T)]) -> Result<Option<T>, String> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let known = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        known.map(Some).ok_or_else(|| format!("{key} is {text:?}; it can be {}", all.join(", ")))
    }

    /// Takes the settings of Codex: how hard it thinks, and the others as arguments for it.
    fn config(&mut self) -> Result<(Option<String>, Vec<String>), String> {
        let config = match self.take("config") {
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
                    settings_in_words()
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

fn settings_in_words() -> String {
    permitted_settings().collect::<Vec<_>>().join(", ")
}

/// Returns a setting as an argument. What JSON writes for a text, a number or a truth value, TOML reads as the same.
fn setting(key: &str, value: &Value) -> String {
    format!("--config={key}={value}")
}

/// Returns the schema of `codex`.
pub(super) fn begin_schema() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let choice = |words: Vec<&str>, description: &str| json!({ "type": "string", "enum": words, "description": description });
    json!({
        "type": "object",
        "properties": {
            "prompt": text("What Codex is asked first."),
            "model": text("The model, in Codex' words. Left out: its own default."),
            "cwd": text("Absolute path of the directory to work in."),
            "approval-policy": choice(
                POLICIES.map(|(word, _)| word).to_vec(),
                "Whether somebody is asked about what the sandbox does not allow. never: it is denied."
            ),
            "sandbox": choice(
                SANDBOXES.map(|(word, _)| word).to_vec(),
                "What its commands may do. Left out: read-only."
            ),
            "config": {
                "type": "object",
                "properties": { EFFORT: text("How hard the model thinks.") },
                "description": format!("Settings of Codex for this conversation: {}.", settings_in_words())
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
